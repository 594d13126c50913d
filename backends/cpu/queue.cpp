// Queue table: a queue is one thread that replays plans in the order of their submission; a timeline is a number under
// a mutex. Plans of one device never run at the same time (they share its team), so queues order work, they do not add
// cores.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/device.hpp"
#include "backends/cpu/plan.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/tables.hpp"

namespace crucible_cpu {
namespace {

struct Work {
  crucible_plan* plan;
  std::vector<crucible_point> waits, signals;
};

}  // namespace
}  // namespace crucible_cpu

/// Shared with the queues whose work names it: destroying it early is the host's fault, not a crash.
struct crucible_timeline {
  crucible_device* device = nullptr;
  crucible_cpu::OwnerProcess process;
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t value = 0;
  crucible_code failed = CRUCIBLE_OK;  // poisoned: every wait and query answers it
  std::string reason;

  /// Errors: the poison; INVALID_ARGUMENT when the value does not grow.
  void signal(std::uint64_t next) {
    const std::lock_guard lock(mutex);
    if (failed != CRUCIBLE_OK) throw crucible_cpu::Failure(failed, reason);
    if (next <= value) {
      throw crucible_cpu::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "queue.timeline_signal: the timeline is at " +
                                                                   std::to_string(value) + " and cannot go to " +
                                                                   std::to_string(next));
    }
    value = next;
    changed.notify_all();
  }
  void poison(crucible_code code, const std::string& why) {
    const std::lock_guard lock(mutex);
    if (failed != CRUCIBLE_OK) return;
    failed = code;
    reason = why;
    changed.notify_all();
  }
  /// False when the time is over. Errors: the poison.
  bool wait(std::uint64_t wanted, std::uint64_t timeout_ns) {
    std::unique_lock lock(mutex);
    const auto reached = [&] { return failed != CRUCIBLE_OK || value >= wanted; };
    constexpr std::uint64_t kForEver = std::uint64_t{1} << 62;  // 146 years: adding more to the clock would overflow
    if (timeout_ns >= kForEver) {
      changed.wait(lock, reached);
    } else if (!changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), reached)) {
      return false;
    }
    if (failed != CRUCIBLE_OK) throw crucible_cpu::Failure(failed, reason);
    return true;
  }
};

struct crucible_queue {
  crucible_device* device = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<crucible_cpu::Work> work;
  bool busy = false, stopping = false;
  std::thread thread;

  bool is_idle() const { return work.empty() && !busy; }  // the caller holds the mutex
};

namespace crucible_cpu {
namespace {

/// The points of the work are reached, its plan is replayed, its signals are given; or they are poisoned.
void run(Work& work) {
  try {
    for (const crucible_point& point : work.waits) point.timeline->wait(point.value, UINT64_MAX);
    if (work.plan != nullptr) run_plan(*work.plan);
    for (const crucible_point& point : work.signals) point.timeline->signal(point.value);
  } catch (const Failure& failure) {
    for (const crucible_point& point : work.signals) point.timeline->poison(failure.code(), failure.what());
  } catch (const std::exception& error) {
    for (const crucible_point& point : work.signals) point.timeline->poison(CRUCIBLE_E_INTERNAL, error.what());
  }
}

void serve(crucible_queue* queue) {
  std::unique_lock lock(queue->mutex);
  for (;;) {
    queue->changed.wait(lock, [&] { return queue->stopping || !queue->work.empty(); });
    if (queue->work.empty()) return;
    Work work = std::move(queue->work.front());
    queue->work.pop_front();
    queue->busy = true;
    lock.unlock();
    run(work);
    lock.lock();
    queue->busy = false;
    queue->changed.notify_all();
  }
}

crucible_status create(crucible_device* device, crucible_queue** out) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "queue.create: no device or no place for the queue");
    device->process.require_this_one("queue.create");
    auto queue = std::make_unique<crucible_queue>();
    queue->device = device;
    queue->thread = std::thread(serve, queue.get());
    const std::lock_guard lock(device->queues_mutex);
    device->queues.push_back(queue.get());
    *out = queue.release();
  });
}

crucible_status destroy(crucible_queue* queue) {
  return guard([&] {
    require(queue != nullptr, "queue.destroy: no queue");
    // Its thread is not here, and may have held its lock when the process was forked: what it is made of stays where it
    // lies.
    if (!queue->device->process.is_this_one()) return;
    {
      const std::lock_guard lock(queue->mutex);
      queue->stopping = true;
      queue->changed.notify_all();
    }
    queue->thread.join();
    {
      const std::lock_guard lock(queue->device->queues_mutex);
      std::erase(queue->device->queues, queue);
    }
    delete queue;
  });
}

crucible_status timeline_create(crucible_device* device, std::uint64_t initial, crucible_timeline** out) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "queue.timeline_create: no device or no place for the timeline");
    auto timeline = std::make_unique<crucible_timeline>();
    timeline->device = device;
    timeline->value = initial;
    *out = timeline.release();
  });
}

crucible_status timeline_destroy(crucible_timeline* timeline) {
  return guard([&] {
    require(timeline != nullptr, "queue.timeline_destroy: no timeline");
    if (timeline->process.is_this_one())
      delete timeline;  // else somebody who is not here may wait for it, and so would its end
  });
}

crucible_status timeline_query(crucible_timeline* timeline, std::uint64_t* out) {
  return guard([&] {
    require(timeline != nullptr && out != nullptr, "queue.timeline_query: no timeline or no place for the value");
    timeline->process.require_this_one("queue.timeline_query");
    const std::lock_guard lock(timeline->mutex);
    if (timeline->failed != CRUCIBLE_OK) throw Failure(timeline->failed, timeline->reason);
    *out = timeline->value;
  });
}

crucible_status timeline_signal(crucible_timeline* timeline, std::uint64_t value) {
  return guard([&] {
    require(timeline != nullptr, "queue.timeline_signal: no timeline");
    timeline->process.require_this_one("queue.timeline_signal");
    timeline->signal(value);
  });
}

crucible_status timeline_wait(crucible_timeline* timeline, std::uint64_t value, std::uint64_t timeout_ns) {
  return guard([&] {
    require(timeline != nullptr, "queue.timeline_wait: no timeline");
    timeline->process.require_this_one("queue.timeline_wait");
    if (!timeline->wait(value, timeout_ns)) {
      throw Failure(CRUCIBLE_E_CANCELLED, "queue.timeline_wait: the value " + std::to_string(value) +
                                              " was not reached in " + std::to_string(timeout_ns) + " ns");
    }
  });
}

void check_points(const crucible_point* points, std::uint32_t count) {
  require(points != nullptr || count == 0, "queue.submit: the points are missing");
  for (std::uint32_t i = 0; i < count; ++i)
    require(points[i].timeline != nullptr, "queue.submit: a point without a timeline");
}

crucible_status submit(crucible_queue* queue, crucible_plan* plan, const crucible_point* waits,
                       std::uint32_t wait_count, const crucible_point* signals, std::uint32_t signal_count) {
  return guard([&] {
    require(queue != nullptr && plan != nullptr, "queue.submit: no queue or no plan");
    queue->device->process.require_this_one("queue.submit");
    check_points(waits, wait_count);
    check_points(signals, signal_count);
    Work work{plan, {}, {}};
    if (wait_count != 0) work.waits.assign(waits, waits + wait_count);
    if (signal_count != 0) work.signals.assign(signals, signals + signal_count);
    const std::lock_guard lock(queue->mutex);
    queue->work.push_back(std::move(work));
    queue->changed.notify_all();
  });
}

}  // namespace

bool wait_for_queues(crucible_device& device, std::uint64_t timeout_ns) {
  device.process.require_this_one("device.wait_idle");
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, std::uint64_t{1} << 60));
  const std::lock_guard lock(device.queues_mutex);  // queues are neither made nor destroyed meanwhile
  for (crucible_queue* queue : device.queues) {
    std::unique_lock queue_lock(queue->mutex);
    if (!queue->changed.wait_until(queue_lock, end, [&] { return queue->is_idle(); })) return false;
  }
  return true;
}

const crucible_if_queue kQueueTable = {
    sizeof(crucible_if_queue), CRUCIBLE_ABI_MINOR, create,          destroy,       timeline_create,
    timeline_destroy,          timeline_query,     timeline_signal, timeline_wait, submit};

}  // namespace crucible_cpu
