// Plan and queue tables: a list is summed once; running it adds the sums to the counts.
#include "plugins/sdk/plan_table.hpp"

#include "backends/null/counts.hpp"
#include "backends/null/tables.hpp"

struct crucible_plan : crucible::sdk::ListedPlan<crucible_device> {
  std::uint64_t launches = 0, work_items = 0, copies = 0, bytes_copied = 0, fills = 0, bytes_patterned = 0;
};

struct crucible_timeline : crucible::sdk::QueueTimeline {};
struct crucible_queue : crucible::sdk::DeviceQueue<crucible_device> {};

namespace crucible_null {
namespace {

using namespace crucible;

struct Plans {
  static sdk::OpChecks checks(crucible_device& device) {
    return {.find = [&](std::uint64_t address) { return device.addresses.find(address, "null:0"); }};
  }

  static void make(crucible_plan& plan) {
    for (const sdk::ListedOp& op : plan.list.ops) {
      const bool is_launch = op.kind == CRUCIBLE_OP_LAUNCH, is_copy = op.kind == CRUCIBLE_OP_COPY;
      ++(is_launch ? plan.launches : is_copy ? plan.copies : plan.fills);
      (is_copy ? plan.bytes_copied : plan.bytes_patterned) += op.size;  // a launch has none
      plan.work_items += static_cast<std::uint64_t>(op.grid);
    }
    counts().add(Count::kPlansBuilt);
    counts().add(Count::kOpsBuilt, plan.list.ops.size());
  }

  static void run(crucible_plan& plan) {
    counts().add(Count::kReplays);
    counts().add(Count::kLaunches, plan.launches);
    counts().add(Count::kWorkItems, plan.work_items);
    counts().add(Count::kCopies, plan.copies);
    counts().add(Count::kBytesCopied, plan.bytes_copied);
    counts().add(Count::kFills, plan.fills);
    counts().add(Count::kBytesPatterned, plan.bytes_patterned);
  }

  static std::vector<std::uint64_t> times(crucible_plan& plan) {
    run(plan);
    return std::vector<std::uint64_t>(plan.list.ops.size());
  }

  static void describe(const crucible_plan& plan, crucible_kv_sink sink, void* user) {
    sdk::report(sink, user,
                {sdk::text_item("form", "list"), sdk::number_item("ops", plan.list.ops.size()),
                 sdk::text_item("times", "nothing: no op takes any")});
  }
};

using Functions = sdk::PlanFunctions<crucible_device, crucible_plan, Plans>;

crucible_status set_slots(crucible_plan* plan, const std::uint64_t* values, std::uint32_t count) {
  const crucible_status status = Functions::set_slots(plan, values, count);
  if (status == nullptr) counts().add(Count::kSlotsSet, count);
  return status;
}

constexpr crucible_if_plan make_table() {
  crucible_if_plan table = sdk::make_plan_table<crucible_device, crucible_plan, Plans>();
  table.set_slots = set_slots;
  return table;
}

}  // namespace

const crucible_if_plan kPlanTable = make_table();
const crucible_if_queue kQueueTable = sdk::make_queue_table<
    sdk::HostQueues<crucible_device, crucible_queue, crucible_timeline, crucible_plan, Plans::run>>();

}  // namespace crucible_null
