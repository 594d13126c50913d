#include "frontends/replay/replay_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include "runtime/judge/self_test.hpp"
#include "frontends/replay/receipt.hpp"
#include "frontends/replay/tuning.hpp"
#include "frontends/replay/workload.hpp"

namespace crucible::replay {
namespace {

/// Where nothing may run elsewhere, nothing opens another plugin.
std::function<Result<std::shared_ptr<backend::Device>>()> opener_of_opaque(OpenedDevice& opened,
                                                                           const Observer& observer) {
  if (fallback_of(opened.settings) == runtime::Fallback::kForbid) return nullptr;
  return [&opened, &observer] { return open_torch_beside(opened.settings, observer); };
}

/// One line per kind of op that runs elsewhere, where the policy is to warn.
void warn_of_fallbacks(const runtime::FallbackReport& report, const Observer& observer) {
  std::map<std::string, std::size_t> steps;
  for (const runtime::RefusedStep& step : report.steps) ++steps[step.ops];
  for (const auto& [ops, count] : steps) {
    const auto first = std::ranges::find(report.steps, ops, &runtime::RefusedStep::ops);
    observer.tell(Notice::Level::kWarning, fmt::format("{} ({} steps{}{}) runs on {}: {}", ops, count,
                                                       first->source.empty() ? "" : ", first at ", first->source,
                                                       report.device->info().id, first->reason));
  }
}

void warn_of_wrong_kernels(const runtime::Session& session, const Observer& observer) {
  for (const runtime::WrongKernel& wrong : session.trials().wrong) {
    observer.tell(Notice::Level::kWarning, wrong_in_words(session, wrong));
  }
}

}  // namespace

runtime::Fallback fallback_of(const config::Settings& settings) {
  const std::string text = settings.text("fallback");
  return text == "allow"  ? runtime::Fallback::kAllow
         : text == "warn" ? runtime::Fallback::kWarn
                          : runtime::Fallback::kForbid;
}

Error measuring_error(const runtime::Session& session, const Error& error) {
  if (session.lost() == nullptr) return error;
  return {ErrorCode::kUnavailable,
          fmt::format("device {} ({}) was lost while it was measured: {}\nwhat is measured of one device does not go "
                      "on on another: look after it and run "
                      "it again, or leave out --repeat, --profile, --counters and --sensitivity",
                      session.lost()->info().id, session.lost()->info().name, error.message)};
}

ReplayRun::ReplayRun(ReplayWork work, OpenedDevice& opened, const DeviceChoice& choice, const Observer& observer)
    : work_(std::move(work)),
      opened_(opened),
      next_(opened, choice, observer, [this] { return workload_of(*work_.variants, work_.fuse); }),
      observer_(observer) {
  // The processor that runs all of this is not lost alone.
  const bool may_move =
      fallback_of(opened.settings) != runtime::Fallback::kForbid && opened.device && opened.plugin != kFallbackPlugin;
  if (may_move) keep_every_ = static_cast<std::uint32_t>(opened.settings.number("checkpoint_every"));
}

/// Everything between an open device and the first iteration.
Result<std::unique_ptr<runtime::Session>> ReplayRun::prepare() {
  const kernel::Numerics numerics = numerics_of(opened_.settings);
  if (opened_.device && numerics == kernel::Numerics::kStrict) {
    observer_.say("testing the device");
    CRUCIBLE_TRY_VOID(runtime::admit_to_strict(opened_.device));
  }
  CRUCIBLE_TRY(const Tuned tuned,
               tune(work_.tune, work_.variants->programs, opened_.device, work_.fuse, numerics, observer_));
  measured_now_ = tuned.measured_now;
  const char* poison = std::getenv("CRUCIBLE_POISON");
  options_ = {.fuse = work_.fuse,
              .numerics = numerics,
              .memory = work_.memory,
              .poison = poison != nullptr && std::string_view(poison) == "1",
              .fallback = fallback_of(opened_.settings),
              .choices = tuned.choices,
              .trial = trial_of(opened_.settings),
              .busy = work_.busy,
              .open_second = [this] { return open_cpu_beside(opened_.settings, observer_); },
              .open_opaque = opener_of_opaque(opened_, observer_)};
  observer_.say(opened_.device ? "scheduling, planning and compiling" : "loading");
  CRUCIBLE_TRY(std::unique_ptr<runtime::Session> session,
               opened_.device ? runtime::Session::create(work_.variants, work_.blobs, opened_.device, options_)
                              : runtime::Session::create_reference(work_.variants, work_.blobs, numerics));
  observer_.say("");
  if (options_.fallback == runtime::Fallback::kWarn) warn_of_fallbacks(session->fallback(), observer_);
  warn_of_wrong_kernels(*session, observer_);
  return session;
}

void ReplayRun::tell(const std::string& text) const {
  observer_.say("");
  observer_.tell(options_.fallback == runtime::Fallback::kAllow ? Notice::Level::kNote : Notice::Level::kWarning, text);
}

/// Device after device until one can be prepared.
Result<std::unique_ptr<runtime::Session>> ReplayRun::take_over(const runtime::DeviceLoss& loss) {
  for (;;) {
    CRUCIBLE_TRY_VOID(next_.open());
    tell(fmt::format("{}; {} ({}) takes over", runtime::loss_text(loss), opened_.device->info().id,
                     opened_.device->info().name));
    Result<std::unique_ptr<runtime::Session>> session = prepare();
    if (session) return session;
    next_.pass_over(session.error().message);
  }
}

Result<void> ReplayRun::start() {
  Result<std::unique_ptr<runtime::Session>> session = prepare();
  const bool may_move = fallback_of(opened_.settings) != runtime::Fallback::kForbid && opened_.device;
  if (!session && opened_.device && opened_.device->lost() != nullptr) {
    const backend::DeviceInfo& info = opened_.device->info();
    runtime::DeviceLoss loss{
        .device = info.id, .name = info.name, .when = "before the first iteration", .reason = session.error().message};
    if (!may_move)
      return Error{ErrorCode::kUnavailable, fmt::format("{}\n{}", runtime::loss_text(loss), runtime::kLossAdvice)};
    session = take_over(loss);
    if (!session)
      return Error{ErrorCode::kUnavailable, fmt::format("{}\nno other device takes over: {}", runtime::loss_text(loss),
                                                        session.error().message)};
    loss.went_on = opened_.device->info().id;
    before_.push_back(std::move(loss));
  }
  if (!session) return session.error();
  runtime::RerouteOptions options{.keep_every = keep_every_, .compare_outputs = work_.compare_outputs};
  if (may_move) options.next = [this](const runtime::DeviceLoss& loss) { return take_over(loss); };
  const std::size_t all = work_.variants->turns.size();
  options.progress = [this, all](std::uint32_t iteration) {
    observer_.say(fmt::format("replaying iteration {} of {}", iteration + 1, all));
  };
  run_.emplace(*std::move(session), std::move(options));
  return {};
}

std::vector<runtime::DeviceLoss> ReplayRun::losses() const {
  std::vector<runtime::DeviceLoss> all = before_;
  if (run_) all.insert(all.end(), run_->losses().begin(), run_->losses().end());
  return all;
}

}  // namespace crucible::replay
