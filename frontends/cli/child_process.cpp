#include "frontends/cli/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace crucible::cli {
namespace {

constexpr int kPatienceMs = 5000;  // of a process that says that it ends

/// In the child: becomes the program, or writes errno into `failed` and ends.
[[noreturn]] void become_program(const std::vector<std::string>& words,
                                 const std::vector<std::pair<std::string, std::string>>& environment,
                                 const std::string& errors, int descriptor, int failed, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it ended before that was set
  const int nothing = open("/dev/null", O_RDWR),
            said = open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(said < 0 ? nothing : said, STDERR_FILENO);
  if (nothing > STDERR_FILENO) close(nothing);
  if (said > STDERR_FILENO) close(said);
  fcntl(descriptor, F_SETFD, 0);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  const int reason = errno;
  (void)!write(failed, &reason, sizeof reason);
  _exit(127);
}

}  // namespace

Result<ChildProcess> ChildProcess::create() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error{ErrorCode::kInternal, fmt::format("cannot make a socket: {}", std::strerror(errno))};
  }
  ChildProcess child;
  child.ours_ = ends[0];
  child.theirs_ = ends[1];
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : ours_(std::exchange(other.ours_, -1)),
      theirs_(std::exchange(other.theirs_, -1)),
      process_(std::exchange(other.process_, -1)),
      exit_code_(other.exit_code_),
      has_closed_(other.has_closed_),
      read_(std::move(other.read_)) {}

Result<void> ChildProcess::start(const std::vector<std::string>& words,
                                 const std::vector<std::pair<std::string, std::string>>& environment,
                                 const std::filesystem::path& errors) {
  int failed[2];
  if (pipe2(failed, O_CLOEXEC) != 0)
    return Error{ErrorCode::kInternal, fmt::format("cannot make a pipe: {}", std::strerror(errno))};
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) become_program(words, environment, errors.string(), theirs_, failed[1], parent);
  const int fork_reason = errno;
  close(failed[1]);
  close(std::exchange(theirs_, -1));
  int reason = 0;
  const bool not_started = process_ > 0 && read(failed[0], &reason, sizeof reason) == sizeof reason;
  close(failed[0]);
  if (process_ < 0)
    return Error{ErrorCode::kBadInput, fmt::format("cannot start a process: {}", std::strerror(fork_reason))};
  if (not_started)
    return Error{ErrorCode::kBadInput, fmt::format("cannot run '{}': {}", words[0], std::strerror(reason))};
  return {};
}

Result<std::string> ChildProcess::read_line(int timeout_seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_seconds);
  for (;;) {
    if (const std::size_t at = read_.find('\n'); at != std::string::npos) {
      std::string line = read_.substr(0, at);
      read_.erase(0, at + 1);
      return line;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    pollfd wait{.fd = ours_, .events = POLLIN, .revents = 0};
    const int came = left > 0 ? poll(&wait, 1, static_cast<int>(left)) : 0;
    if (came == 0) return Error{ErrorCode::kUnavailable, "silent"};
    char bytes[4096];
    const ssize_t size = came < 0 ? -1 : recv(ours_, bytes, sizeof bytes, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      has_closed_ = true;
      return Error{ErrorCode::kUnavailable, "ended"};
    }
    read_.append(bytes, static_cast<std::size_t>(size));
  }
}

bool ChildProcess::write_line(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t size = send(ours_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return false;
    done += static_cast<std::size_t>(size);
  }
  return true;
}

int ChildProcess::end() {
  if (ours_ >= 0) close(std::exchange(ours_, -1));
  if (theirs_ >= 0) close(std::exchange(theirs_, -1));
  if (process_ <= 0) return exit_code_;
  int status = 0;
  pid_t ended = 0;
  for (int waited = 0; has_closed_ && ended == 0 && waited < kPatienceMs; waited += 10) {
    ended = waitpid(process_, &status, WNOHANG);
    if (ended == 0) usleep(10'000);
  }
  kill(-process_, SIGKILL);  // what it started and left behind too
  if (ended == 0) {
    kill(process_, SIGKILL);
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  process_ = -1;
  return exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace crucible::cli
