// Queues and timelines of the host: see host_queue.hpp.
#include "plugins/sdk/host_queue.hpp"

#include <chrono>

#include "plugins/sdk/error.hpp"

namespace crucible::sdk {
namespace {

constexpr std::uint64_t kForEver = std::uint64_t{1} << 62;  // 146 years: more would overflow the clock

/// False when the time is over.
template <class Reached>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, std::uint64_t timeout_ns,
                Reached reached) {
  if (timeout_ns < kForEver) return changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), reached);
  changed.wait(lock, reached);
  return true;
}

}  // namespace

void HostTimeline::check() const {
  if (failed_ != CRUCIBLE_OK) throw Failure(failed_, reason_);
}

std::uint64_t HostTimeline::value() const {
  const std::lock_guard lock(mutex_);
  check();
  return value_;
}

void HostTimeline::signal(std::uint64_t value) {
  const std::lock_guard lock(mutex_);
  check();
  if (value <= value_) {
    throw Failure(CRUCIBLE_E_INVALID_ARGUMENT,
                  "the timeline is at " + std::to_string(value_) + " and cannot go to " + std::to_string(value));
  }
  value_ = value;
  changed_.notify_all();
}

void HostTimeline::poison(crucible_code code, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failed_ != CRUCIBLE_OK) return;
  failed_ = code;
  reason_ = reason;
  changed_.notify_all();
}

void HostTimeline::wait(std::uint64_t value, std::uint64_t timeout_ns) const {
  std::unique_lock lock(mutex_);
  const bool reached =
      wait_until(changed_, lock, timeout_ns, [&] { return failed_ != CRUCIBLE_OK || value_ >= value; });
  check();
  if (!reached) {
    throw Failure(CRUCIBLE_E_CANCELLED, "the timeline did not reach " + std::to_string(value) + " in " +
                                            std::to_string(timeout_ns) + " ns: it is at " + std::to_string(value_));
  }
}

HostQueue::HostQueue() : thread_([this] { serve(); }) {}

HostQueue::~HostQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void HostQueue::submit(std::function<void()> work, std::vector<Point> waits, std::vector<Point> signals) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back({std::move(work), std::move(waits), std::move(signals)});
  changed_.notify_all();
}

bool HostQueue::wait_idle(std::uint64_t timeout_ns) const {
  std::unique_lock lock(mutex_);
  return wait_until(changed_, lock, timeout_ns, [&] { return jobs_.empty() && !busy_; });
}

void HostQueue::run(Job& job) {
  crucible_code code = CRUCIBLE_OK;
  std::string reason;
  try {
    for (const Point& point : job.waits) point.timeline->wait(point.value, UINT64_MAX);
    job.work();
    for (const Point& point : job.signals) point.timeline->signal(point.value);
    return;
  } catch (const Failure& failure) {
    code = failure.code();
    reason = failure.what();
  } catch (const std::exception& error) {
    code = CRUCIBLE_E_INTERNAL;
    reason = error.what();
  }
  for (const Point& point : job.signals) point.timeline->poison(code, reason);
}

void HostQueue::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    {
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      lock.unlock();
      run(job);
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace crucible::sdk
