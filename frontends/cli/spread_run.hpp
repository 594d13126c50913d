// --sensitivity: how far runs end from each other that start one rounding apart, measured on the judged device or, where that is slow,
// on another one: it is the program that spreads them, not the device (docs/replay.md, "Chaos").
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/runtime/session.hpp"
#include "frontends/cli/replay_run.hpp"

namespace CLI {
class App;
}

namespace crucible::cli {

struct SpreadSwitches {
  std::uint32_t runs = 0;  // 0: not asked
  std::string backend;     // "": the judged device

  /// Errors: kUsage for a backend without runs.
  Result<void> check() const;
};

/// Adds --sensitivity, whose help begins with `when`, and --sensitivity-backend.
void add_sensitivity_switches(CLI::App& command, SpreadSwitches& switches, const std::string& when);

/// `choice` with the backend that one word names: a plugin's name, or PLUGIN:INDEX.
DeviceChoice choice_of(DeviceChoice choice, const std::string& backend);

/// Judges runs of one program by how far its runs spread. On another backend those runs are made once: what explained one verdict is there for
/// the next. Not thread-safe. Borrows what it is made from.
class SpreadRun {
 public:
  /// `choice` is what the judged devices have in common.
  SpreadRun(const SpreadSwitches& switches, ReplayWork work, const DeviceChoice& choice, Progress& progress);

  /// Judges a verdict that is none of "verified", of `results` and the present state of `session`, anew, with as many runs as that needs and the
  /// switches allow; where they go to `session`, it is reset. Errors: those of the runs; of another backend also those of opening it and
  /// compiling for it, with its name.
  Result<void> consider(runtime::Session& session, const std::vector<runtime::IterationResult>& results, runtime::Verification& verdict);

 private:
  Result<void> explain(runtime::Session& session, runtime::Spread& spread, runtime::Verification& verdict);
  Result<void> start_elsewhere();

  const SpreadSwitches& switches_;
  ReplayWork work_;
  const DeviceChoice& choice_;
  Progress& progress_;
  DeviceChoice elsewhere_choice_;
  std::unique_ptr<OpenedDevice> opened_;
  std::unique_ptr<ReplayRun> elsewhere_;
  runtime::Spread spread_;  // of that
};

}  // namespace crucible::cli
