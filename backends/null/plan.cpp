// Plan table: a list is checked and summed once; replaying adds the sums to the counts.
#include <memory>
#include <string>

#include "backends/null/counts.hpp"
#include "backends/null/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

struct crucible_plan {
  crucible_device* device = nullptr;
  std::uint32_t ops = 0, slots = 0;
  std::uint64_t launches = 0, work_items = 0, copies = 0, bytes_copied = 0, fills = 0, bytes_patterned = 0;
};

namespace crucible_null {
namespace {

using namespace crucible;

[[noreturn]] void invalid(std::uint32_t index, const std::string& what) {
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.build: op " + std::to_string(index) + ": " + what,
                     {{"op", std::to_string(index)}});
}

void need_buffers(std::uint32_t index, const crucible_op& op, std::uint32_t count) {
  if (op.buffer_count >= count && (count == 0 || op.buffers != nullptr)) return;
  invalid(index, "it has " + std::to_string(op.buffer_count) + " buffers and needs " + std::to_string(count));
}

void add_launch(crucible_plan& plan, std::uint32_t index, const crucible_op& op) {
  if (op.kernel == nullptr) invalid(index, "a launch without a kernel");
  if (op.grid < 0) invalid(index, "a grid of " + std::to_string(op.grid) + " work items");
  if (op.scalar_count != 0 && op.scalars == nullptr) invalid(index, "its scalars are missing");
  for (std::uint32_t i = 0; i < op.scalar_count; ++i) {
    const std::uint32_t slot = op.scalars[i].slot, type = op.scalars[i].type;
    if (type > CRUCIBLE_SCALAR_I64) invalid(index, "scalar " + std::to_string(i) + " is of type " + std::to_string(type));
    if (slot != CRUCIBLE_SLOT_NONE && slot >= plan.slots)
      invalid(index, "slot " + std::to_string(slot) + " of " + std::to_string(plan.slots));
  }
  ++plan.launches;
  plan.work_items += static_cast<std::uint64_t>(op.grid);
}

void add_op(crucible_plan& plan, std::uint32_t index, const crucible_op& op) {
  if (op.struct_size < sizeof(crucible_op)) invalid(index, "its struct_size is too small");
  switch (op.kind) {
    case CRUCIBLE_OP_LAUNCH:
      return add_launch(plan, index, op);
    case CRUCIBLE_OP_COPY:
      need_buffers(index, op, 2);
      ++plan.copies;
      plan.bytes_copied += op.size;
      return;
    case CRUCIBLE_OP_FILL:
      need_buffers(index, op, 1);
      if (op.pattern > 255) invalid(index, "the pattern " + std::to_string(op.pattern) + " is not a byte");
      ++plan.fills;
      plan.bytes_patterned += op.size;
      return;
    case CRUCIBLE_OP_LIBRARY:
      throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED,
                         "plan.build: op " + std::to_string(index) + " is a library call, and there is no library",
                         {{"op", std::to_string(index)}});
    default:
      invalid(index, "kind " + std::to_string(op.kind) + " is not known");
  }
}

crucible_status build(crucible_device* device, const crucible_op* ops, std::uint32_t count, std::uint32_t slot_count,
                      crucible_plan** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "plan.build: no device or no place for the plan");
    sdk::require(count == 0 || ops != nullptr, "plan.build: the ops are missing");
    auto plan = std::make_unique<crucible_plan>();
    plan->device = device;
    plan->ops = count;
    plan->slots = slot_count;
    const sdk::SizedArray<crucible_op> all(ops);
    for (std::uint32_t i = 0; i < count; ++i) add_op(*plan, i, all[i]);
    device->ledger.add("plan");
    counts().add(Count::kPlansBuilt);
    counts().add(Count::kOpsBuilt, count);
    *out = plan.release();
  });
}

crucible_status set_slots(crucible_plan* plan, const std::uint64_t* values, std::uint32_t count) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr && (values != nullptr || count == 0), "plan.set_slots: no plan or no values");
    if (count != plan->slots) {
      throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.set_slots: " + std::to_string(count) + " values for " +
                                                          std::to_string(plan->slots) + " slots");
    }
    counts().add(Count::kSlotsSet, count);
  });
}

void count_replay(const crucible_plan& plan) {
  counts().add(Count::kReplays);
  counts().add(Count::kLaunches, plan.launches);
  counts().add(Count::kWorkItems, plan.work_items);
  counts().add(Count::kCopies, plan.copies);
  counts().add(Count::kBytesCopied, plan.bytes_copied);
  counts().add(Count::kFills, plan.fills);
  counts().add(Count::kBytesPatterned, plan.bytes_patterned);
}

crucible_status replay(crucible_plan* plan) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr, "plan.replay: no plan");
    count_replay(*plan);
  });
}

crucible_status profile(crucible_plan* plan, std::uint64_t* out_ns, std::uint32_t count) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr && (out_ns != nullptr || count == 0),
                 "plan.profile: no plan or no place for the times");
    if (count != plan->ops) {
      throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.profile: places for " + std::to_string(count) +
                                                          " times, the plan has " + std::to_string(plan->ops) + " ops");
    }
    count_replay(*plan);
    for (std::uint32_t i = 0; i < count; ++i) out_ns[i] = 0;
  });
}

crucible_status destroy(crucible_plan* plan) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr, "plan.destroy: no plan");
    plan->device->ledger.remove("plan");
    delete plan;
  });
}

crucible_status describe(crucible_plan* plan, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr && sink != nullptr, "plan.describe: no plan or no function to report to");
    sdk::report(sink, user, {sdk::text_item("form", "list"), sdk::number_item("ops", plan->ops), sdk::text_item("times", "nothing: no op takes any")});
  });
}

}  // namespace

const crucible_if_plan kPlanTable = {
    sizeof(crucible_if_plan), CRUCIBLE_ABI_MINOR, build, set_slots, replay, profile, destroy, describe};

}  // namespace crucible_null
