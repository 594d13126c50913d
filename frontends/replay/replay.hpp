// A replay from a file to its report, for whoever embeds it: reads a recording, chooses and opens a device as the
// `crucible` command does, runs the recorded iterations from the recorded start and says, as data, how it went.
// `crucible replay` is written over it. It prints nothing (observer.hpp). docs/embedding.md has the few lines that most
// programs need.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/replay/read_work.hpp"
#include "frontends/replay/replay_report.hpp"
#include "frontends/replay/replay_run.hpp"
#include "frontends/replay/spread_run.hpp"

namespace crucible::replay {

struct ReplayOptions {
  std::string file;          // a recording (.crtrace), or a capsule
  DeviceChoice device = {};  // .backend: a plugin's name, "auto" or "reference"; "": as the configuration says
  aten::Opaques opaques = aten::Opaques::kMissing;
  bool fuse = true;                // false: one kernel per op
  bool verify = false;             // compare losses, outputs and the final state with the recorded ones
  bool hash = false;               // the hash of the results, without a verdict; `verify` has it too
  SpreadOptions sensitivity = {};  // with `verify`: what is done before a verification says no
  runtime::MemoryOptions memory = {};
  std::string tune = "kept";  // tuning.hpp
  /// Hears what devices and host are busy with; shared with the caller (run_timeline.hpp). Null: nobody asks.
  std::shared_ptr<runtime::BusyTimes> busy = nullptr;
};

/// One replay of one recording. Each call does what comes before it and was not done yet, so run() alone is enough;
/// after an error of one of them only the destructor is of use. Owns: all that it opened; what it returns by reference
/// lives as long as it does. Threads: one caller at a time.
class Replay {
 public:
  explicit Replay(ReplayOptions options, Observer observer = {});
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// The configuration under which it will run is free of problems. Nothing is read yet. Errors: kUsage with every
  /// problem.
  Result<void> check();
  /// Reads the recording and lowers it. Errors: those of read_work().
  Result<void> read();
  /// Chooses and opens the device. Errors: those of open_device().
  Result<void> open();
  /// Plans, compiles and loads the recorded start; nothing has run yet. Errors: those of ReplayRun.
  Result<void> start();
  /// Runs the iterations that are missing until `iterations` have run; 0: all that were
  /// recorded. A device that is lost is replaced where the fallback policy allows it. Errors: those of ReplayRun;
  /// kUsage for more iterations than were recorded.
  Result<void> run(std::uint32_t iterations = 0);
  /// What has run so far; with `verify` also the verdict, for which all iterations have to have run. A verdict "not
  /// verified" is no error. The report borrows this replay. Errors: those of the verification; kUsage where iterations
  /// are missing for one.
  Result<ReplayReport> report();
  /// Runs the same iterations again `rounds` times from the recorded start: their times take the place of those in the
  /// report. A device that is lost here is not replaced. Errors: those of the session.
  Result<void> repeat(std::uint32_t rounds, ReplayReport& report);

  /// Asks something of the session, after start(); of the next device's where one is lost meanwhile, which has come as
  /// far. Errors: those of `what`; kUnavailable for a lost device that nobody replaces.
  Result<void> ask(const std::function<Result<void>(runtime::Session&)>& what);

  /// Before start(): the memory that it may take, where that is known only after check().
  void set_memory(runtime::MemoryOptions memory) { options_.memory = std::move(memory); }

  /// After read().
  const trace::Trace& trace() const { return work_->trace; }
  const graph::Variants& variants() const { return *work_->variants; }
  /// Of all variants.
  std::uint32_t iterations() const { return static_cast<std::uint32_t>(variants().turns.size()); }
  /// After open(). Its device is null where the reference interpreter runs.
  const OpenedDevice& opened() const { return opened_; }
  /// After run(): losses, times and outputs of each iteration, and the session of the device that ran last.
  const std::vector<runtime::IterationResult>& results() const { return run_->run().results(); }
  runtime::Session& session() { return run_->run().session(); }
  /// After start(): devices that were lost, in their order; mostly none.
  std::vector<runtime::DeviceLoss> losses() const { return run_->losses(); }

 private:
  Result<void> judge(ReplayReport& report);

  ReplayOptions options_;
  Observer observer_;
  std::optional<bool> keeps_composites_;  // none: not checked yet
  std::optional<Work> work_;
  bool is_open_ = false;
  OpenedDevice opened_;
  std::optional<ReplayRun> run_;
  StartTimes start_;
};

}  // namespace crucible::replay
