// A program that runs beside us and talks to us in lines, over a socket of its own: its standard streams stay its own.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::cli {

/// Owns: the process and all that it starts in its process group, which end with it. Threads: one at a time.
class ChildProcess {
 public:
  /// Makes the socket. Errors: kInternal.
  static Result<ChildProcess> create();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess() { end(); }

  /// The number of the socket in the child.
  int descriptor() const { return theirs_; }
  /// Runs the program with these variables over our own environment; its input is empty, its output is dropped, its
  /// errors go to the file `errors`. It is killed when we end. Once. Errors: kBadInput when it cannot be run, with the
  /// reason.
  Result<void> start(const std::vector<std::string>& words,
                     const std::vector<std::pair<std::string, std::string>>& environment,
                     const std::filesystem::path& errors);
  /// The next line without its newline. Errors: kUnavailable when it has closed its end ("ended"), or nothing came for
  /// so long ("silent").
  Result<std::string> read_line(int timeout_seconds);
  /// True when the child's end is open.
  bool write_line(const std::string& line);
  /// Waits for a process that has closed its end, or kills one that has not: its exit code, or 128 + the number of its
  /// signal.
  int end();

 private:
  ChildProcess() = default;
  int ours_ = -1, theirs_ = -1;
  pid_t process_ = -1;
  int exit_code_ = 0;
  bool has_closed_ = false;
  std::string read_;  // what has come and was not asked for yet
};

}  // namespace crucible::cli
