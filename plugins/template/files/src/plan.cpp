// Plan table: reads and checks the host's list once, runs it in order as often as asked. Running an op is in
// run_op.cpp.
#include "plan.hpp"

#include <algorithm>
#include <chrono>
#include <crucible/sdk/error.hpp>
#include <crucible/sdk/text.hpp>
#include <memory>
#include <string>

#include "tables.hpp"

namespace acme {
namespace {

using namespace crucible;

[[noreturn]] void invalid(std::size_t index, const std::string& what) {
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.build: op " + std::to_string(index) + ": " + what,
                     {{"op", std::to_string(index)}});
}

void need_buffers(std::uint32_t index, const crucible_op& op, std::uint32_t count) {
  if (op.buffer_count >= count) return;
  invalid(index, "it has " + std::to_string(op.buffer_count) + " buffers and needs " + std::to_string(count));
}

void read_launch(crucible_plan& plan, std::uint32_t index, const crucible_op& op, PlanOp& result) {
  if (op.kernel == nullptr) invalid(index, "a launch without a kernel");
  if (op.grid < 0) invalid(index, "a grid of " + std::to_string(op.grid) + " work items");
  if (op.scalar_count != 0 && op.scalars == nullptr) invalid(index, "its scalars are missing");
  result.kernel = op.kernel;
  result.grid = op.grid;
  for (std::uint32_t i = 0; i < op.scalar_count; ++i) {
    const crucible_scalar& scalar = op.scalars[i];
    if (scalar.type > CRUCIBLE_SCALAR_I64) invalid(index, "scalar " + std::to_string(i) + " is of type " + std::to_string(scalar.type));
    result.scalars.push_back(scalar.bits);
    if (scalar.slot == CRUCIBLE_SLOT_NONE) continue;
    if (scalar.slot >= plan.slot_count) {
      invalid(index, "slot " + std::to_string(scalar.slot) + " of " + std::to_string(plan.slot_count));
    }
    plan.slot_uses.push_back({scalar.slot, index, i});
  }
}

void read_op(crucible_plan& plan, std::uint32_t index, const crucible_op& op) {
  if (op.struct_size < sizeof(crucible_op)) {
    invalid(index, "its struct_size is " + std::to_string(op.struct_size) + ", it needs " +
                       std::to_string(sizeof(crucible_op)));
  }
  if (op.buffer_count != 0 && op.buffers == nullptr) invalid(index, "its buffers are missing");
  PlanOp& result = plan.ops.emplace_back();
  result.kind = op.kind;
  result.size = op.size;
  for (std::uint32_t i = 0; i < op.buffer_count; ++i) result.buffers.push_back(reinterpret_cast<void*>(op.buffers[i]));
  switch (op.kind) {
    case CRUCIBLE_OP_LAUNCH:
      return read_launch(plan, index, op, result);
    case CRUCIBLE_OP_COPY:
      return need_buffers(index, op, 2);
    case CRUCIBLE_OP_FILL:
      if (op.pattern > 255) invalid(index, "the pattern " + std::to_string(op.pattern) + " is not a byte");
      result.pattern = static_cast<std::uint8_t>(op.pattern);
      return need_buffers(index, op, 1);
    case CRUCIBLE_OP_LIBRARY:
      throw sdk::Failure(
          CRUCIBLE_E_UNSUPPORTED,
          "plan.build: op " + std::to_string(index) + " is a library call, and this plugin has no library",
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
    plan->slot_count = slot_count;
    const sdk::SizedArray<crucible_op> all(ops);  // of an older or newer host
    for (std::uint32_t i = 0; i < count; ++i) read_op(*plan, i, all[i]);
    device->ledger.add("plan");
    *out = plan.release();
  });
}

crucible_status set_slots(crucible_plan* plan, const std::uint64_t* values, std::uint32_t count) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr && (values != nullptr || count == 0), "plan.set_slots: no plan or no values");
    if (count != plan->slot_count) {
      throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.set_slots: " + std::to_string(count) + " values for " +
                                                          std::to_string(plan->slot_count) + " slots");
    }
    for (const SlotUse& use : plan->slot_uses) plan->ops[use.op].scalars[use.scalar] = values[use.slot];
  });
}

crucible_status replay(crucible_plan* plan) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr, "plan.replay: no plan");
    run_plan(*plan);
  });
}

crucible_status profile(crucible_plan* plan, std::uint64_t* out_ns, std::uint32_t count) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr && (out_ns != nullptr || count == 0),
                 "plan.profile: no plan or no place for the times");
    if (count != plan->ops.size()) {
      throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.profile: places for " + std::to_string(count) +
                                                          " times, the plan has " + std::to_string(plan->ops.size()) +
                                                          " ops");
    }
    const std::lock_guard lock(plan->device->run_mutex);
    std::vector<std::uint64_t> times;
    for (const PlanOp& op : plan->ops) {
      const auto start = std::chrono::steady_clock::now();
      run_op(*plan->device, op);
      const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
      times.push_back(static_cast<std::uint64_t>(time.count()));
    }
    std::copy(times.begin(), times.end(), out_ns);
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
    sdk::report(sink, user,
                {sdk::text_item("form", "list"), sdk::number_item("ops", plan->ops.size()), sdk::text_item("times", "the host's clock around each op")});
  });
}

}  // namespace

void run_plan(crucible_plan& plan) {
  const std::lock_guard lock(plan.device->run_mutex);
  for (const PlanOp& op : plan.ops) run_op(*plan.device, op);
}

const crucible_if_plan kPlanTable = {
    sizeof(crucible_if_plan), CRUCIBLE_ABI_MINOR, build, set_slots, replay, profile, destroy, describe};

}  // namespace acme
