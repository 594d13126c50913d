// Plan table: ops in order, each opaque op as one call of the dispatcher.
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/torch/kernel.hpp"
#include "backends/torch/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_torch {

struct PlanOp {
  std::uint32_t kind = 0;
  const Call* call = nullptr;  // of a launch; borrowed from its module, which outlives the plan
  std::vector<void*> buffers;
  std::vector<std::uint64_t> scalars;  // the bytes of a double, or of an i64 where the call says so
  std::vector<std::uint32_t> slots;  // per scalar; CRUCIBLE_SLOT_NONE: fixed
  std::uint64_t size = 0;
  std::uint8_t pattern = 0;
};

}  // namespace crucible_torch

struct crucible_plan {
  crucible_device* device = nullptr;
  std::uint32_t slots = 0;
  std::vector<crucible_torch::PlanOp> ops;
};

namespace crucible_torch {
namespace {

using namespace crucible;

[[noreturn]] void invalid(std::uint32_t index, const std::string& what) {
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.build: op " + std::to_string(index) + ": " + what,
                     {{"op", std::to_string(index)}});
}

void need(std::uint32_t index, std::uint32_t has, std::uint32_t needs, const char* what) {
  if (has == needs) return;
  invalid(index, "it has " + std::to_string(has) + " " + what + " and needs " + std::to_string(needs));
}

void read_launch(std::uint32_t index, const crucible_op& op, std::uint32_t slots, PlanOp& read) {
  if (op.kernel == nullptr) invalid(index, "a launch without a kernel");
  read.call = &op.kernel->call;
  need(index, op.buffer_count, read.call->buffers(), "buffers");
  need(index, op.scalar_count, read.call->scalars(), "scalars");
  if (op.grid != 1) invalid(index, "a grid of " + std::to_string(op.grid) + " work items: an opaque op is one");
  for (std::uint32_t i = 0; i < op.scalar_count; ++i) {
    const crucible_scalar& scalar = op.scalars[i];
    if (scalar.type > CRUCIBLE_SCALAR_I64) invalid(index, "scalar " + std::to_string(i) + " is of type " + std::to_string(scalar.type));
    if (scalar.slot != CRUCIBLE_SLOT_NONE && scalar.slot >= slots) {
      invalid(index, "slot " + std::to_string(scalar.slot) + " of " + std::to_string(slots));
    }
    read.scalars.push_back(scalar.bits);
    read.slots.push_back(scalar.slot);
  }
}

PlanOp read_op(std::uint32_t index, const crucible_op& op, std::uint32_t slots) {
  if (op.struct_size < sizeof(crucible_op)) invalid(index, "its struct_size is too small");
  PlanOp read;
  read.kind = op.kind;
  read.size = op.size;
  if (op.buffer_count != 0 && op.buffers == nullptr) invalid(index, "its buffers are missing");
  if (op.scalar_count != 0 && op.scalars == nullptr) invalid(index, "its scalars are missing");
  for (std::uint32_t i = 0; i < op.buffer_count; ++i) read.buffers.push_back(reinterpret_cast<void*>(op.buffers[i]));
  switch (op.kind) {
    case CRUCIBLE_OP_LAUNCH:
      read_launch(index, op, slots, read);
      return read;
    case CRUCIBLE_OP_COPY:
      need(index, op.buffer_count, 2, "buffers");
      return read;
    case CRUCIBLE_OP_FILL:
      need(index, op.buffer_count, 1, "buffers");
      if (op.pattern > 255) invalid(index, "the pattern " + std::to_string(op.pattern) + " is not a byte");
      read.pattern = static_cast<std::uint8_t>(op.pattern);
      return read;
    case CRUCIBLE_OP_LIBRARY:
      throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED,
                         "plan.build: op " + std::to_string(index) + " is a library call, and there is no library",
                         {{"op", std::to_string(index)}});
    default:
      invalid(index, "kind " + std::to_string(op.kind) + " is not known");
  }
}

void run(const PlanOp& op) {
  if (op.kind == CRUCIBLE_OP_LAUNCH) return op.call->run(op.buffers.data(), op.scalars.data());
  if (op.size == 0) return;
  if (op.kind == CRUCIBLE_OP_COPY) {
    std::memcpy(op.buffers[0], op.buffers[1], op.size);
  } else {
    std::memset(op.buffers[0], op.pattern, op.size);
  }
}

crucible_status build(crucible_device* device, const crucible_op* ops, std::uint32_t count, std::uint32_t slot_count,
                      crucible_plan** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "plan.build: no device or no place for the plan");
    sdk::require(count == 0 || ops != nullptr, "plan.build: the ops are missing");
    auto plan = std::make_unique<crucible_plan>();
    plan->device = device;
    plan->slots = slot_count;
    const sdk::SizedArray<crucible_op> all(ops);
    for (std::uint32_t i = 0; i < count; ++i) plan->ops.push_back(read_op(i, all[i], slot_count));
    device->ledger.add("plan");
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
    for (PlanOp& op : plan->ops) {
      for (std::size_t i = 0; i < op.slots.size(); ++i) {
        if (op.slots[i] != CRUCIBLE_SLOT_NONE) op.scalars[i] = values[op.slots[i]];
      }
    }
  });
}

crucible_status replay(crucible_plan* plan) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr, "plan.replay: no plan");
    for (const PlanOp& op : plan->ops) run(op);
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
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      run(plan->ops[i]);
      const auto time = std::chrono::steady_clock::now() - start;
      out_ns[i] = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
    }
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

const crucible_if_plan kPlanTable = {
    sizeof(crucible_if_plan), CRUCIBLE_ABI_MINOR, build, set_slots, replay, profile, destroy, describe};

}  // namespace crucible_torch
