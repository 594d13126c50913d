// Plan table: reads and checks the host's list once and sets all arguments; a replay enqueues the list, or the command buffer that was
// recorded of it, and waits once.
#include "backends/opencl/plan.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "backends/opencl/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_opencl {
namespace {

using namespace crucible;

// More chunks than units, so that a unit that others keep busy gets fewer of them.
constexpr std::int64_t kChunksPerUnit = 4;
// In the mapping by items: work-items together, and at most so many groups; each then does several items.
constexpr std::size_t kGroupSize = 128, kMostGroups = std::size_t{1} << 20;

[[noreturn]] void invalid(std::size_t index, const std::string& what) {
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.build: op " + std::to_string(index) + ": " + what,
                     {{"op", std::to_string(index)}});
}

template <class Value>
void set_argument(const crucible_device& device, cl_kernel kernel, std::uint32_t index, const Value& value) {
  check(device.cl->clSetKernelArg(kernel, index, sizeof(value), &value),
        "clSetKernelArg " + std::to_string(index));
}

void set_scalar(const crucible_device& device, cl_kernel kernel, std::uint32_t index, const ScalarArgument& argument) {
  check(device.cl->clSetKernelArg(kernel, index, argument.parameter.size(), &argument.bits), "clSetKernelArg " + std::to_string(index));
}

/// How many work-items in all and together, and how many items of the grid each does (chunks only).
std::int64_t choose_sizes(const crucible_device& device, const crucible_op& op, PlanOp& result) {
  if (device.mapping == Mapping::kChunks) {
    const std::int64_t most = static_cast<std::int64_t>(device.facts.units) * kChunksPerUnit;
    const std::int64_t chunk = std::max({std::int64_t{1}, op.grain, (op.grid + most - 1) / most});
    result.global_size = static_cast<std::size_t>((op.grid + chunk - 1) / chunk);
    result.local_size = 1;
    return chunk;
  }
  std::size_t most = 1;  // what the kernel's registers leave
  check(device.cl->clGetKernelWorkGroupInfo(result.kernel.get(), device.facts.device, CL_KERNEL_WORK_GROUP_SIZE,
                                            sizeof(most), &most, nullptr),
        "clGetKernelWorkGroupInfo");
  result.local_size = std::clamp<std::size_t>(most, 1, kGroupSize);
  const std::size_t grid = static_cast<std::size_t>(op.grid);
  result.global_size = std::min((grid - 1) / result.local_size + 1, kMostGroups) * result.local_size;
  return 0;
}

void set_pointer(const crucible_device& device, cl_kernel kernel, std::uint32_t index, const void* pointer) {
  const cl_int code = device.memory.kind == MemoryKind::kUsm ? device.memory.set_pointer(kernel, index, pointer)
                                                              : device.cl->clSetKernelArgSVMPointer(kernel, index, pointer);
  check(code, "setting argument " + std::to_string(index) + " to a pointer of " + std::string(name(device.memory.kind)));
}

/// The number of the first argument behind the buffers.
std::uint32_t set_buffers(const crucible_device& device, const PlanOp& op) {
  std::uint32_t argument = 0;
  for (const Place& place : op.places) {
    if (device.memory.kind != MemoryKind::kBuffers) {
      set_pointer(device, op.kernel.get(), argument++, place.pointer());
      continue;
    }
    cl_mem const memory = place.memory();
    set_argument(device, op.kernel.get(), argument++, memory);
    set_argument(device, op.kernel.get(), argument++, cl_ulong{place.offset});
  }
  return argument;
}

/// The same for a kernel with a table of offsets.
std::uint32_t set_table(crucible_device& device, std::uint32_t index, PlanOp& op) {
  std::vector<cl_mem> memories;
  std::vector<cl_ulong> table;
  for (const Place& place : op.places) {
    const auto known = std::ranges::find(memories, place.memory());
    table.push_back(static_cast<cl_ulong>(known - memories.begin()));
    table.push_back(place.offset);
    if (known == memories.end()) memories.push_back(place.memory());
  }
  if (memories.size() > kTableMemories) {
    invalid(index, std::to_string(op.places.size()) + " buffers in " + std::to_string(memories.size()) +
                       " allocations, and a kernel with so many takes them from " + std::to_string(kTableMemories) +
                       ": put them into one");
  }
  op.table = make_table(device, table);
  std::uint32_t argument = 0;
  for (std::size_t i = 0; i < kTableMemories; ++i)
    set_argument(device, op.kernel.get(), argument++, memories[std::min(i, memories.size() - 1)]);
  cl_mem const memory = op.table->memory();
  set_argument(device, op.kernel.get(), argument++, memory);
  return argument;
}

/// The same for a kernel with a table of addresses, which the driver has to be told of.
std::uint32_t set_pointer_table(crucible_device& device, PlanOp& op) {
  std::vector<cl_ulong> table;
  std::vector<void*> allocations;
  for (const Place& place : op.places) {
    table.push_back(reinterpret_cast<cl_ulong>(place.pointer()));
    void* const start = place.allocation->pointer();
    if (std::ranges::find(allocations, start) == allocations.end()) allocations.push_back(start);
  }
  op.table = make_table(device, table);
  set_pointer(device, op.kernel.get(), 0, op.table->pointer());
  const cl_bool yes = CL_TRUE;
  const cl_int code =
      device.memory.kind == MemoryKind::kUsm
          ? device.cl->clSetKernelExecInfo(op.kernel.get(), CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL, sizeof(yes), &yes)
          : device.cl->clSetKernelExecInfo(op.kernel.get(), CL_KERNEL_EXEC_INFO_SVM_PTRS, allocations.size() * sizeof(void*), allocations.data());
  check(code, "plan.build: clSetKernelExecInfo for a table of addresses");
  return 1;
}

std::uint32_t set_places(crucible_device& device, std::uint32_t index, Buffers buffers, PlanOp& op) {
  if (!is_table(buffers)) return set_buffers(device, op);
  return buffers == Buffers::kTable ? set_table(device, index, op) : set_pointer_table(device, op);
}

void read_launch(crucible_plan& plan, std::uint32_t index, const crucible_op& op, PlanOp& result) {
  crucible_device& device = *plan.device;
  if (op.kernel == nullptr) invalid(index, "a launch without a kernel");
  if (op.grid < 0) invalid(index, "a grid of " + std::to_string(op.grid) + " work items");
  if (op.scalar_count != 0 && op.scalars == nullptr) invalid(index, "its scalars are missing");
  const crucible_kernel& kernel = *op.kernel;
  if (op.buffer_count != kernel.buffer_count || op.scalar_count != kernel.scalar_count) {
    invalid(index, "kernel " + kernel.name + " has " + std::to_string(kernel.buffer_count) + " buffers and " +
                       std::to_string(kernel.scalar_count) + " scalars, it got " + std::to_string(op.buffer_count) +
                       " and " + std::to_string(op.scalar_count));
  }
  cl_int code = CL_SUCCESS;
  const Functions& cl = *device.cl;
  result.kernel = KernelObject(cl, cl.clCreateKernel(kernel.module->program.get(), kernel.name.c_str(), &code));
  check(code, "plan.build: clCreateKernel of " + kernel.name);
  cl_kernel const object = result.kernel.get();
  std::uint32_t argument = set_places(device, index, kernel.buffers, result);
  result.first_scalar = argument;
  for (std::uint32_t i = 0; i < op.scalar_count; ++i) {
    const crucible_scalar& scalar = op.scalars[i];
    if (scalar.type > CRUCIBLE_SCALAR_I64) invalid(index, "scalar " + std::to_string(i) + " is of type " + std::to_string(scalar.type));
    result.scalars.push_back(scalar.bits);
    if (scalar.slot == CRUCIBLE_SLOT_NONE) continue;
    if (scalar.slot >= plan.slot_count) {
      invalid(index, "slot " + std::to_string(scalar.slot) + " of " + std::to_string(plan.slot_count));
    }
    plan.slot_uses.push_back({scalar.slot, index, i});
    result.has_slots = true;
  }
  for (const spirv::Parameter& parameter : kernel.scalars) {
    result.arguments.push_back({parameter, spirv::scalar_bits(parameter, result.scalars[parameter.index])});
    set_scalar(device, object, argument++, result.arguments.back());
  }
  const std::int64_t chunk = op.grid == 0 ? 0 : choose_sizes(device, op, result);
  set_argument(device, object, argument++, cl_long{0});
  set_argument(device, object, argument++, cl_long{op.grid});
  if (kernel.takes_chunk) set_argument(device, object, argument++, cl_long{chunk});
}

/// The first `count` buffers hold `size` bytes each.
void need_buffers(std::uint32_t index, const crucible_op& op, const PlanOp& result, std::uint32_t count) {
  if (op.buffer_count < count) {
    invalid(index, "it has " + std::to_string(op.buffer_count) + " buffers and needs " + std::to_string(count));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (result.places[i].left >= op.size) continue;
    invalid(index, std::to_string(op.size) + " bytes, where buffer " + std::to_string(i) + " has " +
                       std::to_string(result.places[i].left) + " left");
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
  if (op.kind == CRUCIBLE_OP_LIBRARY) {
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED,
                       "plan.build: op " + std::to_string(index) + " is a library call, and OpenCL has no library",
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

/// The kernel object gets the present scalars. A command buffer's launches are changed without it.
void refresh(const crucible_device& device, PlanOp& op) {
  if (!op.is_stale) return;
  for (std::uint32_t i = 0; i < op.arguments.size(); ++i) set_scalar(device, op.kernel.get(), op.first_scalar + i, op.arguments[i]);
  op.is_stale = false;
}

bool is_empty(const PlanOp& op) { return op.kind == CRUCIBLE_OP_LAUNCH ? op.global_size == 0 : op.size == 0; }

/// Where `events` is given, what was enqueued is appended.
void enqueue(crucible_device& device, PlanOp& op, std::vector<Event>* events) {
  if (is_empty(op)) return;
  if (op.kind == CRUCIBLE_OP_FILL) return enqueue_fill(device, op.places[0], op.size, op.pattern, events);
  if (op.kind == CRUCIBLE_OP_COPY) return enqueue_copy(device, op.places[0], op.places[1], op.size, events);
  refresh(device, op);
  cl_event event = nullptr;
  check(device.cl->clEnqueueNDRangeKernel(device.queue.get(), op.kernel.get(), 1, nullptr, &op.global_size, &op.local_size, 0,
                                          nullptr, events != nullptr ? &event : nullptr),
        "clEnqueueNDRangeKernel");
  if (events != nullptr) events->emplace_back(*device.cl, event);
}

void record_op(const crucible_device& device, CommandBuffer& buffer, PlanOp& op) {
  const bool has_buffers = device.memory.kind == MemoryKind::kBuffers;
  if (op.kind == CRUCIBLE_OP_LAUNCH) {
    refresh(device, op);
    const bool is_changed = op.has_slots && device.command_buffers.can_change();
    return buffer.launch(op.kernel.get(), op.global_size, op.local_size, is_changed ? &op.command : nullptr);
  }
  const Place& to = op.places[0];
  if (op.kind == CRUCIBLE_OP_COPY) {
    const Place& from = op.places[1];
    if (!has_buffers) return buffer.copy(to.pointer(), from.pointer(), op.size);
    return buffer.copy(to.memory(), to.offset, from.memory(), from.offset, op.size);
  }
  const auto pattern = fill_pattern(op.pattern);
  for (const auto& [from, end, width] : fill_pieces(to, op.size)) {
    if (from == end) continue;
    if (has_buffers) {
      buffer.fill(to.memory(), pattern.data(), width, to.offset + from, end - from);
    } else {
      buffer.fill(to.pointer() + from, pattern.data(), width, end - from);
    }
  }
}

/// The caller holds the run mutex, or nobody else has the plan yet.
void record(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  CommandBuffer buffer(device.command_buffers, device.queue.get());
  for (PlanOp& op : plan.ops) {
    if (!is_empty(op)) record_op(device, buffer, op);
  }
  buffer.finalize();
  plan.buffer = std::move(buffer);
  ++plan.recorded;
}

/// A command buffer where the device takes them; else the queue, and why. By the option auto a driver that refuses to record what it should
/// is one without. Errors: those of recording where the option asks for it.
void choose_way(crucible_plan& plan) {
  const crucible_device& device = *plan.device;
  const CommandBufferFunctions& buffers = device.command_buffers;
  if (!buffers.usable()) {
    plan.why_queue = buffers.why_not;
    return;
  }
  try {
    if (!plan.ops.empty()) record(plan);
    plan.is_recorded = true;
  } catch (const sdk::Failure& failure) {
    const bool is_final = failure.code() == CRUCIBLE_E_OUT_OF_MEMORY || failure.code() == CRUCIBLE_E_DEVICE_LOST;
    if (device.only_command_buffers || is_final) throw;
    plan.why_queue = failure.what();
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
    choose_way(*plan);
    device->ledger.add("plan");
    *out = plan.release();
  });
}

/// A command buffer that cannot be changed is dropped: the next replay records it with the new scalars. The caller holds the run mutex.
void patch(crucible_plan& plan, std::span<const CommandChange> changes) {
  CommandBuffer buffer = std::move(plan.buffer);
  if (!plan.device->command_buffers.can_change()) return;
  buffer.change(changes);
  plan.patched += changes.size();
  plan.buffer = std::move(buffer);
}

crucible_status set_slots(crucible_plan* plan, const std::uint64_t* values, std::uint32_t count) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr && (values != nullptr || count == 0), "plan.set_slots: no plan or no values");
    if (count != plan->slot_count) {
      throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.set_slots: " + std::to_string(count) + " values for " +
                                                          std::to_string(plan->slot_count) + " slots");
    }
    const std::lock_guard lock(plan->device->run_mutex);
    std::vector<CommandChange> changes;
    for (const SlotUse& use : plan->slot_uses) {
      PlanOp& op = plan->ops[use.op];
      std::uint64_t& scalar = op.scalars[use.scalar];
      if (scalar == values[use.slot]) continue;
      scalar = values[use.slot];
      if (is_empty(op)) continue;
      for (std::uint32_t i = 0; i < op.arguments.size(); ++i) {
        auto& [parameter, bits] = op.arguments[i];
        if (parameter.index != use.scalar || bits == spirv::scalar_bits(parameter, scalar)) continue;
        bits = spirv::scalar_bits(parameter, scalar);
        op.is_stale = true;  // until it is enqueued or recorded again
        changes.push_back({op.command, op.first_scalar + i, parameter.size(), &bits});
      }
    }
    if (!changes.empty() && plan->buffer) patch(*plan, changes);
  });
}

crucible_status replay(crucible_plan* plan) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr, "plan.replay: no plan");
    run_plan(*plan);
  });
}

std::uint64_t event_time(const crucible_device& device, const Event& event, cl_profiling_info what) {
  cl_ulong time = 0;
  check(device.cl->clGetEventProfilingInfo(event.get(), what, sizeof(time), &time, nullptr), "clGetEventProfilingInfo");
  return time;
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
    crucible_device& device = *plan->device;
    const std::lock_guard lock(device.run_mutex);
    std::vector<std::vector<Event>> events(count);
    for (std::uint32_t i = 0; i < count; ++i) enqueue(device, plan->ops[i], &events[i]);
    finish(device, "plan.profile");
    std::vector<std::uint64_t> times(count, 0);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (events[i].empty()) continue;
      times[i] = event_time(device, events[i].back(), CL_PROFILING_COMMAND_END) -
                 event_time(device, events[i].front(), CL_PROFILING_COMMAND_START);
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
    const CommandBufferFunctions& buffers = plan->device->command_buffers;
    std::string way = "queue (" + plan->why_queue + ")", slots = "a changed slot is set on its kernel object";
    if (plan->is_recorded) {
      way = "command_buffer (cl_khr_command_buffer " + version_text(buffers.version) + ")";
      slots = buffers.can_change() ? "a changed slot is patched in the command buffer (mutable dispatch " + version_text(buffers.mutable_version) + ")"
                                   : "a changed slot records the command buffer again: " + buffers.why_not_change;
    }
    sdk::report(sink, user,
                {sdk::text_item("form", plan->is_recorded ? "native" : "list"), sdk::number_item("ops", plan->ops.size()),
                 sdk::text_item("plans", way), sdk::text_item("memory", name(plan->device->memory.kind)),
                 sdk::number_item("recorded", plan->recorded), sdk::number_item("patched", plan->patched), sdk::text_item("slots", slots),
                 sdk::text_item("times", "the profiling event of each op, by itself on the queue")});
  });
}

}  // namespace

void run_plan(crucible_plan& plan) {
  if (plan.ops.empty()) return;
  crucible_device& device = *plan.device;
  device.watchdog.require_alive();
  const std::lock_guard lock(device.run_mutex);
  if (plan.is_recorded) {
    if (!plan.buffer) record(plan);
    plan.buffer.enqueue();
  } else {
    for (PlanOp& op : plan.ops) enqueue(device, op, nullptr);
  }
  finish(device, "plan.replay");
}

const crucible_if_plan kPlanTable = {
    sizeof(crucible_if_plan), CRUCIBLE_ABI_MINOR, build, set_slots, replay, profile, destroy, describe};

}  // namespace crucible_opencl
