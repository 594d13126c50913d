// Queue table: a stream per queue, on which a thread of the host starts plans when their timelines are reached.
#include "plugins/sdk/queue_table.hpp"

#include "backends/amd/plan.hpp"
#include "backends/amd/tables.hpp"

struct crucible_timeline : crucible::sdk::QueueTimeline {};

struct crucible_queue : crucible::sdk::OwnedQueue {
  crucible_device* device = nullptr;
  crucible_amd::Stream stream;
  ~crucible_queue() {
    const crucible_amd::Current current(*device, crucible_amd::Current::EvenIfLost{});
    stream = {};
  }
};

namespace crucible_amd {
namespace {

using namespace crucible;

std::unique_ptr<crucible_queue> make(crucible_device& device) {
  const Current current(device);
  auto queue = std::make_unique<crucible_queue>();
  queue->device = &device;
  hipStream_t stream = nullptr;
  device.check(device.hip->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "queue.create: hipStreamCreateWithFlags");
  queue->stream = Stream(*device.hip, stream);
  return queue;
}

void run(crucible_queue& queue, crucible_plan& plan) { run_plan(plan, queue.stream.get()); }

using Functions = sdk::QueueFunctions<crucible_device, crucible_queue, crucible_timeline, crucible_plan, make, run>;

}  // namespace

const crucible_if_queue kQueueTable = sdk::make_queue_table<Functions>();

}  // namespace crucible_amd
