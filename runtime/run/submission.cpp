#include "runtime/run/submission.hpp"

#include <chrono>

namespace crucible::runtime {

std::uint64_t steady_ns() {
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(now.count());
}

Result<std::uint64_t> Submissions::submit(const backend::Plan& plan) {
  if (!lane_) {
    CRUCIBLE_TRY(backend::Timeline done, backend::Timeline::create(device_, last_));
    CRUCIBLE_TRY(backend::Queue queue, backend::Queue::create(device_));
    lane_.emplace(Lane{std::move(done), std::move(queue)});
  }
  // A queue keeps the order by itself; the wait makes a failure that of everything behind it.
  const crucible_point before = lane_->done.at(last_), after = lane_->done.at(last_ + 1);
  CRUCIBLE_TRY_VOID(lane_->queue.submit(plan, {&before, 1}, {&after, 1}));
  return ++last_;
}

Result<void> Submissions::start() { return lane_ ? lane_->queue.flush() : Result<void>(); }

Result<void> Submissions::wait(std::uint64_t point) {
  if (!lane_) return {};
  Result<void> done = lane_->done.wait(point);
  if (!done) settle();
  return done;
}

/// The queue's end waits for all that is in it; a failure stays in the timeline.
void Submissions::settle() { lane_.reset(); }

std::optional<backend::Timeline::Times> Submissions::times(std::uint64_t point) const {
  return lane_ ? lane_->done.times(point) : std::nullopt;
}

}  // namespace crucible::runtime
