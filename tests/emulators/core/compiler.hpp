// Compiles translated kernels to shared objects with clang, in a child process, and keeps them by the hash of all that
// goes into them. For the skins, which know how to make the text.
#pragma once

#include <expected>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::emulator {

struct CommandResult {
  int status = -1;     // of exit; 128 + n when signal n ended it; -1 when it could not be started
  std::string output;  // both streams, at most 1 MiB
};
/// Runs a program found through PATH and waits for it. Threads: any.
CommandResult run_command(const std::vector<std::string>& arguments);

/// CRUCIBLE_EMU_COMPILER, else clang-19.
std::string compiler();

struct SharedObjectText {
  std::string text;
  std::string language = "c";              // as clang's -x has it
  std::map<std::string, std::string> files = {};  // that the text includes, by name
  std::vector<std::string> flags = {};
};

/// The file of the compiled text; it stays in the cache. Errors: the compiler's words. Threads: any; processes too.
std::expected<std::filesystem::path, std::string> compile_shared_object(const SharedObjectText& source);

/// A folder that is removed with the object, under the cache's; its path is empty when it could not be made.
class ScratchFolder {
 public:
  ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();
  const std::filesystem::path& path() const { return path_; }
  /// Writes a file into it; names with folders in them are made. False when it could not be written.
  bool write(const std::string& name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace crucible::emulator
