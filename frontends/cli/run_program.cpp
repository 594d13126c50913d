// fork, exec and waitpid, with the signals that may come in between.
#include "frontends/cli/run_program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace crucible::cli {

namespace {

volatile sig_atomic_t child_process = 0;

/// Passes a signal on that was sent to us alone; one from the terminal has reached the program already.
void pass_on(int signal, siginfo_t* information, void*) {
  if (information->si_code <= 0 && child_process > 0 && information->si_pid != child_process)
    kill(static_cast<pid_t>(child_process), signal);
}

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

void handle_signals() {
  for (const int signal : kSignals) {
    struct sigaction present {};
    if (sigaction(signal, nullptr, &present) != 0 || present.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

/// In the child: becomes the program, or writes errno into `failed` and ends.
[[noreturn]] void become_program(const Launch& launch, int failed) {
  if (launch.output_to_error) dup2(STDERR_FILENO, STDOUT_FILENO);
  if (launch.lock >= 0) dup2(launch.lock, launch.lock_in_child);
  const char* present = std::getenv("PYTHONPATH");
  const std::string path =
      present == nullptr || *present == '\0' ? launch.start_folder : launch.start_folder + ":" + present;
  setenv("PYTHONPATH", path.c_str(), 1);
  setenv("CRUCIBLE_RECORDING", launch.config.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : launch.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const int reason = errno;
  (void)!write(failed, &reason, sizeof reason);
  _exit(127);
}

}  // namespace

Result<int> run_program(const Launch& launch) {
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0)
    return Error{ErrorCode::kInternal, fmt::format("cannot make a pipe: {}", std::strerror(errno))};
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);  // until the handler knows whom to pass signals to
  const pid_t child = fork();
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    become_program(launch, failed[1]);
  }
  const int fork_reason = errno;
  child_process = child;
  if (child > 0) handle_signals();
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(failed[1]);
  int reason = 0;
  const bool not_started = child > 0 && read(failed[0], &reason, sizeof reason) == sizeof reason;
  close(failed[0]);
  if (child < 0)
    return Error{ErrorCode::kBadInput, fmt::format("cannot start a process: {}", std::strerror(fork_reason))};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  child_process = 0;
  if (not_started) {
    const bool is_script = launch.command[0].ends_with(".py");
    return Error{ErrorCode::kBadInput,
                 fmt::format("cannot run '{}': {}; give the command as you would type it after --{}", launch.command[0],
                             std::strerror(reason), is_script ? ": python " + launch.command[0] : "")};
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace crucible::cli
