// A queue table made of the SDK's HostQueue: a thread of the host, or whoever waits for the result, waits for timelines
// and hands each plan to the device. For devices whose own queues cannot wait for a number that the host signals later.
//
// A plugin derives its crucible_device from QueueOwner, defines crucible_timeline and crucible_queue as QueueTimeline
// and a struct that derives from OwnedQueue, and makes the table with make_queue_table().
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host_queue.hpp"
#include "plugins/sdk/ledger.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible::sdk {

struct OwnedQueue {
  std::shared_ptr<HostQueue> host;  // shared with whoever does its work while it waits; made by QueueFunctions::create
};

struct QueueOwner {
  Ledger ledger;              // what was handed out: leaks are told when the device is closed
  DeviceTimelines timelines;  // those that live
  mutable std::mutex queues_mutex;
  std::vector<OwnedQueue*> queues;  // all that are open

  /// Everything that was submitted begins. False when a queue still has work after that time. Threads: any.
  bool wait_for_queues(std::uint64_t timeout_ns) {
    const std::lock_guard lock(queues_mutex);  // queues are neither made nor destroyed meanwhile
    for (OwnedQueue* queue : queues) queue->host->flush();
    return std::ranges::all_of(queues, [&](OwnedQueue* queue) { return queue->host->wait_idle(timeout_ns); });
  }

  /// Before a thread waits for a point of the device: all that was submitted begins. Where one queue alone has work and
  /// the caller has time, the caller does it, which takes less than waking another thread for it. Threads: any.
  void begin_work(const HostTimeline& timeline, std::uint64_t value, std::uint64_t timeout_ns) {
    std::shared_ptr<HostQueue> alone;
    {
      const std::lock_guard lock(queues_mutex);
      int working = 0;
      for (const OwnedQueue* queue : queues) {
        if (queue->host->is_idle()) continue;
        alone = queue->host;
        ++working;
      }
      if (working != 1 || timeout_ns < kForEver) {
        for (OwnedQueue* queue : queues) queue->host->flush();
        return;
      }
    }
    alone->run_here(timeline, value);
  }
};

struct QueueTimeline {
  QueueOwner* device = nullptr;
  std::shared_ptr<HostTimeline> host;  // shared with work that names it
};

/// `Device`, `Queue` and `Timeline` are the ABI's handles. `make` makes a queue's own part on the device, `run` replays
/// a plan on it.
template <class Device, class Queue, class Timeline, class Plan, std::unique_ptr<Queue> (*make)(Device&),
          void (*run)(Queue&, Plan&)>
struct QueueFunctions {
  static crucible_status create(Device* device, Queue** out) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "queue.create: no device or no place for the queue");
      require_process(*device, "queue.create");
      std::unique_ptr<Queue> queue = make(*device);
      queue->host = std::make_shared<HostQueue>(device->timelines);
      const std::lock_guard lock(device->queues_mutex);
      device->queues.push_back(queue.get());
      device->ledger.add("queue");
      *out = queue.release();
    });
  }
  static crucible_status destroy(Queue* queue) {
    return guard([&] {
      require(queue != nullptr, "queue.destroy: no queue");
      Device& device = *queue->device;
      if (!is_process(device))
        return;  // its thread is not here, and may hold its lock for ever: it stays where it lies
      queue->host->flush();
      queue->host->wait_idle(UINT64_MAX);
      {
        const std::lock_guard lock(device.queues_mutex);
        std::erase(device.queues, static_cast<OwnedQueue*>(queue));
      }
      device.ledger.remove("queue");
      if constexpr (requires { device.watchdog; }) {
        if (device.watchdog.is_suspect()) return abandon(queue);  // giving it back would wait for the device
      }
      delete queue;
    });
  }
  static crucible_status timeline_create(Device* device, std::uint64_t initial, Timeline** out) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "queue.timeline_create: no device or no place for the timeline");
      auto timeline = std::make_unique<Timeline>();
      timeline->device = device;
      timeline->host = device->timelines.make(initial);
      device->ledger.add("timeline");
      *out = timeline.release();
    });
  }
  static crucible_status timeline_destroy(Timeline* timeline) {
    return guard([&] {
      require(timeline != nullptr, "queue.timeline_destroy: no timeline");
      if (!is_process(device_of(*timeline))) return;  // somebody who is not here may wait for it, and so would its end
      timeline->device->ledger.remove("timeline");
      timeline->device->timelines.forget(timeline->host);
      delete timeline;
    });
  }
  static crucible_status timeline_query(Timeline* timeline, std::uint64_t* out) {
    return guard([&] {
      require(timeline != nullptr && out != nullptr, "queue.timeline_query: no timeline or no place for the value");
      require_process(device_of(*timeline), "queue.timeline_query");
      *out = timeline->host->value();
    });
  }
  static crucible_status timeline_signal(Timeline* timeline, std::uint64_t value) {
    return guard([&] {
      require(timeline != nullptr, "queue.timeline_signal: no timeline");
      require_process(device_of(*timeline), "queue.timeline_signal");
      timeline->host->signal(value);
    });
  }
  static crucible_status timeline_wait(Timeline* timeline, std::uint64_t value, std::uint64_t timeout_ns) {
    return guard([&] {
      require(timeline != nullptr, "queue.timeline_wait: no timeline");
      require_process(device_of(*timeline), "queue.timeline_wait");
      if (!timeline->host->is_reached(value)) timeline->device->begin_work(*timeline->host, value, timeout_ns);
      timeline->host->wait(value, timeout_ns);
    });
  }
  static std::vector<HostQueue::Point> read_points(const crucible_point* points, std::uint32_t count) {
    require(points != nullptr || count == 0, "queue.submit: the points are missing");
    std::vector<HostQueue::Point> result;
    for (std::uint32_t i = 0; i < count; ++i) {
      Timeline* const timeline = points[i].timeline;
      require(timeline != nullptr, "queue.submit: a point without a timeline");
      result.push_back({timeline->host, points[i].value});
    }
    return result;
  }
  static crucible_status submit(Queue* queue, Plan* plan, const crucible_point* waits, std::uint32_t wait_count,
                                const crucible_point* signals, std::uint32_t signal_count) {
    return guard([&] {
      require(queue != nullptr && plan != nullptr, "queue.submit: no queue or no plan");
      require_process(*queue->device, "queue.submit");
      auto before = read_points(waits, wait_count), after = read_points(signals, signal_count);
      queue->host->submit([queue, plan] { run(*queue, *plan); }, std::move(before), std::move(after));
    });
  }
  static crucible_status flush(Queue* queue) {
    return guard([&] {
      require(queue != nullptr, "queue.flush: no queue");
      require_process(*queue->device, "queue.flush");
      queue->host->flush();
    });
  }
  static crucible_status timeline_times(Timeline* timeline, std::uint64_t value, std::uint64_t* out_begin_ns,
                                        std::uint64_t* out_end_ns, std::uint32_t* out_clock) {
    return guard([&] {
      require(timeline != nullptr && out_begin_ns != nullptr && out_end_ns != nullptr && out_clock != nullptr,
              "queue.timeline_times: no timeline or no place for the times");
      require_process(device_of(*timeline), "queue.timeline_times");
      const WorkTimes times = timeline->host->times(value);
      *out_begin_ns = times.begin_ns;
      *out_end_ns = times.end_ns;
      *out_clock = CRUCIBLE_CLOCK_HOST;
    });
  }

 private:
  static Device& device_of(const Timeline& timeline) { return *static_cast<Device*>(timeline.device); }
  /// A device that knows the process which opened it has a `process` with these two.
  static void require_process(const Device& device, const char* what) {
    if constexpr (requires { device.process.require_this_one(what); }) device.process.require_this_one(what);
  }
  static bool is_process(const Device& device) {
    if constexpr (requires { device.process.is_this_one(); }) return device.process.is_this_one();
    return true;
  }
};

template <class Functions>
constexpr crucible_if_queue make_queue_table() {
  return {.struct_size = sizeof(crucible_if_queue),
          .if_minor = CRUCIBLE_ABI_MINOR,
          .create = Functions::create,
          .destroy = Functions::destroy,
          .timeline_create = Functions::timeline_create,
          .timeline_destroy = Functions::timeline_destroy,
          .timeline_query = Functions::timeline_query,
          .timeline_signal = Functions::timeline_signal,
          .timeline_wait = Functions::timeline_wait,
          .submit = Functions::submit,
          .flush = Functions::flush,
          .timeline_times = Functions::timeline_times};
}

/// A queue that has nothing of its own on the device.
template <class Device>
struct DeviceQueue : OwnedQueue {
  Device* device = nullptr;
};

template <class Device, class Queue>
std::unique_ptr<Queue> make_host_queue(Device& device) {
  auto queue = std::make_unique<Queue>();
  queue->device = &device;
  return queue;
}

template <class Queue, class Plan, void (*run)(Plan&)>
void run_on_queue(Queue&, Plan& plan) {
  run(plan);
}

/// The functions where queues are DeviceQueues: `run` replays a plan.
template <class Device, class Queue, class Timeline, class Plan, void (*run)(Plan&)>
using HostQueues =
    QueueFunctions<Device, Queue, Timeline, Plan, make_host_queue<Device, Queue>, run_on_queue<Queue, Plan, run>>;

}  // namespace crucible::sdk
