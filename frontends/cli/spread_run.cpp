#include "frontends/cli/spread_run.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "frontends/cli/workload.hpp"

namespace crucible::cli {

Result<void> SpreadSwitches::check() const {
  if (backend.empty() || runs > 0) return {};
  return Error{ErrorCode::kUsage, "--sensitivity-backend says where the runs of --sensitivity go: give --sensitivity N too"};
}

void add_sensitivity_switches(CLI::App& command, SpreadSwitches& switches, const std::string& when) {
  command
      .add_option("--sensitivity", switches.runs,
                  when + ": run N more times from starts one rounding away; states and losses that those runs do not determine either "
                         "do not count as different")
      ->check(CLI::Range(1u, 1000u));
  command.add_option("--sensitivity-backend", switches.backend,
                     "Where those runs go, for instance cpu when the judged device is slow: a plugin's name or PLUGIN:INDEX [the judged device]");
}

DeviceChoice choice_of(DeviceChoice choice, const std::string& backend) {
  choice.backend.clear(), choice.device.clear();
  (backend.find(':') == std::string::npos ? choice.backend : choice.device) = backend;
  return choice;
}

SpreadRun::SpreadRun(const SpreadSwitches& switches, ReplayWork work, const DeviceChoice& choice, Progress& progress)
    : switches_(switches), work_(std::move(work)), choice_(choice), progress_(progress) {
  work_.compare_outputs = false;
  work_.memory = {};  // a budget is the judged device's
}

Result<runtime::Spread> SpreadRun::measure(runtime::Session& session, const std::vector<runtime::IterationResult>& results) {
  const auto say = [this](std::uint32_t run) {
    progress_.say(fmt::format("replaying from a start one rounding away, {} of {}", run + 1, switches_.runs));
  };
  return session.measure_spread(results, switches_.runs, say);
}

Result<runtime::Spread> SpreadRun::measure_elsewhere() {
  const DeviceChoice choice = choice_of(choice_, switches_.backend);
  CRUCIBLE_TRY(OpenedDevice opened, open_device(choice, [this] { return workload_of(*work_.program, work_.fuse); }, true));
  ReplayRun replay(work_, opened, choice, progress_);
  CRUCIBLE_TRY_VOID(replay.start());
  CRUCIBLE_TRY_VOID(replay.run().run(work_.program->iterations));
  CRUCIBLE_TRY(runtime::Spread spread, measure(replay.run().session(), replay.run().results()));
  spread.device = opened.device ? opened.device->info().id : kReferenceBackend;
  return spread;
}

Result<void> SpreadRun::consider(runtime::Session& session, const std::vector<runtime::IterationResult>& results, runtime::Verification& verdict) {
  if (switches_.backend.empty()) {
    CRUCIBLE_TRY(const runtime::Spread spread, measure(session, results));
    runtime::consider_spread(verdict, spread);
    return session.reset();
  }
  if (!elsewhere_) {
    Result<runtime::Spread> spread = measure_elsewhere();
    if (!spread) return Error{spread.error().code, fmt::format("--sensitivity-backend {}: {}", switches_.backend, spread.error().message)};
    elsewhere_ = *std::move(spread);
  }
  runtime::consider_spread(verdict, *elsewhere_);
  return session.reset();
}

}  // namespace crucible::cli
