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
                  when + ": run up to N more times from starts one rounding away, until that explains what differs: states and losses that those runs "
                         "do not determine either do not count as different")
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

Result<void> SpreadRun::explain(runtime::Session& session, runtime::Spread& spread, runtime::Verification& verdict) {
  for (;;) {
    runtime::consider_spread(verdict, spread);
    if (verdict.verified || spread.runs == switches_.runs) return {};
    progress_.say(fmt::format("replaying from a start one rounding away, {} of at most {}", spread.runs + 1, switches_.runs));
    CRUCIBLE_TRY_VOID(session.widen_spread(spread));
  }
}

Result<void> SpreadRun::start_elsewhere() {
  elsewhere_choice_ = choice_of(choice_, switches_.backend);
  CRUCIBLE_TRY(OpenedDevice opened, open_device(elsewhere_choice_, [this] { return workload_of(*work_.program, work_.fuse); }, true));
  opened_ = std::make_unique<OpenedDevice>(std::move(opened));
  auto run = std::make_unique<ReplayRun>(work_, *opened_, elsewhere_choice_, progress_);
  CRUCIBLE_TRY_VOID(run->start());
  CRUCIBLE_TRY_VOID(run->run().run(work_.program->iterations));
  CRUCIBLE_TRY_VOID(run->run().session().start_spread(run->run().results(), spread_));
  spread_.device = opened_->device ? opened_->device->info().id : kReferenceBackend;
  elsewhere_ = std::move(run);
  return {};
}

Result<void> SpreadRun::consider(runtime::Session& session, const std::vector<runtime::IterationResult>& results, runtime::Verification& verdict) {
  verdict.spread_most = switches_.runs;
  if (verdict.verified) return {};
  if (switches_.backend.empty()) {
    runtime::Spread spread;
    CRUCIBLE_TRY_VOID(session.start_spread(results, spread));
    CRUCIBLE_TRY_VOID(explain(session, spread, verdict));
    return session.reset();
  }
  const auto name = [this](const Error& error) { return Error{error.code, fmt::format("--sensitivity-backend {}: {}", switches_.backend, error.message)}; };
  if (!elsewhere_) {
    if (const Result<void> started = start_elsewhere(); !started) return name(started.error());
  }
  if (const Result<void> explained = explain(elsewhere_->run().session(), spread_, verdict); !explained) return name(explained.error());
  return {};
}

}  // namespace crucible::cli
