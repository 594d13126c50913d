// Plan and queue tables: ops in order, each opaque op as one call of the dispatcher.
#include "plugins/sdk/plan_table.hpp"

#include <cstring>

#include "backends/torch/kernel.hpp"
#include "backends/torch/tables.hpp"

struct crucible_plan : crucible::sdk::ListedPlan<crucible_device> {};
struct crucible_timeline : crucible::sdk::QueueTimeline {};
struct crucible_queue : crucible::sdk::DeviceQueue<crucible_device> {};

namespace crucible_torch {
namespace {

using namespace crucible;

void run_op(crucible_device&, const sdk::ListedOp& op) {
  if (op.kind == CRUCIBLE_OP_LAUNCH) return op.kernel->call.run(op.pointers(), op.scalars.data());
  if (op.kind == CRUCIBLE_OP_COPY) {
    std::memcpy(op.pointer(0), op.pointer(1), op.size);
  } else {
    std::memset(op.pointer(0), op.pattern, op.size);
  }
}

struct Plans : sdk::ListPlans<crucible_device, crucible_plan, run_op> {
  static sdk::OpChecks checks(crucible_device& device) {
    return {.shape_of =
                [](const crucible_kernel& kernel) {
                  return sdk::KernelShape{kernel.call.name(), kernel.call.buffers(), kernel.call.scalars()};
                },
            .find = [&](std::uint64_t address) { return device.addresses.find(address, "torch:0"); }};
  }

  static void make(crucible_plan& plan) {
    for (std::size_t i = 0; i < plan.list.ops.size(); ++i) {
      const sdk::ListedOp& op = plan.list.ops[i];
      if (op.kind != CRUCIBLE_OP_LAUNCH || op.grid == 1) continue;
      sdk::refuse_op(i, "a grid of " + std::to_string(op.grid) + " work items: an opaque op is one");
    }
  }
};

}  // namespace

const crucible_if_plan kPlanTable = sdk::make_plan_table<crucible_device, crucible_plan, Plans>();
const crucible_if_queue kQueueTable = sdk::make_queue_table<
    sdk::HostQueues<crucible_device, crucible_queue, crucible_timeline, crucible_plan, Plans::run>>();

}  // namespace crucible_torch
