// Queue table: a thread of the host per queue, which replays plans in the order of their submission. Level Zero has no
// object that waits for a number which the host signals later: its events are two-valued and are reset by hand.
#include "plugins/sdk/queue_table.hpp"

#include "backends/intel/plan.hpp"
#include "backends/intel/tables.hpp"

struct crucible_timeline : crucible::sdk::QueueTimeline {};

struct crucible_queue : crucible::sdk::OwnedQueue {
  crucible_device* device = nullptr;
};

namespace crucible_intel {
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

}  // namespace crucible_intel
