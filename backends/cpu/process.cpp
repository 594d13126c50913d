// posix_spawn, because the host may have many threads and much memory: no copy of the process is made.
#include "backends/cpu/process.hpp"
#include "backends/cpu/sdk.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>


namespace crucible_cpu {
namespace {

/// The child's streams and signals; destroyed with the object.
struct SpawnSettings {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  explicit SpawnSettings(const std::filesystem::path& output) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    for (const int signal : {SIGPIPE, SIGCHLD, SIGINT, SIGTERM, SIGQUIT}) sigaddset(&standard, signal);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

/// 0 on success, else the system's error number.
int start(const Command& command, pid_t& pid) {
  const SpawnSettings settings(command.output);
  std::vector<char*> arguments;
  for (const std::string& argument : command.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  return posix_spawn(&pid, arguments[0], &settings.files, &settings.attributes, arguments.data(), environ);
}

int wait_for(pid_t pid) {
  int status = 0;
  pid_t ended = -1;
  do {
    ended = waitpid(pid, &status, 0);
  } while (ended < 0 && errno == EINTR);
  // A host that ignores SIGCHLD has its children reaped by the system: then only what they wrote can be judged.
  if (ended < 0) return 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::vector<int> run_all(std::span<const Command> commands) {
  std::vector<pid_t> children;
  std::string failure;
  for (const Command& command : commands) {
    pid_t pid = 0;
    if (const int error = start(command, pid)) {
      failure = "cannot start " + command.arguments[0] + ": " + std::strerror(error);
      break;
    }
    children.push_back(pid);
  }
  std::vector<int> statuses;
  for (const pid_t pid : children) statuses.push_back(wait_for(pid));
  if (!failure.empty()) throw Failure(CRUCIBLE_E_UNAVAILABLE, failure);
  return statuses;
}

}  // namespace crucible_cpu
