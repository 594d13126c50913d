// A replay whose run is logged: the switches of `replay --log`, the file, and Ctrl-C, which ends a log with a word.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/result.hpp"
#include "frontends/runlog/log_file.hpp"
#include "frontends/runlog/run_recorder.hpp"

namespace CLI {
class App;
}

namespace crucible::cli {

struct LogSwitches {
  std::string file, key;
  std::uint32_t every = 0;  // 0: as RunFacts
};

void add_log_switches(CLI::App& command, LogSwitches& switches);

/// Threads: one, and one of these in a process at a time: SIGINT and SIGTERM are its own while it runs iterations.
class LoggedRun {
 public:
  /// Errors: those of LogFile::open(), before anything runs.
  static Result<std::unique_ptr<LoggedRun>> open(const LogSwitches& switches);
  /// Runs the iterations and logs them. A signal that comes meanwhile ends the log, then the process, by that signal;
  /// a second one ends it at once. Errors: those of RunRecorder.
  Result<void> run(replay::Replay& replay, const runlog::RunFacts& facts);
  void done(std::optional<bool> verified) { recorder_.done(verified); }
  /// After everything: an error ends the log, too. Returns `code`, or, where that is no error, what kept the log from
  /// being written.
  Result<int> finish(const Result<int>& code);

 private:
  explicit LoggedRun(runlog::LogFile file)
      : file_(std::move(file)), recorder_([this](const runlog::Record& record) { file_.append(record); }) {}

  runlog::LogFile file_;
  runlog::RunRecorder recorder_;
};

}  // namespace crucible::cli
