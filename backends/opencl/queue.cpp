// Queue table: a thread of the host per queue, which replays plans in the order of their submission. OpenCL's own
// queues cannot wait for a number that the host signals later, and events of theirs are used up once.
#include "plugins/sdk/queue_table.hpp"

#include "backends/opencl/plan.hpp"
#include "backends/opencl/tables.hpp"

struct crucible_timeline : crucible::sdk::QueueTimeline {};

struct crucible_queue : crucible::sdk::OwnedQueue {
  crucible_device* device = nullptr;
};

namespace crucible_opencl {
namespace {

using namespace crucible;

std::unique_ptr<crucible_queue> make(crucible_device& device) {
  auto queue = std::make_unique<crucible_queue>();
  queue->device = &device;
  return queue;
}

void run(crucible_queue&, crucible_plan& plan) { run_plan(plan); }

using Table = sdk::QueueFunctions<crucible_device, crucible_queue, crucible_timeline, crucible_plan, make, run>;

}  // namespace

const crucible_if_queue kQueueTable = sdk::make_queue_table<Table>();

}  // namespace crucible_opencl
