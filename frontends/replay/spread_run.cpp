#include "frontends/replay/spread_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <ranges>

#include "core/base/figures.hpp"
#include "core/base/time_limit.hpp"
#include "frontends/replay/workload.hpp"
#include "runtime/judge/explain.hpp"
#include "runtime/judge/side_by_side.hpp"

namespace crucible::replay {
namespace {

/// Of all ops of an iteration: twice that is in memory while they are checked.
constexpr std::uint64_t kMostBytesOfResults = std::uint64_t{4} << 30;

std::uint64_t bytes_of_results(const std::shared_ptr<const graph::Program>& program) {
  std::uint64_t bytes = 0;
  for (const graph::Value& value : program->values)
    bytes += static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
  return bytes;
}

}  // namespace

DeviceChoice choice_of(DeviceChoice choice, const std::string& backend) {
  choice.backend.clear(), choice.device.clear();
  (backend.find(':') == std::string::npos ? choice.backend : choice.device) = backend;
  return choice;
}

SpreadRun::SpreadRun(const SpreadOptions& switches, ReplayWork work, const DeviceChoice& choice,
                     const Observer& observer)
    : switches_(switches), work_(std::move(work)), choice_(choice), observer_(observer) {
  work_.compare_outputs = false;
  work_.memory = {};  // a budget is the judged device's
  work_.busy = nullptr;
}

Result<void> SpreadRun::explain(runtime::Session& session, runtime::Spread& spread, runtime::Verification& verdict) {
  const TimeLimit limit(switches_.seconds);
  for (;;) {
    runtime::consider_spread(verdict, spread);
    if (!verdict.differs() || spread.runs >= switches_.most()) return {};
    if (!switches_.runs && spread.runs >= SpreadOptions::kLeastRuns && limit.is_over()) {
      verdict.notes.push_back(fmt::format(
          "{} of up to {} runs one rounding apart were made in the time there is for them: --sensitivity {} makes all, "
          "and --sensitivity-backend makes them on a faster device",
          spread.runs, switches_.most(), switches_.most()));
      return {};
    }
    observer_.say(
        fmt::format("replaying from a start one rounding away, {} of at most {}", spread.runs + 1, switches_.most()));
    CRUCIBLE_TRY_VOID(session.widen_spread(spread));
  }
}

Result<void> SpreadRun::start_elsewhere(bool with_outputs) {
  elsewhere_choice_ = choice_of(choice_, switches_.backend);
  CRUCIBLE_TRY(OpenedDevice opened,
               open_device(
                   elsewhere_choice_, observer_, [this] { return workload_of(*work_.variants, work_.fuse); }, true));
  opened_ = std::make_unique<OpenedDevice>(std::move(opened));
  auto run = std::make_unique<ReplayRun>(work_, *opened_, elsewhere_choice_, observer_);
  CRUCIBLE_TRY_VOID(run->start());
  CRUCIBLE_TRY_VOID(run->run().run(static_cast<std::uint32_t>(work_.variants->turns.size())));
  CRUCIBLE_TRY_VOID(run->run().session().start_spread(run->run().results(), spread_, with_outputs));
  spread_.device = opened_->device ? opened_->device->info().id : kReferenceBackend;
  elsewhere_ = std::move(run);
  return {};
}

Result<void> SpreadRun::spread_runs(const Judged& judged, runtime::Verification& verdict) {
  const bool with_outputs = std::ranges::any_of(verdict.outputs, &runtime::OutputDifference::is_bad);
  if (switches_.backend.empty()) {
    runtime::Spread spread;
    CRUCIBLE_TRY_VOID(judged.session.start_spread(judged.results, spread, with_outputs));
    CRUCIBLE_TRY_VOID(explain(judged.session, spread, verdict));
    return judged.session.reset();
  }
  const auto name = [this](const Error& error) {
    return Error{error.code, fmt::format("--sensitivity-backend {}: {}", switches_.backend, error.message)};
  };
  if (!elsewhere_) {
    if (const Result<void> started = start_elsewhere(with_outputs); !started) return name(started.error());
  }
  if (const Result<void> explained = explain(elsewhere_->run().session(), spread_, verdict); !explained)
    return name(explained.error());
  return {};
}

Result<void> SpreadRun::check_ops(const Judged& judged, runtime::Verification& verdict) {
  const std::uint64_t bytes = std::ranges::max(variants().programs | std::views::transform(bytes_of_results));
  const bool is_asked = switches_.look == SpreadOptions::Look::kEveryOp;
  if (bytes > kMostBytesOfResults && !is_asked) {
    verdict.notes.push_back(fmt::format(
        "the device's ops were not checked one by one: the results of an iteration are {}", format_bytes(bytes)));
    return {};
  }
  observer_.say("compiling a program that keeps every result");
  const auto watched = std::make_shared<const graph::Variants>(runtime::with_every_result(variants()));
  runtime::Options options = judged.options;
  options.memory = {};
  options.busy = nullptr;
  Result<std::unique_ptr<runtime::Session>> session =
      runtime::Session::create(watched, work_.blobs, judged.device, options);
  if (!session) {  // of a program that is larger than the judged one: no fault of that
    verdict.notes.push_back("the device's ops were not checked one by one: " + session.error().message);
    return {};
  }
  const double seconds = is_asked ? std::numeric_limits<double>::infinity() : switches_.seconds;
  const runtime::ExplainOptions how{.seconds = seconds,
                                    .progress = [this](const std::string& text) { observer_.say(text); }};
  const Result<runtime::OpCheck> checked = runtime::check_ops(variants(), *work_.blobs, **session, how);
  if (!checked && (*session)->lost() != nullptr) return checked.error();
  if (!checked) {
    verdict.notes.push_back("the device's ops could not all be checked one by one: " + checked.error().message);
    return {};
  }
  const runtime::OpCheck& check = *checked;
  verdict.ops_checked = check.results;
  if (const runtime::OpDifference* first = check.first()) {
    verdict.found =
        "the first op that differs from the reference interpreter: " + runtime::in_words(variants(), *first);
  } else {
    verdict.notes.push_back(fmt::format(
        "each of {} results of the device is what the reference interpreter makes of the same operands{}",
        check.results,
        check.stopped.empty() ? "" : fmt::format("; {}, replay --verify --closely checks all", check.stopped)));
  }
  verdict.settle();
  return {};
}

/// Whether it ends further from the recording than runs one rounding apart explain; false where the time was up before
/// enough of them had ended.
Result<bool> SpreadRun::is_far(const Judged& judged, const runtime::Verification& verdict) {
  const TimeLimit limit(SpreadOptions::kGlanceSeconds);
  runtime::Spread spread;
  const bool with_outputs =
      std::ranges::any_of(judged.results, [](const auto& result) { return !result.outputs.empty(); });
  CRUCIBLE_TRY_VOID(judged.session.start_spread(judged.results, spread, with_outputs));
  while (spread.runs < SpreadOptions::kGlanceRuns && !limit.is_over()) {
    observer_.say(
        fmt::format("replaying from a start one rounding away, {} of {}", spread.runs + 1, SpreadOptions::kGlanceRuns));
    CRUCIBLE_TRY_VOID(judged.session.widen_spread(spread));
  }
  CRUCIBLE_TRY_VOID(judged.session.reset());
  return spread.runs == SpreadOptions::kGlanceRuns && runtime::is_far_for_roundings(verdict, judged.results, spread);
}

/// A small error of one op may stay within every tolerance. Where little time tells that the ends are further from the
/// recording than roundings explain, each op is checked.
Result<void> SpreadRun::glance(const Judged& judged, runtime::Verification& verdict) {
  double seconds = 0;
  for (const runtime::IterationResult& result : judged.results) seconds += static_cast<double>(result.time_ns) / 1e9;
  if (seconds * (SpreadOptions::kGlanceRuns + 1) > SpreadOptions::kGlanceSeconds) return {};
  const Result<bool> far = is_far(judged, verdict);
  if (!far) {  // the run itself is verified
    verdict.notes.push_back("whether it is as near to the recording as roundings explain could not be told: " +
                            far.error().message);
    return {};
  }
  if (!*far) return {};
  verdict.notes.push_back("something is within its tolerance, but further from the recording than roundings explain");
  std::size_t ops = 0;  // all variants are compiled
  for (const auto& program : variants().programs) ops += program->ops.size();
  if (ops <= SpreadOptions::kGlanceOps) return check_ops(judged, verdict);
  verdict.notes.back() += fmt::format("; --closely checks each of its {} ops", ops);
  return {};
}

Result<void> SpreadRun::consider(const Judged& judged, runtime::Verification& verdict) {
  verdict.spread_most = switches_.most();
  const bool may_look = verdict.verified && judged.device;
  if (may_look && switches_.look == SpreadOptions::Look::kGlance) return glance(judged, verdict);
  if (may_look && switches_.look == SpreadOptions::Look::kEveryOp) return check_ops(judged, verdict);
  if (!verdict.differs()) return {};
  CRUCIBLE_TRY(const runtime::RunEnd end, judged.session.end_of_run(judged.results));
  CRUCIBLE_TRY_VOID(spread_runs(judged, verdict));
  if (verdict.differs()) {
    const runtime::ExplainOptions how{.seconds = switches_.seconds,
                                      .progress = [this](const std::string& text) { observer_.say(text); }};
    const Result<void> asked = runtime::consider_reference(verdict, variants(), *work_.blobs, end, how);
    if (!asked) verdict.notes.push_back("the reference interpreter was asked, and failed: " + asked.error().message);
  }
  return judged.device ? check_ops(judged, verdict) : Result<void>();
}

}  // namespace crucible::replay
