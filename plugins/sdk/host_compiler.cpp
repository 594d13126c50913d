// One compiler process per text in a folder of its own; no shell, so no character of a path has a meaning.
#include "plugins/sdk/host_compiler.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "plugins/sdk/error.hpp"

extern char** environ;

namespace crucible::sdk {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNames[] = {"clang-19", "clang-22", "clang-21", "clang-20", "clang-18",
                                       "clang-17", "clang",    "cc",       "gcc"};

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

fs::path search(std::string_view name) {
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

fs::path find_compiler(const std::string& wanted) {
  if (!wanted.empty()) {
    const fs::path path = wanted.find('/') != std::string::npos ? fs::path(wanted) : search(wanted);
    if (is_program(path)) return path;
    throw Failure(CRUCIBLE_E_UNAVAILABLE,
                  "the C compiler " + wanted + " is not a program: give a path or a name in PATH");
  }
  for (const std::string_view name : kNames) {
    if (fs::path found = search(name); !found.empty()) return found;
  }
  throw Failure(CRUCIBLE_E_UNAVAILABLE, "no C compiler found (looked for clang, cc and gcc in PATH): install clang-19");
}

/// Removed with all that is in it.
struct Folder {
  fs::path path;
  Folder() {
    std::error_code error;
    fs::path parent = fs::temp_directory_path(error);
    if (error) parent = "/tmp";
    std::string name = (parent / "crucible-kernels-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw Failure(CRUCIBLE_E_UNAVAILABLE, "cannot create a folder like " + name + " for the compiler: " +
                                                std::strerror(errno) + "; set TMPDIR to a folder with space");
    }
    path = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
};

/// Exit status of a program whose both streams go to `log`. Errors: UNAVAILABLE when it cannot be started.
int run(const std::vector<std::string>& arguments, const fs::path& log) {
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
  if (ended < 0) return 0;  // a host that ignores SIGCHLD: judged by the file that the compiler wrote
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string read_text(const fs::path& path, std::size_t most) {
  std::ifstream stream(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (text.size() > most) text.resize(most);
  return text;
}

}  // namespace

std::unique_ptr<HostLibrary> HostLibrary::compile(const std::string& text, const std::string& compiler) {
  const fs::path program = find_compiler(compiler);
  const Folder folder;
  const fs::path source = folder.path / "kernels.c", object = folder.path / "kernels.so", log = folder.path / "log";
  std::ofstream stream(source, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream)
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "cannot write " + source.string() + ": set TMPDIR to a folder with space");
  // Every rounding stays where the text has it; -nostdlib: what the compiler makes of copies is found in this process.
  const int status =
      run({program.string(), "-x", "c", "-std=gnu17", "-O2", "-march=native", "-fno-math-errno", "-fno-trapping-math",
           "-ffp-contract=off", "-fPIC", "-shared", "-nostdlib", "-w", "-o", object.string(), source.string()},
          log);
  std::error_code error;
  if (status != 0 || !fs::exists(object, error)) {
    throw Failure(CRUCIBLE_E_INTERNAL,
                  program.string() + " ended with status " + std::to_string(status) + ":\n" + read_text(log, 4000));
  }
  std::unique_ptr<HostLibrary> library(new HostLibrary);
  library->log_ = read_text(log, 65536);
  library->binary_bytes_ = fs::file_size(object, error);
  library->handle_ = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle_ == nullptr) {
    throw Failure(CRUCIBLE_E_INTERNAL, std::string("what the C compiler made does not load: ") + dlerror());
  }
  return library;
}

HostLibrary::~HostLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

HostKernel HostLibrary::kernel(const std::string& name) const {
  return reinterpret_cast<HostKernel>(dlsym(handle_, name.c_str()));
}

std::uint64_t HostLibrary::kernel_bytes(const std::string& name) const {
  Dl_info info = {};
  const ElfW(Sym)* symbol = nullptr;
  void* const address = dlsym(handle_, name.c_str());
  if (address == nullptr) return 0;
  const int found = dladdr1(address, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT);
  return found == 0 || symbol == nullptr ? 0 : symbol->st_size;
}

bool is_c_name(std::string_view name) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && (i == 0 || c < '0' || c > '9')) return false;
  }
  return !name.empty();
}

}  // namespace crucible::sdk
