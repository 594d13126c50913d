// What a process may still do once it reads what strangers wrote: the last line of defence, behind all checks of the
// reader.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace crucible::cli {

struct Confinement {
  std::vector<std::filesystem::path>
      writable;  // files, and folders with all below; those that do not exist are passed over
  std::vector<std::filesystem::path> runnable;  // programs, and folders with all below
  std::uint64_t memory_bytes = 0;               // of addresses; 0: as many as before
};

/// From now on this process and all that it starts write nowhere but to `writable` and to what is open already, run
/// nothing but `runnable` and what those need, open no socket, signal and look into no process but their own, gain no
/// rights, and leave no core file. Reading files stays free. Landlock and a seccomp filter do it; there is no way back.
/// Call it while the process has one thread: both are of threads. Returns what this system does not offer, a part of a
/// sentence each; empty: everything is in force.
std::vector<std::string> confine(const Confinement& to);

}  // namespace crucible::cli
