#include "frontends/cli/logged_run.hpp"

#include <CLI/CLI.hpp>
#include <csignal>
#include <utility>

#include "core/base/terminal.hpp"

namespace crucible::cli {
namespace {

volatile std::sig_atomic_t signal_that_came = 0;
void note(int signal) { signal_that_came = signal; }

/// While it lives, SIGINT and SIGTERM are noted once. A signal that the caller ignores stays ignored.
class Interruptions {
 public:
  Interruptions() {
    signal_that_came = 0;
    for (std::size_t at = 0; at < kCount; ++at) {
      sigaction(kSignals[at], nullptr, &before_[at]);
      if (before_[at].sa_handler == SIG_IGN) continue;
      struct sigaction action = {};
      action.sa_handler = note;
      action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
      sigaction(kSignals[at], &action, nullptr);
    }
  }
  Interruptions(const Interruptions&) = delete;
  ~Interruptions() {
    for (std::size_t at = 0; at < kCount; ++at) sigaction(kSignals[at], &before_[at], nullptr);
  }

 private:
  static constexpr std::size_t kCount = 2;
  static constexpr int kSignals[kCount] = {SIGINT, SIGTERM};
  struct sigaction before_[kCount] = {};
};

}  // namespace

void add_log_switches(CLI::App& command, LogSwitches& switches) {
  CLI::Option* const log = command.add_option(
      "--log", switches.file,
      "Append what runs to this log, a chain of records with hashes of inputs, outputs and states: crucible log");
  command.add_option("--log-key", switches.key, "Sign each record with this secret Ed25519 key (PEM)")->needs(log);
  command
      .add_option("--log-every", switches.every,
                  "Log every N-th iteration, and the last one (default: each; of more than 1000 so many as make 1000)")
      ->check(CLI::Range(1u, 1000000u))
      ->needs(log);
}

Result<std::unique_ptr<LoggedRun>> LoggedRun::open(const LogSwitches& switches) {
  CRUCIBLE_TRY(runlog::LogFile file, runlog::LogFile::open(switches.file, switches.key));
  return std::unique_ptr<LoggedRun>(new LoggedRun(std::move(file)));
}

Result<void> LoggedRun::run(replay::Replay& replay, const runlog::RunFacts& facts) {
  CRUCIBLE_TRY_VOID(recorder_.begin(replay, facts));
  int signal = 0;
  {
    const Interruptions watched;
    CRUCIBLE_TRY(signal, recorder_.run(replay, [] { return static_cast<int>(signal_that_came); }));
  }
  if (signal == 0) return {};
  if (const Result<void> written = file_.finish(); !written) tell_error(written.error().message, false);
  std::signal(signal, SIG_DFL);
  raise(signal);
  return Error{ErrorCode::kInternal, "a signal did not end the process"};
}

Result<int> LoggedRun::finish(const Result<int>& code) {
  if (!code) recorder_.failed(code.error().message);
  const Result<void> written = file_.finish();
  if (!code || written) return code;
  return written.error();
}

}  // namespace crucible::cli
