// (9) Asynchronous work. Here a thread of the host per queue, which the SDK's table makes; replace it by your driver's stream or command
// queue and its timeline semaphore. Without this table the host replays plans one after the other.
#include <crucible/sdk/queue_table.hpp>
#include <memory>

#include "plan.hpp"
#include "tables.hpp"

struct crucible_timeline : crucible::sdk::QueueTimeline {};

struct crucible_queue : crucible::sdk::OwnedQueue {
  crucible_device* device = nullptr;
};

namespace acme {
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

}  // namespace acme
