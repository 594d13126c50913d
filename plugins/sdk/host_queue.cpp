// Queues and timelines of the host: see host_queue.hpp.
#include "plugins/sdk/host_queue.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace crucible::sdk {
namespace {

/// False when the time is over.
template <class Reached>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, std::uint64_t timeout_ns,
                Reached reached) {
  if (timeout_ns < kForEver) return changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), reached);
  changed.wait(lock, reached);
  return true;
}

std::uint64_t now_ns() {
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(now.count());
}

bool is_loss(const Failure& failure) { return (failure.code() & 0xff) == CRUCIBLE_E_DEVICE_LOST; }

}  // namespace

void HostTimeline::check() const {
  if (failed_) throw Failure(*failed_);
}

void HostTimeline::grow(std::uint64_t value) {
  check();
  if (value <= value_) {
    throw Failure(CRUCIBLE_E_INVALID_ARGUMENT,
                  "the timeline is at " + std::to_string(value_) + " and cannot go to " + std::to_string(value));
  }
  value_ = value;
  changed_.notify_all();
}

std::uint64_t HostTimeline::value() const {
  const std::lock_guard lock(mutex_);
  check();
  return value_;
}

void HostTimeline::signal(std::uint64_t value) {
  const std::lock_guard lock(mutex_);
  grow(value);
}

void HostTimeline::signal(const WorkTimes& work) {
  const std::lock_guard lock(mutex_);
  grow(work.value);
  times_[next_++ % kKept] = work;
}

void HostTimeline::poison(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  failed_.emplace(failure);
  changed_.notify_all();
}

bool HostTimeline::is_reached(std::uint64_t value) const {
  const std::lock_guard lock(mutex_);
  return failed_ || value_ >= value;
}

void HostTimeline::wait(std::uint64_t value, std::uint64_t timeout_ns) const {
  std::unique_lock lock(mutex_);
  const bool reached = wait_until(changed_, lock, timeout_ns, [&] { return failed_ || value_ >= value; });
  if (value_ >= value) return;
  check();
  if (!reached) {
    throw Failure(CRUCIBLE_E_CANCELLED, "the timeline did not reach " + std::to_string(value) + " in " +
                                            std::to_string(timeout_ns) + " ns: it is at " + std::to_string(value_));
  }
}

WorkTimes HostTimeline::times(std::uint64_t value) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(times_, [&](const WorkTimes& times) { return times.value == value && times.end_ns != 0; });
  if (found == times_.end()) {
    check();
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "no work has signalled " + std::to_string(value) +
                                              " of this timeline, or it is more than " + std::to_string(kKept) +
                                              " values ago; it is at " + std::to_string(value_));
  }
  return *found;
}

std::shared_ptr<HostTimeline> DeviceTimelines::make(std::uint64_t initial) {
  auto timeline = std::make_shared<HostTimeline>(initial);
  const std::lock_guard lock(mutex_);
  if (lost_) timeline->poison(*lost_);
  alive_.push_back(timeline);
  return timeline;
}

void DeviceTimelines::forget(const std::shared_ptr<HostTimeline>& timeline) {
  const std::lock_guard lock(mutex_);
  std::erase(alive_, timeline);
}

void DeviceTimelines::lose(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (!lost_) lost_.emplace(failure);
  for (const auto& timeline : alive_) timeline->poison(*lost_);
}

std::optional<Failure> DeviceTimelines::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

bool HostQueue::Job::is_ready() const {
  return std::ranges::all_of(waits, [](const Point& point) { return point.timeline->is_reached(point.value); });
}

HostQueue::~HostQueue() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    release(lock);
  }
  if (thread_) thread_->join();
}

void HostQueue::submit(std::function<void()> work, std::vector<Point> waits, std::vector<Point> signals) {
  const std::lock_guard lock(mutex_);
  if (jobs_.empty() && !busy_) released_ = false;  // until somebody says how it is to be done
  jobs_.push_back({std::move(work), std::move(waits), std::move(signals)});
  if (released_) changed_.notify_all();
}

/// The caller holds the mutex.
void HostQueue::release(std::unique_lock<std::mutex>&) {
  if (!jobs_.empty()) {
    released_ = true;
    if (!thread_) thread_.emplace([this] { serve(); });
  }
  changed_.notify_all();
}

void HostQueue::flush() {
  std::unique_lock lock(mutex_);
  release(lock);
}

void HostQueue::run_here(const HostTimeline& timeline, std::uint64_t value) {
  std::unique_lock lock(mutex_);
  while (!jobs_.empty() && !busy_ && jobs_.front().is_ready() && !timeline.is_reached(value)) run_first(lock);
  if (!jobs_.empty()) release(lock);
}

bool HostQueue::is_idle() const {
  const std::lock_guard lock(mutex_);
  return jobs_.empty() && !busy_;
}

bool HostQueue::wait_idle(std::uint64_t timeout_ns) const {
  std::unique_lock lock(mutex_);
  return wait_until(changed_, lock, timeout_ns, [&] { return jobs_.empty() && !busy_; });
}

/// Those that wait for it hear of a failure; of a device that is lost, all who wait for anything on it.
void HostQueue::run(Job& job) {
  std::optional<Failure> failed;
  try {
    if (std::optional<Failure> lost = timelines_.lost()) throw Failure(*lost);
    for (const Point& point : job.waits) point.timeline->wait(point.value, UINT64_MAX);
    const std::uint64_t begin = now_ns();
    job.work();
    const std::uint64_t end = now_ns();
    for (const Point& point : job.signals) point.timeline->signal(WorkTimes{point.value, begin, end});
    return;
  } catch (const Failure& failure) {
    failed.emplace(failure);
  } catch (const std::exception& error) {
    failed.emplace(CRUCIBLE_E_INTERNAL, error.what());
  }
  if (is_loss(*failed)) timelines_.lose(*failed);
  for (const Point& point : job.signals) point.timeline->poison(*failed);
}

void HostQueue::run_first(std::unique_lock<std::mutex>& lock) {
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

void HostQueue::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !busy_ && (jobs_.empty() ? stopping_ : released_); });
    if (jobs_.empty()) return;
    run_first(lock);
  }
}

}  // namespace crucible::sdk
