// The parent's side: one loop over the pipes of all running children. Everything is decided from three things: the
// verdict that the child wrote, how it ended, and the clock.
#include "plugins/conformance/runner.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "plugins/conformance/settings_json.hpp"

namespace crucible::conformance {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  std::size_t index = 0;
  pid_t pid = -1;
  int output = -1, verdict = -1;  // read ends; -1 once closed
  std::string output_text, verdict_text;
  Clock::time_point start, limit;
  bool timed_out = false;
};

std::uint64_t machine_memory_bytes() {
  struct sysinfo info = {};
  return sysinfo(&info) == 0 ? std::uint64_t{info.totalram} * info.mem_unit : std::uint64_t{8} << 30;
}

/// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(const std::vector<char*>& argv, int output, int verdict, std::uint64_t memory_bytes) {
  setpgid(0, 0);  // so that what the plugin starts is killed with it
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadow memory counts as data
  const rlimit memory = {memory_bytes, memory_bytes};
  setrlimit(RLIMIT_DATA, &memory);
#endif
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(output, 1);
  dup2(output, 2);
  if (verdict != 3) {
    dup2(verdict, 3);
  } else {
    fcntl(3, F_SETFD, 0);
  }
  for (int descriptor = 4; descriptor < 256; ++descriptor) close(descriptor);
  execv(argv[0], argv.data());
  _exit(127);
}

bool start(const Command& command, const std::string& argument, std::uint64_t memory_bytes, Child& child) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int output[2], verdict[2];
  if (pipe2(output, O_CLOEXEC) != 0) return false;
  if (pipe2(verdict, O_CLOEXEC) != 0) return close(output[0]), close(output[1]), false;
  child.pid = fork();
  if (child.pid == 0) become(argv, output[1], verdict[1], memory_bytes);
  close(output[1]);
  close(verdict[1]);
  child.output = output[0];
  child.verdict = verdict[0];
  return child.pid > 0;
}

/// Reads what is there; closes at the end. Keeps the last kOutputBytes of output.
void drain(int& descriptor, std::string& text) {
  char buffer[4096];
  const ssize_t count = read(descriptor, buffer, sizeof(buffer));
  if (count > 0) {
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > 2 * kOutputBytes) text.erase(0, text.size() - kOutputBytes);
    return;
  }
  if (count < 0 && errno == EINTR) return;
  close(descriptor);
  descriptor = -1;
}

/// How the process ended, where that is the news; "" for an ordinary end.
std::string ending(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("the process was ended by SIG{} ({})", sigabbrev_np(WTERMSIG(status)),
                       strsignal(WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) != 0) return fmt::format("the process ended with exit code {}", WEXITSTATUS(status));
  return "";
}

void judge(const Child& child, const Case& entry, int status, double limit_s, CaseResult& result) {
  result.output = child.output_text;
  const std::string expected = entry.rule;
  const auto verdict = nlohmann::json::parse(child.verdict_text, nullptr, false);
  if (child.timed_out) {
    result.outcome = Outcome::kFailed;
    result.expected = fmt::format("{}, within {:.0f} s", expected, limit_s);
    result.got = "a hang: the process was still running at the time limit and was killed";
    return;
  }
  const std::string end = ending(status);
  if (!verdict.is_object()) {
    result.outcome = Outcome::kFailed;
    result.expected = expected;
    result.got = end.empty() ? "the process exited with code 0 in the middle of the case" : end;
    return;
  }
  const std::string outcome = verdict.value("outcome", "");
  result.expected = verdict.value("expected", "");
  result.got = verdict.value("got", "");
  if (verdict.contains("facts")) result.facts = verdict["facts"].dump();
  result.outcome = outcome == "passed"        ? Outcome::kPassed
                   : outcome == "unsupported" ? Outcome::kUnsupported
                                              : Outcome::kFailed;
  if (!end.empty() && result.outcome != Outcome::kFailed) {
    result.outcome = Outcome::kFailed;
    result.expected = "the process ends in order after the case";
    result.got = end;
  }
}

/// Waits for output, an end or the next time limit of any child.
void wait_for_news(std::vector<Child>& children) {
  std::vector<pollfd> watched;
  auto nearest = Clock::now() + std::chrono::milliseconds(500);
  for (const Child& child : children) {
    if (child.output >= 0) watched.push_back({child.output, POLLIN, 0});
    if (child.verdict >= 0) watched.push_back({child.verdict, POLLIN, 0});
    if (child.output < 0 && child.verdict < 0) nearest = Clock::now() + std::chrono::milliseconds(1);
    nearest = std::min(nearest, child.limit);
  }
  const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(nearest - Clock::now()).count();
  poll(watched.data(), watched.size(), static_cast<int>(std::max<std::int64_t>(time, 0)) + 1);
  for (const pollfd& one : watched) {
    if (one.revents == 0) continue;
    for (Child& child : children) {
      if (child.output == one.fd) drain(child.output, child.output_text);
      if (child.verdict == one.fd) drain(child.verdict, child.verdict_text);
    }
  }
}

}  // namespace

std::vector<CaseResult> run_cases(const Command& command, const Settings& settings, const std::vector<Case>& cases,
                                  const Limits& limits, unsigned jobs,
                                  const std::function<void(const CaseResult&)>& done) {
  const std::uint64_t memory = limits.memory_bytes == 0 ? machine_memory_bytes() : limits.memory_bytes;
  std::vector<CaseResult> results(cases.size());
  std::vector<Child> running;
  std::size_t next = 0;
  while (next < cases.size() || !running.empty()) {
    while (next < cases.size() && running.size() < std::max(jobs, 1u)) {
      const Case& entry = cases[next];
      CaseResult& result = results[next];
      result.name = entry.name;
      result.tier = entry.tier;
      result.rule = entry.rule;
      Child child;
      child.index = next++;
      child.start = Clock::now();
      const double limit_s = entry.time_limit_s * limits.time_factor;
      child.limit = child.start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
      if (start(command, child_argument(settings, entry.name), memory, child)) {
        running.push_back(std::move(child));
      } else {
        result.outcome = Outcome::kFailed;
        result.expected = "a child process for the case";
        result.got = std::strerror(errno);
        done(result);
      }
    }
    wait_for_news(running);
    for (std::size_t i = 0; i < running.size();) {
      Child& child = running[i];
      if (!child.timed_out && Clock::now() >= child.limit) {
        child.timed_out = true;
        kill(-child.pid, SIGKILL);
        kill(child.pid, SIGKILL);
      }
      int status = 0;
      if (waitpid(child.pid, &status, WNOHANG) != child.pid) {
        ++i;
        continue;
      }
      kill(-child.pid, SIGKILL);  // what it left behind
      for (const auto& [descriptor, text] :
           {std::pair(&child.output, &child.output_text), {&child.verdict, &child.verdict_text}}) {
        while (*descriptor >= 0) {
          pollfd rest = {*descriptor, POLLIN, 0};
          if (poll(&rest, 1, 0) != 1) break;
          drain(*descriptor, *text);
        }
        if (*descriptor >= 0) close(*descriptor);
        *descriptor = -1;
      }
      CaseResult& result = results[child.index];
      result.time_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - child.start).count());
      judge(child, cases[child.index], status, cases[child.index].time_limit_s * limits.time_factor, result);
      if (result.output.size() > kOutputBytes) result.output.erase(0, result.output.size() - kOutputBytes);
      done(result);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return results;
}

}  // namespace crucible::conformance
