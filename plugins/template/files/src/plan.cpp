// (8) A list of ops, run in order as often as asked: each may read what the one before it wrote. For a graph or a
// command list add make(), which builds it of the list, and patch(), which is told whose scalars changed; start it in a
// run() of yours.
#include "device.hpp"

struct crucible_plan : crucible::sdk::ListedPlan<crucible_device> {};

// (9) Queues: a thread of the host each, until your driver's stream and its timeline semaphore replace them.
struct crucible_timeline : crucible::sdk::QueueTimeline {};
struct crucible_queue : crucible::sdk::DeviceQueue<crucible_device> {};

namespace acme {
namespace {

void run_op(crucible_device& device, const sdk::ListedOp& op) {
  if (op.kind == CRUCIBLE_OP_LAUNCH) return launch(device, op);
  op.kind == CRUCIBLE_OP_COPY ? copy(device, op) : fill(device, op);
}

struct Plans : sdk::ListPlans<crucible_device, crucible_plan, run_op> {
  static sdk::OpChecks checks(crucible_device& device) {
    return {.shape_of = shape_of, .find = [&](std::uint64_t at) { return device.addresses.find(at, device.id); }};
  }
};

}  // namespace

const crucible_if_plan kPlanTable = sdk::make_plan_table<crucible_device, crucible_plan, Plans>();
const crucible_if_queue kQueueTable = sdk::make_queue_table<
    sdk::HostQueues<crucible_device, crucible_queue, crucible_timeline, crucible_plan, Plans::run>>();

}  // namespace acme
