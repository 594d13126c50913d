// Finding and running programs: see child_program.hpp.
#include "plugins/sdk/child_program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "plugins/sdk/error.hpp"

extern char** environ;

namespace crucible::sdk {

namespace fs = std::filesystem;

namespace {

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

fs::path require_program(const std::string& wanted, std::span<const std::string_view> names, std::string_view option,
                         std::string_view hint) {
  if (!wanted.empty()) {
    if (fs::path path = find_program(wanted); !path.empty()) return path;
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "the compiler " + wanted + ", which the option " + std::string(option) +
                                              " names, is not a program: give a path or a name in PATH");
  }
  std::string looked;
  for (const std::string_view name : names) {
    if (fs::path found = find_program(name); !found.empty()) return found;
    looked += (looked.empty() ? "" : ", ") + std::string(name);
  }
  throw Failure(CRUCIBLE_E_UNAVAILABLE, "no compiler of kernels found (looked for " + looked + " in PATH): " +
                                            std::string(hint) + ", or name one with the option " + std::string(option));
}

fs::path find_program(std::string_view name) {
  if (name.find('/') != std::string_view::npos) return is_program(name) ? fs::path(name) : fs::path();
  const char* variable = std::getenv("PATH");
  std::string_view rest = variable != nullptr && *variable != '\0' ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const fs::path folder(rest.substr(0, colon));
    if (folder.is_absolute() && is_program(folder / name)) return folder / name;
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  }
  return {};
}

ScratchFolder::ScratchFolder() {
  std::error_code error;
  fs::path parent = fs::temp_directory_path(error);
  if (error) parent = "/tmp";
  std::string name = (parent / "crucible-kernels-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "cannot create a folder like " + name + " for the compiler: " +
                                              std::strerror(errno) + "; set TMPDIR to a folder with space");
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

fs::path ScratchFolder::write(std::string_view name, std::string_view text) const {
  fs::path file = path_ / name;
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream)
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "cannot write " + file.string() + ": set TMPDIR to a folder with space");
  return file;
}

int run_program(const std::vector<std::string>& arguments, const fs::path& log) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw Failure(CRUCIBLE_E_UNAVAILABLE, "cannot start " + arguments[0] + ": " + std::strerror(error));
  int status = 0;
  pid_t ended = -1;
  do {
    ended = waitpid(pid, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (ended < 0) return 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string read_bytes(const fs::path& path, std::size_t most) {
  std::ifstream stream(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (text.size() > most) text.resize(most);
  return text;
}

}  // namespace crucible::sdk
