// Plan table: reads and checks the host's list once, records it as a command list, executes that. See plan.hpp.
#include "backends/intel/plan.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "backends/intel/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_intel {
namespace {

using namespace crucible;

constexpr std::int64_t kMostGroups = std::int64_t{1} << 20;  // of one launch; each work-item then does several items

[[noreturn]] void invalid(std::size_t index, const std::string& what) {
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.build: op " + std::to_string(index) + ": " + what, {{"op", std::to_string(index)}});
}

void read_launch(crucible_plan& plan, std::uint32_t index, const crucible_op& op, PlanOp& result) {
  crucible_device& device = *plan.device;
  if (op.kernel == nullptr) invalid(index, "a launch without a kernel");
  if (op.grid < 0) invalid(index, "a grid of " + std::to_string(op.grid) + " work items");
  if (op.scalar_count != 0 && op.scalars == nullptr) invalid(index, "its scalars are missing");
  const crucible_kernel& kernel = *op.kernel;
  if (op.buffer_count != kernel.buffer_count || op.scalar_count != kernel.scalar_count) {
    invalid(index, "kernel " + kernel.name + " has " + std::to_string(kernel.buffer_count) + " buffers and " + std::to_string(kernel.scalar_count) +
                       " scalars, it got " + std::to_string(op.buffer_count) + " and " + std::to_string(op.scalar_count));
  }
  result.kernel = op.kernel;
  result.grid = op.grid;
  for (std::uint32_t i = 0; i < op.scalar_count; ++i) {
    const crucible_scalar& scalar = op.scalars[i];
    if (scalar.type > CRUCIBLE_SCALAR_I64) invalid(index, "scalar " + std::to_string(i) + " is of type " + std::to_string(scalar.type));
    result.scalars.push_back(scalar.bits);
    if (scalar.slot == CRUCIBLE_SLOT_NONE) continue;
    if (scalar.slot >= plan.slot_count) invalid(index, "slot " + std::to_string(scalar.slot) + " of " + std::to_string(plan.slot_count));
    const auto takes = [&](const spirv::Parameter& parameter) { return parameter.kind == spirv::ParameterKind::kScalar && parameter.index == i; };
    const auto parameter = std::ranges::find_if(kernel.parameters, takes);
    plan.slot_uses.push_back({scalar.slot, index, i, static_cast<std::uint32_t>(parameter - kernel.parameters.begin())});
    result.has_slots = true;
  }
  const bool is_team = kernel.lanes > 1;  // then a group does an item
  result.group_size = is_team ? kernel.lanes : std::min(device.group_size, device.facts.group_size);
  const std::int64_t groups = is_team ? op.grid : (op.grid + result.group_size - 1) / result.group_size;
  result.groups = static_cast<std::uint32_t>(std::min({groups, kMostGroups, std::int64_t{device.facts.group_count}}));
  if (kernel.parameters.front().kind != spirv::ParameterKind::kTable) return;
  std::vector<std::uint64_t> addresses;
  for (const Place& place : result.places) addresses.push_back(place.address);
  result.table = allocate(device, addresses.size() * sizeof(addresses[0]), 64);
  copy_now(device, result.table->memory, addresses.data(), addresses.size() * sizeof(addresses[0]), "plan.build: zeCommandListAppendMemoryCopy of a table");
}

/// The first `count` buffers hold `size` bytes each.
void need_buffers(std::uint32_t index, const crucible_op& op, const PlanOp& result, std::uint32_t count) {
  if (op.buffer_count < count) invalid(index, "it has " + std::to_string(op.buffer_count) + " buffers and needs " + std::to_string(count));
  for (std::uint32_t i = 0; i < count; ++i) {
    if (result.places[i].left >= op.size) continue;
    invalid(index, std::to_string(op.size) + " bytes, where buffer " + std::to_string(i) + " has " + std::to_string(result.places[i].left) + " left");
  }
}

void read_op(crucible_plan& plan, std::uint32_t index, const crucible_op& op) {
  if (op.struct_size < sizeof(crucible_op))
    invalid(index, "its struct_size is " + std::to_string(op.struct_size) + ", it needs " + std::to_string(sizeof(crucible_op)));
  if (op.buffer_count != 0 && op.buffers == nullptr) invalid(index, "its buffers are missing");
  PlanOp& result = plan.ops.emplace_back();
  result.kind = op.kind;
  result.size = op.size;
  if (op.kind == CRUCIBLE_OP_LIBRARY) {
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "plan.build: op " + std::to_string(index) + " is a library call, and this plugin calls no library",
                       {{"op", std::to_string(index)}});
  }
  if (op.kind != CRUCIBLE_OP_LAUNCH && op.kind != CRUCIBLE_OP_COPY && op.kind != CRUCIBLE_OP_FILL)
    invalid(index, "kind " + std::to_string(op.kind) + " is not known");
  for (std::uint32_t i = 0; i < op.buffer_count; ++i) result.places.push_back(find_place(*plan.device, op.buffers[i]));
  if (op.kind == CRUCIBLE_OP_LAUNCH) return read_launch(plan, index, op, result);
  if (op.kind == CRUCIBLE_OP_COPY) return need_buffers(index, op, result, 2);
  if (op.pattern > 255) invalid(index, "the pattern " + std::to_string(op.pattern) + " is not a byte");
  result.pattern = static_cast<std::uint8_t>(op.pattern);
  need_buffers(index, op, result, 1);
}

void set_arguments(const Functions& ze, const PlanOp& op) {
  const crucible_kernel& kernel = *op.kernel;
  for (std::uint32_t i = 0; i < kernel.parameters.size(); ++i) {
    const spirv::Parameter& parameter = kernel.parameters[i];
    std::uint64_t bits = 0;
    switch (parameter.kind) {
      case spirv::ParameterKind::kBuffer:
        bits = op.places[parameter.index].address;
        break;
      case spirv::ParameterKind::kTable:
        bits = reinterpret_cast<std::uint64_t>(op.table->memory);
        break;
      case spirv::ParameterKind::kScalar:
        bits = spirv::scalar_bits(parameter, op.scalars[parameter.index]);
        break;
      case spirv::ParameterKind::kBegin:
      case spirv::ParameterKind::kOffset:  // these three in forms that are not asked for
      case spirv::ParameterKind::kMemory:
      case spirv::ParameterKind::kChunk:
        break;
      case spirv::ParameterKind::kEnd:
        bits = static_cast<std::uint64_t>(op.grid);
        break;
    }
    check(ze.zeKernelSetArgumentValue(kernel.object.get(), i, parameter.size(), &bits), "zeKernelSetArgumentValue " + std::to_string(i) + " of " + kernel.name);
  }
}

bool is_empty(const PlanOp& op) { return op.kind == CRUCIBLE_OP_LAUNCH ? op.grid == 0 : op.size == 0; }

void append_op(const Functions& ze, ze::List list, const PlanOp& op, ze::Event event) {
  const auto pointer = [&](std::size_t i) { return reinterpret_cast<void*>(op.places[i].address); };
  if (op.kind == CRUCIBLE_OP_FILL) {
    return check(ze.zeCommandListAppendMemoryFill(list, pointer(0), &op.pattern, 1, op.size, event, 0, nullptr), "zeCommandListAppendMemoryFill");
  }
  if (op.kind == CRUCIBLE_OP_COPY) {
    return check(ze.zeCommandListAppendMemoryCopy(list, pointer(0), pointer(1), op.size, event, 0, nullptr), "zeCommandListAppendMemoryCopy");
  }
  set_arguments(ze, op);
  check(ze.zeKernelSetGroupSize(op.kernel->object.get(), op.group_size, 1, 1), "zeKernelSetGroupSize of " + op.kernel->name);
  const ze::GroupCount groups = {op.groups, 1, 1};
  check(ze.zeCommandListAppendLaunchKernel(list, op.kernel->object.get(), &groups, event, 0, nullptr), "zeCommandListAppendLaunchKernel of " + op.kernel->name);
}

bool is_patched(const crucible_plan& plan) { return plan.device->mutable_lists.usable() && !plan.slot_uses.empty(); }

/// The caller holds the device's run mutex. `events`: one per op, or none. `metrics`: counts all of it, or null. Where slots are patched, the ops get
/// their numbers in the list.
OwnedList record(crucible_plan& plan, const std::vector<OwnedEvent>& events, MetricCounting* metrics = nullptr) {
  const crucible_device& device = *plan.device;
  const Functions& ze = *device.ze;
  const bool is_mutable = events.empty() && metrics == nullptr && is_patched(plan);
  const ze::MutableListDesc mutable_description;
  ze::ListDesc description;
  description.ordinal = device.facts.queue_group;
  if (is_mutable) description.next = &mutable_description;
  ze::List made = nullptr;
  check(ze.zeCommandListCreate(device.context.get(), device.facts.device, &description, &made), "plan: zeCommandListCreate");
  OwnedList list(ze, made);
  if (metrics != nullptr) metrics->append_begin(made);
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    if (is_empty(plan.ops[i])) continue;
    if (is_mutable && plan.ops[i].has_slots) plan.ops[i].command = next_command_id(device.mutable_lists, made);
    append_op(ze, made, plan.ops[i], events.empty() ? nullptr : events[i].get());
    // Commands of a list may overlap; each op may read what the one before wrote.
    check(ze.zeCommandListAppendBarrier(made, nullptr, 0, nullptr), "plan: zeCommandListAppendBarrier");
  }
  if (metrics != nullptr) metrics->append_end(made);
  check(ze.zeCommandListClose(made), "plan: zeCommandListClose");
  return list;
}

/// The caller holds the run mutex.
void execute(crucible_device& device, ze::List list) {
  device.watchdog.require_alive();
  const Functions& ze = *device.ze;
  check(ze.zeCommandQueueExecuteCommandLists(device.queue.get(), 1, &list, nullptr), "plan.replay: zeCommandQueueExecuteCommandLists");
  finish(device, "plan.replay");
}

crucible_status build(crucible_device* device, const crucible_op* ops, std::uint32_t count, std::uint32_t slot_count, crucible_plan** out) {
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

/// A list that cannot be changed is dropped: the next replay records it with the new scalars.
void patch(crucible_plan& plan, std::span<const ArgumentChange> changes) {
  crucible_device& device = *plan.device;
  const std::lock_guard lock(device.run_mutex);
  if (plan.list.get() == nullptr) return;
  OwnedList list = std::exchange(plan.list, {});
  if (!is_patched(plan)) return;
  change_arguments(*device.ze, device.mutable_lists, list.get(), changes);
  plan.patched += changes.size();
  plan.list = std::move(list);
}

crucible_status set_slots(crucible_plan* plan, const std::uint64_t* values, std::uint32_t count) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr && (values != nullptr || count == 0), "plan.set_slots: no plan or no values");
    if (count != plan->slot_count) {
      throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT,
                         "plan.set_slots: " + std::to_string(count) + " values for " + std::to_string(plan->slot_count) + " slots");
    }
    std::vector<ArgumentChange> changes;
    for (const SlotUse& use : plan->slot_uses) {
      PlanOp& op = plan->ops[use.op];
      std::uint64_t& scalar = op.scalars[use.scalar];
      if (scalar == values[use.slot]) continue;
      scalar = values[use.slot];
      if (is_empty(op)) continue;
      const spirv::Parameter& parameter = op.kernel->parameters[use.parameter];
      changes.push_back({op.command, use.parameter, parameter.size(), spirv::scalar_bits(parameter, scalar)});
    }
    if (!changes.empty()) patch(*plan, changes);
  });
}

crucible_status replay(crucible_plan* plan) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr, "plan.replay: no plan");
    run_plan(*plan);
  });
}

/// Kernel time stamps wrap at their own width.
std::uint64_t nanoseconds(const DeviceFacts& facts, const ze::KernelTimestamp& stamp) {
  const std::uint64_t ticks = (stamp.global_end - stamp.global_start) & facts.tick_mask;
  return static_cast<std::uint64_t>(static_cast<double>(ticks) * 1e9 / static_cast<double>(facts.ticks_per_second));
}

crucible_status profile(crucible_plan* plan, std::uint64_t* out_ns, std::uint32_t count) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr && (out_ns != nullptr || count == 0), "plan.profile: no plan or no place for the times");
    if (count != plan->ops.size()) {
      throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.profile: places for " + std::to_string(count) + " times, the plan has " +
                                                          std::to_string(plan->ops.size()) + " ops");
    }
    if (count == 0) return;
    crucible_device& device = *plan->device;
    const Functions& ze = *device.ze;
    const std::lock_guard lock(device.run_mutex);
    ze::EventPoolDesc pool_description;
    pool_description.count = count;
    ze::EventPool pool = nullptr;
    check(ze.zeEventPoolCreate(device.context.get(), &pool_description, 1, &device.facts.device, &pool), "plan.profile: zeEventPoolCreate");
    const OwnedEventPool owned_pool(ze, pool);
    std::vector<OwnedEvent> events;
    for (std::uint32_t i = 0; i < count; ++i) {
      ze::EventDesc description;
      description.index = i;
      ze::Event event = nullptr;
      check(ze.zeEventCreate(pool, &description, &event), "plan.profile: zeEventCreate");
      events.emplace_back(ze, event);
    }
    const OwnedList list = record(*plan, events);
    execute(device, list.get());
    std::vector<std::uint64_t> times(count, 0);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (is_empty(plan->ops[i])) continue;
      ze::KernelTimestamp stamp;
      check(ze.zeEventQueryKernelTimestamp(events[i].get(), &stamp), "plan.profile: zeEventQueryKernelTimestamp");
      times[i] = nanoseconds(device.facts, stamp);
    }
    std::copy(times.begin(), times.end(), out_ns);
  });
}

crucible_status destroy(crucible_plan* plan) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr, "plan.destroy: no plan");
    plan->device->ledger.remove("plan");
    if (plan->device->watchdog.is_suspect()) return sdk::abandon(plan);
    delete plan;
  });
}

crucible_status describe(crucible_plan* plan, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr && sink != nullptr, "plan.describe: no plan or no function to report to");
    const MutableLists& lists = plan->device->mutable_lists;
    const std::string slots = lists.usable() ? "a changed slot is patched in the mutable command list"
                                             : "a changed slot records the command list again: " + lists.why_not;
    sdk::report(sink, user,
                {sdk::text_item("form", "native"), sdk::number_item("ops", plan->ops.size()), sdk::number_item("recorded", plan->recorded),
                 sdk::number_item("patched", plan->patched), sdk::text_item("slots", slots),
                 sdk::text_item("times", "time stamps of an event of each op")});
  });
}

}  // namespace

void run_plan(crucible_plan& plan) {
  if (plan.ops.empty()) return;
  crucible_device& device = *plan.device;
  const std::lock_guard lock(device.run_mutex);
  if (device.metrics != nullptr) {
    const OwnedList counted = record(plan, {}, device.metrics);
    execute(device, counted.get());
    return device.metrics->collect();
  }
  if (plan.list.get() == nullptr) {
    plan.list = record(plan, {});
    ++plan.recorded;
  }
  execute(device, plan.list.get());
}

const crucible_if_plan kPlanTable = {sizeof(crucible_if_plan), CRUCIBLE_ABI_MINOR, build, set_slots, replay, profile, destroy, describe};

}  // namespace crucible_intel
