// A queue table made of the SDK's HostQueue: one thread of the host per queue waits for timelines, then hands each plan
// to the device. For devices whose own queues cannot wait for a number that the host signals later.
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

namespace crucible::sdk {

struct OwnedQueue {
  HostQueue host;
};

struct QueueOwner {
  Ledger ledger;  // what was handed out: leaks are told when the device is closed
  std::mutex queues_mutex;
  std::vector<OwnedQueue*> queues;  // all that are open

  /// False when a queue still has work after that time. Threads: any.
  bool wait_for_queues(std::uint64_t timeout_ns) {
    const std::lock_guard lock(queues_mutex);  // queues are neither made nor destroyed meanwhile
    return std::ranges::all_of(queues, [&](OwnedQueue* queue) { return queue->host.wait_idle(timeout_ns); });
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
      std::unique_ptr<Queue> queue = make(*device);
      const std::lock_guard lock(device->queues_mutex);
      device->queues.push_back(queue.get());
      device->ledger.add("queue");
      *out = queue.release();
    });
  }
  static crucible_status destroy(Queue* queue) {
    return guard([&] {
      require(queue != nullptr, "queue.destroy: no queue");
      queue->host.wait_idle(UINT64_MAX);
      Device& device = *queue->device;
      {
        const std::lock_guard lock(device.queues_mutex);
        std::erase(device.queues, static_cast<OwnedQueue*>(queue));
      }
      device.ledger.remove("queue");
      delete queue;
    });
  }
  static crucible_status timeline_create(Device* device, std::uint64_t initial, Timeline** out) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "queue.timeline_create: no device or no place for the timeline");
      auto timeline = std::make_unique<Timeline>();
      timeline->device = device;
      timeline->host = std::make_shared<HostTimeline>(initial);
      device->ledger.add("timeline");
      *out = timeline.release();
    });
  }
  static crucible_status timeline_destroy(Timeline* timeline) {
    return guard([&] {
      require(timeline != nullptr, "queue.timeline_destroy: no timeline");
      timeline->device->ledger.remove("timeline");
      delete timeline;
    });
  }
  static crucible_status timeline_query(Timeline* timeline, std::uint64_t* out) {
    return guard([&] {
      require(timeline != nullptr && out != nullptr, "queue.timeline_query: no timeline or no place for the value");
      *out = timeline->host->value();
    });
  }
  static crucible_status timeline_signal(Timeline* timeline, std::uint64_t value) {
    return guard([&] {
      require(timeline != nullptr, "queue.timeline_signal: no timeline");
      timeline->host->signal(value);
    });
  }
  static crucible_status timeline_wait(Timeline* timeline, std::uint64_t value, std::uint64_t timeout_ns) {
    return guard([&] {
      require(timeline != nullptr, "queue.timeline_wait: no timeline");
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
      auto before = read_points(waits, wait_count), after = read_points(signals, signal_count);
      queue->host.submit([queue, plan] { run(*queue, *plan); }, std::move(before), std::move(after));
    });
  }
};

template <class Functions>
constexpr crucible_if_queue make_queue_table() {
  return {sizeof(crucible_if_queue), CRUCIBLE_ABI_MINOR,         Functions::create,
          Functions::destroy,        Functions::timeline_create, Functions::timeline_destroy,
          Functions::timeline_query, Functions::timeline_signal, Functions::timeline_wait,
          Functions::submit};
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
