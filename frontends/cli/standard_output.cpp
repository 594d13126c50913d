#include "frontends/cli/standard_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "core/base/terminal.hpp"
#include "core/trace/write_whole.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {

namespace {

void go_on(int) {}

/// 0, or why what was printed is not there. Some file systems say so only when a descriptor is closed.
int reason_of_failure(const std::optional<std::error_code>& thrown) {
  if (thrown) return thrown->value();
  errno = 0;
  std::cout.flush();
  const bool is_flushed = std::fflush(stdout) == 0;
  if (!is_flushed || std::ferror(stdout) != 0) return errno != 0 ? errno : EIO;
  const int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  return copy >= 0 && close(copy) != 0 ? errno : 0;
}

}  // namespace

void prepare_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    // Neither can be used the way it is opened here, and no program that is started has them.
    (void)::open("/dev/null", (descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  }
  // A handler, not SIG_IGN: programs that are started get the standard action back.
  struct sigaction present {};
  if (sigaction(SIGXFSZ, nullptr, &present) != 0 || present.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = go_on;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGXFSZ, &action, nullptr);
}

int end_standard_output(int code, const std::optional<std::error_code>& thrown) {
  const int reason = reason_of_failure(thrown);
  if (reason == 0) return code;
  if (reason == EPIPE) return 128 + SIGPIPE;
  tell_error(fmt::format("cannot write to standard output: {}; {}", std::strerror(reason), trace::write_advice(reason)),
             use_colour(STDERR_FILENO));
  return exit_code(ErrorCode::kBadInput);
}

}  // namespace crucible::cli
