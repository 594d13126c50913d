// Running a compiler that is a program of its own: found by name, in a folder that goes away, without a shell, so no
// character of a path has a meaning.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::sdk {

/// `name` with a '/' is a path, else it is looked for in PATH. Empty when there is no such program. Threads: any.
std::filesystem::path find_program(std::string_view name);

/// The compiler that the option `option` names, else the first of `names` that PATH has. Threads: any. Errors:
/// UNAVAILABLE saying what was looked for and what to do: `hint`, "install the package acme-compiler".
std::filesystem::path require_program(const std::string& wanted, std::span<const std::string_view> names,
                                      std::string_view option, std::string_view hint);

/// A new folder below the system's for temporary files, removed with all that is in it.
class ScratchFolder {
 public:
  /// Errors: UNAVAILABLE when none can be made.
  ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();
  const std::filesystem::path& path() const { return path_; }
  /// The file `name` in it. Errors: UNAVAILABLE when it cannot be written.
  std::filesystem::path write(std::string_view name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

/// The exit status of a program whose both streams go to the file `log`; 128 and the signal's number when one ended it.
/// A host that ignores SIGCHLD never learns it and gets 0: judge by the file that the program should have written.
/// Threads: any. Errors: UNAVAILABLE when it cannot be started.
int run_program(const std::vector<std::string>& arguments, const std::filesystem::path& log);

/// A file's bytes, `most` of them at most; "" when it cannot be read.
std::string read_bytes(const std::filesystem::path& path, std::size_t most = SIZE_MAX);

}  // namespace crucible::sdk
