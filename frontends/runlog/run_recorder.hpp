// From a replay to the records of its run: how it began, its iterations, where it went on, how it ended. Where the
// records go is the caller's affair: a file (log_file.hpp), or memory, to be compared with those of another run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "frontends/replay/replay.hpp"
#include "frontends/runlog/record.hpp"

namespace crucible::runlog {

/// What the recorder cannot see by itself.
struct RunFacts {
  std::string file;                            // the recording, or the capsule
  std::map<std::string, std::string> options;  // RunBegin::options
  std::uint32_t iterations = 0;                // that are to run; 0: all
  std::uint32_t every = 0;                     // log every so many; 0: each, of more than kMost so many as make kMost
  static constexpr std::uint32_t kMost = 1000;
};

/// Threads: one.
class RunRecorder {
 public:
  explicit RunRecorder(std::function<void(const Record&)> sink) : sink_(std::move(sink)) {}

  /// Starts the replay and records how it begins. Errors: those of Replay::start(); of reading its states.
  Result<void> begin(replay::Replay& replay, const RunFacts& facts);
  /// Runs what is missing, one iteration after the other. `interrupted` is asked before each and gives 0, or the number
  /// of a signal, which ends the run with a record that says so. Returns that number. Errors: those of Replay::run(),
  /// and of reading states and outputs.
  Result<int> run(replay::Replay& replay, const std::function<int()>& interrupted);
  /// The end of a run that ran everything. Nothing where it was told already.
  void done(std::optional<bool> verified);
  /// The end of one that did not; nothing where it did not begin, or ended.
  void failed(const std::string& why);

 private:
  Result<void> log_iteration(replay::Replay& replay, std::uint32_t index);
  void note_losses(const replay::Replay& replay);
  void end(RunEnd end);

  std::function<void(const Record&)> sink_;
  bool has_begun_ = false, has_ended_ = false;
  std::uint32_t iterations_ = 0, every_ = 1, ran_ = 0;
  std::size_t losses_ = 0;          // that are in the log
  std::vector<NamedState> states_;  // as read last
  bool is_current_ = false;         // whether that is after the iteration that ran last
};

/// What ran, and the program that it was lowered to.
Source source_of(const std::string& file, const trace::Trace& trace);
ProgramName program_name(const trace::Trace& trace, const graph::Variants& variants);

}  // namespace crucible::runlog
