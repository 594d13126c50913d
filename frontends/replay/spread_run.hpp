// What a verification does before it says no (docs/replay.md, "Before it says no"): runs that start one rounding apart,
// on the judged device or, where that is slow, on another one (it is the program that spreads them, not the device);
// then the reference interpreter; then every op of the judged device by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "frontends/replay/replay_run.hpp"
#include "runtime/run/session.hpp"

namespace crucible::replay {

struct SpreadOptions {
  std::optional<std::uint32_t> runs =
      {};                    // 0: nothing is explained; none given: as many as kRuns, while the time lasts
  std::string backend = {};  // "": the judged device
  /// What becomes of a run that is within its tolerances. kGlance: where little time tells, whether it is further from
  /// the recording than roundings explain, and if it is, each op is checked; kEveryOp: each op is checked, also of a
  /// run that is not within them, however long that takes.
  enum class Look : std::uint8_t { kNone, kGlance, kEveryOp };
  Look look = Look::kNone;
  double seconds = 30;  // for each of the three stages; where runs are asked for, they are made

  static constexpr std::uint32_t kRuns = 40, kLeastRuns = 6, kGlanceRuns = 3;
  static constexpr double kGlanceSeconds = 4;
  static constexpr std::size_t kGlanceOps = 3000;  // compiling a program that keeps their results takes seconds
  bool is_off() const { return runs == 0u; }
  std::uint32_t most() const { return runs.value_or(kRuns); }
};

/// `choice` with the backend that one word names: a plugin's name, or PLUGIN:INDEX.
DeviceChoice choice_of(DeviceChoice choice, const std::string& backend);

/// The judged run.
struct Judged {
  runtime::Session& session;
  const std::vector<runtime::IterationResult>& results;
  std::shared_ptr<backend::Device> device;  // shared with the sessions on it; null: the reference interpreter
  const runtime::Options& options;          // of the session
};

/// Judges runs of one program by how far its runs spread. On another backend those runs are made once: what explained
/// one verdict is there for the next. Not thread-safe. Borrows what it is made from.
class SpreadRun {
 public:
  /// `choice` is what the judged devices have in common.
  SpreadRun(const SpreadOptions& switches, ReplayWork work, const DeviceChoice& choice, const Observer& observer);

  /// Judges a verdict that is none of "verified" anew, with as many runs as that needs and the switches allow; where
  /// they go to the judged session, it is reset. One that is verified is looked at as the switches say. Errors: those
  /// of the runs; of another backend also those of opening it and compiling for it, with its name.
  Result<void> consider(const Judged& judged, runtime::Verification& verdict);

 private:
  Result<void> explain(runtime::Session& session, runtime::Spread& spread, runtime::Verification& verdict);
  Result<void> spread_runs(const Judged& judged, runtime::Verification& verdict);
  Result<void> start_elsewhere(bool with_outputs);
  Result<bool> is_far(const Judged& judged, const runtime::Verification& verdict);
  Result<void> glance(const Judged& judged, runtime::Verification& verdict);
  Result<void> check_ops(const Judged& judged, runtime::Verification& verdict);
  const graph::Variants& variants() const { return *work_.variants; }

  const SpreadOptions& switches_;
  ReplayWork work_;
  const DeviceChoice& choice_;
  const Observer& observer_;
  DeviceChoice elsewhere_choice_;
  std::unique_ptr<OpenedDevice> opened_;
  std::unique_ptr<ReplayRun> elsewhere_;
  runtime::Spread spread_;  // of that
};

}  // namespace crucible::replay
