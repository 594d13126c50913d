// Child processes and the cache of kernels: see compiler.hpp.
#include "tests/emulators/core/compiler.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

constexpr std::size_t kMostOutput = 1 << 20;

std::filesystem::path cache_folder() {
  std::filesystem::path folder = settings().cache;
  std::error_code error;
  if (folder.empty()) {
    folder = std::filesystem::temp_directory_path(error) / ("crucible-emulator-" + std::to_string(getuid()));
  }
  std::filesystem::create_directories(folder, error);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  return folder;
}

/// FNV-1a.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0xff);  // "ab" "c" is not "a" "bc"
  }
  std::string hex() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value_));
    return text;
  }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 1099511628211ull; }
  std::uint64_t value_ = 14695981039346656037ull;
};

int wait_for(pid_t child) {
  int status = 0;
  pid_t ended = -1;
  do {
    ended = waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  // A host that ignores SIGCHLD has its children reaped by the system: then only what they made can be judged.
  if (ended < 0) return 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// posix_spawn: the host may have many threads and much memory. A sanitizer that was preloaded into it is not for the
/// compiler.
int spawn(const std::vector<std::string>& arguments, int output, pid_t& child) {
  std::vector<char*> words, environment;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "LD_PRELOAD=", 11) != 0) environment.push_back(*variable);
  }
  environment.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
  const int error = posix_spawnp(&child, words[0], &files, nullptr, words.data(), environment.data());
  posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& arguments) {
  CommandResult result;
  std::FILE* const output = std::tmpfile();
  if (output == nullptr) {
    result.output = "no temporary file can be made: " + std::string(std::strerror(errno));
    return result;
  }
  pid_t child = 0;
  if (const int error = spawn(arguments, fileno(output), child)) {
    result.output = "cannot start " + arguments[0] + ": " + std::strerror(error) +
                    "; install clang-19 or set CRUCIBLE_EMU_COMPILER";
  } else {
    result.status = wait_for(child);
    std::rewind(output);
    result.output.resize(kMostOutput);
    result.output.resize(std::fread(result.output.data(), 1, kMostOutput, output));
  }
  std::fclose(output);
  return result;
}

std::string compiler() { return settings().compiler.empty() ? "clang-19" : settings().compiler; }

ScratchFolder::ScratchFolder() {
  std::string name = (cache_folder() / "making-XXXXXX").string();
  if (mkdtemp(name.data()) != nullptr) path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  if (!path_.empty() && !settings().keep) std::filesystem::remove_all(path_, error);
}

bool ScratchFolder::write(const std::string& name, std::string_view text) const {
  std::error_code error;
  const std::filesystem::path file = path_ / name;
  std::filesystem::create_directories(file.parent_path(), error);
  std::ofstream stream(file, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  return static_cast<bool>(stream.flush());
}

std::expected<std::filesystem::path, std::string> compile_shared_object(const SharedObjectText& source) {
  Hash hash;
  for (const std::string& part : {compiler(), source.language, source.text}) hash.add(part);
  for (const auto& [name, text] : source.files) hash.add(name), hash.add(text);
  for (const std::string& flag : source.flags) hash.add(flag);
  const std::filesystem::path made = cache_folder() / (hash.hex() + ".so");
  std::error_code error;
  if (std::filesystem::exists(made, error)) return made;

  const ScratchFolder folder;
  bool written = !folder.path().empty() && folder.write("kernels", source.text);
  for (const auto& [name, text] : source.files) written = written && folder.write(name, text);
  if (!written)
    return std::unexpected("the emulator cannot write to " + cache_folder().string() + ": set CRUCIBLE_EMU_CACHE");
  std::vector<std::string> arguments = {compiler(), "-shared", "-fPIC", "-I" + folder.path().string()};
  arguments.insert(arguments.end(), source.flags.begin(), source.flags.end());
  const std::string output = (folder.path() / "kernels.so").string();
  const std::string input = (folder.path() / "kernels").string();
  for (const std::string& word : {std::string("-x"), source.language, input, std::string("-o"), output,
                                  std::string("-lm")}) {
    arguments.push_back(word);
  }
  const CommandResult result = run_command(arguments);
  if (result.status != 0) return std::unexpected(result.output);
  // Another process may have made the same: the last one stays, and both are right.
  std::filesystem::rename(output, made, error);
  if (error) return std::unexpected("the emulator cannot write " + made.string() + ": " + error.message());
  return made;
}

}  // namespace crucible::emulator
