// Queue table: the SDK's queues and timelines of the host, over this plugin's plans. Plans of one device never run at the
// same time (they share its team), so queues order work, they do not add cores.
#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cpu/device.hpp"
#include "backends/cpu/plan.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/tables.hpp"
#include "plugins/sdk/host_queue.hpp"

/// Shared with the queues whose work names it.
struct crucible_timeline {
  std::shared_ptr<crucible::sdk::HostTimeline> host;
};

struct crucible_queue {
  crucible_device* device = nullptr;
  crucible::sdk::HostQueue host;
};

namespace crucible_cpu {
namespace {

crucible_status create(crucible_device* device, crucible_queue** out) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "queue.create: no device or no place for the queue");
    auto queue = std::make_unique<crucible_queue>();
    queue->device = device;
    const std::lock_guard lock(device->queues_mutex);
    device->queues.push_back(queue.get());
    *out = queue.release();
  });
}

crucible_status destroy(crucible_queue* queue) {
  return guard([&] {
    require(queue != nullptr, "queue.destroy: no queue");
    queue->host.wait_idle(UINT64_MAX);  // before the device forgets it: device.wait_idle sees its work until then
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
    *out = new crucible_timeline{std::make_shared<HostTimeline>(initial)};
  });
}

crucible_status timeline_destroy(crucible_timeline* timeline) {
  return guard([&] {
    require(timeline != nullptr, "queue.timeline_destroy: no timeline");
    delete timeline;
  });
}

crucible_status timeline_query(crucible_timeline* timeline, std::uint64_t* out) {
  return guard([&] {
    require(timeline != nullptr && out != nullptr, "queue.timeline_query: no timeline or no place for the value");
    *out = timeline->host->value();
  });
}

crucible_status timeline_signal(crucible_timeline* timeline, std::uint64_t value) {
  return guard([&] {
    require(timeline != nullptr, "queue.timeline_signal: no timeline");
    timeline->host->signal(value);
  });
}

crucible_status timeline_wait(crucible_timeline* timeline, std::uint64_t value, std::uint64_t timeout_ns) {
  return guard([&] {
    require(timeline != nullptr, "queue.timeline_wait: no timeline");
    timeline->host->wait(value, timeout_ns);
  });
}

std::vector<HostQueue::Point> read_points(const crucible_point* points, std::uint32_t count) {
  require(points != nullptr || count == 0, "queue.submit: the points are missing");
  std::vector<HostQueue::Point> read;
  for (std::uint32_t i = 0; i < count; ++i) {
    require(points[i].timeline != nullptr, "queue.submit: a point without a timeline");
    read.push_back({points[i].timeline->host, points[i].value});
  }
  return read;
}

crucible_status submit(crucible_queue* queue, crucible_plan* plan, const crucible_point* waits, std::uint32_t wait_count,
                       const crucible_point* signals, std::uint32_t signal_count) {
  return guard([&] {
    require(queue != nullptr && plan != nullptr, "queue.submit: no queue or no plan");
    queue->host.submit([plan] { run_plan(*plan); }, read_points(waits, wait_count), read_points(signals, signal_count));
  });
}

}  // namespace

bool wait_for_queues(crucible_device& device, std::uint64_t timeout_ns) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, std::uint64_t{1} << 60));
  const std::lock_guard lock(device.queues_mutex);  // queues are neither made nor destroyed meanwhile
  for (const crucible_queue* queue : device.queues) {
    const auto left = std::chrono::nanoseconds(end - Clock::now()).count();
    if (!queue->host.wait_idle(static_cast<std::uint64_t>(std::max<std::int64_t>(left, 0)))) return false;
  }
  return true;
}

const crucible_if_queue kQueueTable = {sizeof(crucible_if_queue), CRUCIBLE_ABI_MINOR, create,         destroy,       timeline_create,
                                       timeline_destroy,          timeline_query,     timeline_signal, timeline_wait, submit};

}  // namespace crucible_cpu
