#include "runtime/run/reroute.hpp"

#include <fmt/format.h>

#include <chrono>

namespace crucible::runtime {

ReroutedRun::ReroutedRun(std::unique_ptr<Session> session, RerouteOptions options)
    : session_(std::move(session)), options_(std::move(options)) {}

std::string loss_text(const DeviceLoss& loss) {
  return fmt::format("device {} ({}) was lost {}: {}", loss.device, loss.name, loss.when, loss.reason);
}

namespace {

DeviceLoss describe(const Session& session, std::uint32_t iteration, const Error& error) {
  const backend::DeviceInfo& info = session.lost()->info();
  DeviceLoss loss{.device = info.id,
                  .name = info.name,
                  .iteration = iteration,
                  .when = "after the last iteration",
                  .reason = error.message};
  if (iteration == graph::kNone) return loss;
  loss.when = fmt::format("in iteration {} (of 0 to {})", iteration, session.iterations() - 1);
  const std::string twice = fmt::format("iteration {}: ", iteration);
  if (loss.reason.starts_with(twice)) loss.reason.erase(0, twice.size());
  return loss;
}

}  // namespace

Result<void> ReroutedRun::run(std::uint32_t iterations) {
  while (results_.size() < iterations) {
    const auto index = static_cast<std::uint32_t>(results_.size());
    Result<void> ran = run_one(index);
    if (ran) ran = keep();
    if (ran) continue;
    if (session_->lost() == nullptr) return ran;
    CRUCIBLE_TRY_VOID(move_on(index, ran.error()));
  }
  return {};
}

/// Adds the result; also where it is repeated, then results_ was cut before.
Result<void> ReroutedRun::run_one(std::uint32_t index) {
  if (options_.progress) options_.progress(index);
  CRUCIBLE_TRY(IterationResult result, session_->run(index));
  if (options_.compare_outputs) {
    CRUCIBLE_TRY(result.outputs, session_->compare_outputs());
  }
  results_.push_back(std::move(result));
  return {};
}

Result<void> ReroutedRun::keep() {
  if (!options_.next || options_.keep_every == 0 || results_.size() % options_.keep_every != 0) return {};
  const auto start = std::chrono::steady_clock::now();
  CRUCIBLE_TRY_VOID(session_->save(next_));
  std::swap(last_, next_);
  const auto passed = std::chrono::steady_clock::now() - start;
  kept_.ns += static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
  kept_.bytes = last_.bytes();
  ++kept_.times;
  return {};
}

/// Everything that had run has run on the new device, too, or its states are there. Another loss on the way is another
/// turn.
Result<void> ReroutedRun::move_on(std::uint32_t iteration, const Error& error) {
  // An iteration whose result is there was complete, even where reading its states back was not.
  const auto complete = static_cast<std::uint32_t>(results_.size());
  Error why = error;
  for (;;) {
    DeviceLoss loss = describe(*session_, iteration, why);
    if (!options_.next) return Error{ErrorCode::kUnavailable, fmt::format("{}\n{}", loss_text(loss), kLossAdvice)};
    session_.reset();  // gives back what the lost device still has, before another one starts
    Result<std::unique_ptr<Session>> next = options_.next(loss);
    if (!next)
      return Error{ErrorCode::kUnavailable,
                   fmt::format("{}\nno other device takes over: {}", loss_text(loss), next.error().message)};
    session_ = *std::move(next);
    loss.went_on = session_->device() == nullptr ? "" : session_->device()->info().id;
    loss.from_iteration = last_.next_iteration;
    loss.repeated = complete - loss.from_iteration;
    losses_.push_back(std::move(loss));
    const Result<void> caught = catch_up(complete);
    if (caught || session_->lost() == nullptr) return caught;
    why = caught.error();
    iteration = static_cast<std::uint32_t>(results_.size());
  }
}

Result<void> ReroutedRun::catch_up(std::uint32_t iterations) {
  const std::uint32_t from = losses_.back().from_iteration;
  results_.resize(from);
  if (from > 0) CRUCIBLE_TRY_VOID(session_->restore(last_));
  while (results_.size() < iterations) {
    CRUCIBLE_TRY_VOID(run_one(static_cast<std::uint32_t>(results_.size())));
    CRUCIBLE_TRY_VOID(keep());
  }
  return {};
}

}  // namespace crucible::runtime
