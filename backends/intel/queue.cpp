// Queue table: a thread of the host per queue, which replays plans in the order of their submission. Level Zero has no
// object that waits for a number which the host signals later: its events are two-valued and are reset by hand.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backends/intel/plan.hpp"
#include "backends/intel/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host_queue.hpp"

struct crucible_timeline {
  crucible_device* device = nullptr;
  std::shared_ptr<crucible::sdk::HostTimeline> host;  // shared with work that names it
};

struct crucible_queue {
  crucible_device* device = nullptr;
  crucible::sdk::HostQueue host;
};

namespace crucible_intel {
namespace {

using namespace crucible;
using Points = std::vector<sdk::HostQueue::Point>;

crucible_status create(crucible_device* device, crucible_queue** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "queue.create: no device or no place for the queue");
    auto queue = std::make_unique<crucible_queue>();
    queue->device = device;
    const std::lock_guard lock(device->queues_mutex);
    device->queues.push_back(queue.get());
    device->ledger.add("queue");
    *out = queue.release();
  });
}

crucible_status destroy(crucible_queue* queue) {
  return sdk::guard([&] {
    sdk::require(queue != nullptr, "queue.destroy: no queue");
    queue->host.wait_idle(UINT64_MAX);
    {
      const std::lock_guard lock(queue->device->queues_mutex);
      std::erase(queue->device->queues, queue);
    }
    queue->device->ledger.remove("queue");
    delete queue;
  });
}

crucible_status timeline_create(crucible_device* device, std::uint64_t initial, crucible_timeline** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "queue.timeline_create: no device or no place for the timeline");
    auto timeline = std::make_unique<crucible_timeline>();
    *timeline = {device, std::make_shared<sdk::HostTimeline>(initial)};
    device->ledger.add("timeline");
    *out = timeline.release();
  });
}

crucible_status timeline_destroy(crucible_timeline* timeline) {
  return sdk::guard([&] {
    sdk::require(timeline != nullptr, "queue.timeline_destroy: no timeline");
    timeline->device->ledger.remove("timeline");
    delete timeline;
  });
}

crucible_status timeline_query(crucible_timeline* timeline, std::uint64_t* out) {
  return sdk::guard([&] {
    sdk::require(timeline != nullptr && out != nullptr, "queue.timeline_query: no timeline or no place for the value");
    *out = timeline->host->value();
  });
}

crucible_status timeline_signal(crucible_timeline* timeline, std::uint64_t value) {
  return sdk::guard([&] {
    sdk::require(timeline != nullptr, "queue.timeline_signal: no timeline");
    timeline->host->signal(value);
  });
}

crucible_status timeline_wait(crucible_timeline* timeline, std::uint64_t value, std::uint64_t timeout_ns) {
  return sdk::guard([&] {
    sdk::require(timeline != nullptr, "queue.timeline_wait: no timeline");
    timeline->host->wait(value, timeout_ns);
  });
}

Points read_points(const crucible_point* points, std::uint32_t count) {
  sdk::require(points != nullptr || count == 0, "queue.submit: the points are missing");
  Points result;
  for (std::uint32_t i = 0; i < count; ++i) {
    sdk::require(points[i].timeline != nullptr, "queue.submit: a point without a timeline");
    result.push_back({points[i].timeline->host, points[i].value});
  }
  return result;
}

crucible_status submit(crucible_queue* queue, crucible_plan* plan, const crucible_point* waits,
                       std::uint32_t wait_count, const crucible_point* signals, std::uint32_t signal_count) {
  return sdk::guard([&] {
    sdk::require(queue != nullptr && plan != nullptr, "queue.submit: no queue or no plan");
    Points before = read_points(waits, wait_count), after = read_points(signals, signal_count);
    queue->host.submit([plan] { run_plan(*plan); }, std::move(before), std::move(after));
  });
}

}  // namespace

bool wait_for_queues(crucible_device& device, std::uint64_t timeout_ns) {
  const std::lock_guard lock(device.queues_mutex);  // queues are neither made nor destroyed meanwhile
  return std::ranges::all_of(device.queues, [&](crucible_queue* queue) { return queue->host.wait_idle(timeout_ns); });
}

const crucible_if_queue kQueueTable = {
    sizeof(crucible_if_queue), CRUCIBLE_ABI_MINOR, create,          destroy,       timeline_create,
    timeline_destroy,          timeline_query,     timeline_signal, timeline_wait, submit};

}  // namespace crucible_intel
