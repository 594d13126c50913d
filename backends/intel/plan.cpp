// Plan table: records the list as a command list, executes that. See plan.hpp.
#include "backends/intel/plan.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "backends/intel/tables.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible_intel {
namespace {

using namespace crucible;

constexpr std::int64_t kMostGroups = std::int64_t{1} << 20;  // of one launch; each work-item then does several items

/// The kernel's parameter that scalar `index` goes to.
std::uint32_t parameter_of(const crucible_kernel& kernel, std::uint32_t index) {
  const auto takes = [&](const spirv::Parameter& parameter) {
    return parameter.kind == spirv::ParameterKind::kScalar && parameter.index == index;
  };
  return static_cast<std::uint32_t>(std::ranges::find_if(kernel.parameters, takes) - kernel.parameters.begin());
}

Launch plan_launch(crucible_device& device, const sdk::ListedOp& op) {
  const crucible_kernel& kernel = *op.kernel;
  Launch launch;
  launch.group_size = std::min(device.group_size, device.facts.group_size);
  std::int64_t groups = (op.grid + launch.group_size - 1) / launch.group_size;
  if (kernel.lanes > 1) {
    const sdk::LaunchShape shape = sdk::launch_shape(op.grid, kernel.most_threads, device.facts.units, kernel.lanes);
    launch.group_size = shape.threads;
    groups = shape.blocks;
  }
  launch.groups = static_cast<std::uint32_t>(std::min({groups, kMostGroups, std::int64_t{device.facts.group_count}}));
  if (kernel.parameters.front().kind != spirv::ParameterKind::kTable) return launch;
  const std::uint64_t bytes = op.addresses.size() * sizeof(op.addresses[0]);
  launch.table = allocate(device, bytes);
  copy_now(device, launch.table->memory, op.addresses.data(), bytes,
           "plan.build: zeCommandListAppendMemoryCopy of a table");
  return launch;
}

void set_arguments(const Functions& ze, const sdk::ListedOp& op, const Launch& launch) {
  const crucible_kernel& kernel = *op.kernel;
  for (std::uint32_t i = 0; i < kernel.parameters.size(); ++i) {
    const spirv::Parameter& parameter = kernel.parameters[i];
    std::uint64_t bits = 0;
    switch (parameter.kind) {
      case spirv::ParameterKind::kBuffer:
        bits = op.addresses[parameter.index];
        break;
      case spirv::ParameterKind::kTable:
        bits = reinterpret_cast<std::uint64_t>(launch.table->memory);
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
    check(ze.zeKernelSetArgumentValue(kernel.object.get(), i, parameter.size(), &bits),
          "zeKernelSetArgumentValue " + std::to_string(i) + " of " + kernel.name);
  }
}

void append_op(const Functions& ze, ze_command_list_handle_t list, const sdk::ListedOp& op, const Launch& launch,
               ze_event_handle_t event) {
  if (op.kind == CRUCIBLE_OP_FILL) {
    return check(ze.zeCommandListAppendMemoryFill(list, op.pointer(0), &op.pattern, 1, op.size, event, 0, nullptr),
                 "zeCommandListAppendMemoryFill");
  }
  if (op.kind == CRUCIBLE_OP_COPY) {
    return check(ze.zeCommandListAppendMemoryCopy(list, op.pointer(0), op.pointer(1), op.size, event, 0, nullptr),
                 "zeCommandListAppendMemoryCopy");
  }
  set_arguments(ze, op, launch);
  check(ze.zeKernelSetGroupSize(op.kernel->object.get(), launch.group_size, 1, 1),
        "zeKernelSetGroupSize of " + op.kernel->name);
  const ze_group_count_t groups = {launch.groups, 1, 1};
  check(ze.zeCommandListAppendLaunchKernel(list, op.kernel->object.get(), &groups, event, 0, nullptr),
        "zeCommandListAppendLaunchKernel of " + op.kernel->name);
}

bool is_patched(const crucible_plan& plan) {
  return plan.device->mutable_lists.usable() && !plan.list.slot_uses.empty();
}

/// The caller holds the device's run mutex. `events`: one per op, or none. `metrics`: counts all of it, or null. Where
/// slots are patched, the ops get their numbers in the list.
OwnedList record(crucible_plan& plan, const std::vector<OwnedEvent>& events, MetricCounting* metrics = nullptr) {
  const crucible_device& device = *plan.device;
  const Functions& ze = *device.ze;
  const bool is_mutable = events.empty() && metrics == nullptr && is_patched(plan);
  const auto mutable_description =
      typed<ze_mutable_command_list_exp_desc_t>(ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_LIST_EXP_DESC);
  auto description = typed<ze_command_list_desc_t>(ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC);
  description.commandQueueGroupOrdinal = device.facts.queue_group;
  if (is_mutable) description.pNext = &mutable_description;
  ze_command_list_handle_t made = nullptr;
  check(ze.zeCommandListCreate(device.context.get(), device.facts.device, &description, &made),
        "plan: zeCommandListCreate");
  OwnedList list(ze, made);
  if (metrics != nullptr) metrics->append_begin(made);
  for (std::size_t i = 0; i < plan.list.ops.size(); ++i) {
    const sdk::ListedOp& op = plan.list.ops[i];
    Launch& launch = plan.launches[i];
    if (!op.does_something()) continue;
    if (is_mutable && launch.has_slots) launch.command = next_command_id(device.mutable_lists, made);
    append_op(ze, made, op, launch, events.empty() ? nullptr : events[i].get());
    // Commands of a list may overlap; each op may read what the one before wrote.
    check(ze.zeCommandListAppendBarrier(made, nullptr, 0, nullptr), "plan: zeCommandListAppendBarrier");
  }
  if (metrics != nullptr) metrics->append_end(made);
  check(ze.zeCommandListClose(made), "plan: zeCommandListClose");
  return list;
}

/// The caller holds the run mutex.
void execute(crucible_device& device, ze_command_list_handle_t list) {
  device.watchdog.require_alive();
  const Functions& ze = *device.ze;
  check(ze.zeCommandQueueExecuteCommandLists(device.queue.get(), 1, &list, nullptr),
        "queue.submit: zeCommandQueueExecuteCommandLists");
  finish(device, "queue.submit");
}

/// A list that cannot be changed is dropped: the next replay records it with the new scalars.
void change(crucible_plan& plan, std::span<const ArgumentChange> changes) {
  crucible_device& device = *plan.device;
  const std::lock_guard lock(device.run_mutex);
  if (plan.list_of_commands.get() == nullptr) return;
  OwnedList list = std::exchange(plan.list_of_commands, {});
  if (!is_patched(plan)) return;
  change_arguments(*device.ze, device.mutable_lists, list.get(), changes);
  plan.patched += changes.size();
  plan.list_of_commands = std::move(list);
}

/// Kernel time stamps wrap at their own width.
std::uint64_t nanoseconds(const DeviceFacts& facts, const ze_kernel_timestamp_result_t& stamp) {
  const std::uint64_t ticks = (stamp.global.kernelEnd - stamp.global.kernelStart) & facts.tick_mask;
  return static_cast<std::uint64_t>(static_cast<double>(ticks) * 1e9 / static_cast<double>(facts.ticks_per_second));
}

struct Plans {
  static void make(crucible_plan& plan) {
    sdk::make_launches(plan.list, plan.launches,
                       [&](std::size_t i) { return plan_launch(*plan.device, plan.list.ops[i]); });
  }

  static void patch(crucible_plan& plan, std::span<const sdk::SlotUse> changed) {
    std::vector<ArgumentChange> changes;
    for (const sdk::SlotUse& use : changed) {
      const sdk::ListedOp& op = plan.list.ops[use.op];
      if (!op.does_something()) continue;
      const std::uint32_t index = parameter_of(*op.kernel, use.scalar);
      const spirv::Parameter& parameter = op.kernel->parameters[index];
      changes.push_back({plan.launches[use.op].command, index, parameter.size(),
                         spirv::scalar_bits(parameter, op.scalars[use.scalar])});
    }
    if (!changes.empty()) change(plan, changes);
  }

  static void run(crucible_plan& plan) { run_plan(plan); }

  static std::vector<std::uint64_t> times(crucible_plan& plan) {
    const auto count = static_cast<std::uint32_t>(plan.list.ops.size());
    std::vector<std::uint64_t> times(count, 0);
    if (count == 0) return times;
    crucible_device& device = *plan.device;
    const Functions& ze = *device.ze;
    const std::lock_guard lock(device.run_mutex);
    auto pool_description = typed<ze_event_pool_desc_t>(ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
    pool_description.flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP;
    pool_description.count = count;
    ze_event_pool_handle_t pool = nullptr;
    check(ze.zeEventPoolCreate(device.context.get(), &pool_description, 1, &device.facts.device, &pool),
          "plan.profile: zeEventPoolCreate");
    const OwnedEventPool owned_pool(ze, pool);
    std::vector<OwnedEvent> events;
    for (std::uint32_t i = 0; i < count; ++i) {
      auto description = typed<ze_event_desc_t>(ZE_STRUCTURE_TYPE_EVENT_DESC);
      description.index = i;
      description.signal = ZE_EVENT_SCOPE_FLAG_HOST;
      ze_event_handle_t event = nullptr;
      check(ze.zeEventCreate(pool, &description, &event), "plan.profile: zeEventCreate");
      events.emplace_back(ze, event);
    }
    const OwnedList list = record(plan, events);
    execute(device, list.get());
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!plan.list.ops[i].does_something()) continue;
      ze_kernel_timestamp_result_t stamp = {};
      check(ze.zeEventQueryKernelTimestamp(events[i].get(), &stamp), "plan.profile: zeEventQueryKernelTimestamp");
      times[i] = nanoseconds(device.facts, stamp);
    }
    return times;
  }

  static void describe(const crucible_plan& plan, crucible_kv_sink sink, void* user) {
    const MutableLists& lists = plan.device->mutable_lists;
    const std::string slots = lists.usable() ? "a changed slot is patched in the mutable command list"
                                             : "a changed slot records the command list again: " + lists.why_not;
    sdk::report(sink, user,
                {sdk::text_item("form", "native"), sdk::number_item("ops", plan.list.ops.size()),
                 sdk::number_item("recorded", plan.recorded), sdk::number_item("patched", plan.patched),
                 sdk::text_item("slots", slots), sdk::text_item("times", "time stamps of an event of each op")});
  }
};

}  // namespace

void run_plan(crucible_plan& plan) {
  if (plan.list.ops.empty()) return;
  crucible_device& device = *plan.device;
  const std::lock_guard lock(device.run_mutex);
  if (device.metrics != nullptr) {
    const OwnedList counted = record(plan, {}, device.metrics);
    execute(device, counted.get());
    return device.metrics->collect();
  }
  if (plan.list_of_commands.get() == nullptr) {
    plan.list_of_commands = record(plan, {});
    ++plan.recorded;
  }
  execute(device, plan.list_of_commands.get());
}

const crucible_if_plan kPlanTable = sdk::make_plan_table<crucible_device, crucible_plan, Plans>();

}  // namespace crucible_intel
