// Plan table: sets all arguments once; a replay enqueues the list, or the command buffer that was
// recorded of it, and waits once.
#include "backends/opencl/plan.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "backends/opencl/tables.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible_opencl {
namespace {

using namespace crucible;

// More chunks than units, so that a unit that others keep busy gets fewer of them.
constexpr std::int64_t kChunksPerUnit = 4;
// In the mapping by items: work-items together, and at most so many groups; each then does several items.
constexpr std::size_t kGroupSize = 128, kMostGroups = std::size_t{1} << 20;

template <class Value>
void set_argument(const crucible_device& device, cl_kernel kernel, std::uint32_t index, const Value& value) {
  check(device.cl->clSetKernelArg(kernel, index, sizeof(value), &value), "clSetKernelArg " + std::to_string(index));
}

void set_scalar(const crucible_device& device, cl_kernel kernel, std::uint32_t index, const ScalarArgument& argument) {
  check(device.cl->clSetKernelArg(kernel, index, argument.parameter.size(), &argument.bits),
        "clSetKernelArg " + std::to_string(index));
}

/// How many work-items in all and together, and how many items of the grid each does (chunks only).
std::int64_t choose_sizes(const crucible_device& device, const sdk::ListedOp& op, Launch& result) {
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
  const ItemShape& shape = op.kernel->shape;
  const std::int64_t items = (op.grid + shape.items - 1) / shape.items;
  if (shape.lanes > 1) {
    // A group has room for one team at least: the kernel demands it, or is compiled for a sub-group.
    const std::uint32_t threads =
        static_cast<std::uint32_t>(std::min<std::size_t>(most, shape.most_threads)) / shape.lanes * shape.lanes;
    const auto wanted = sdk::launch_shape(items, std::max(threads, shape.lanes), device.facts.units, shape.lanes);
    result.local_size = wanted.threads;
    result.global_size = std::size_t{wanted.blocks} * wanted.threads;
    return 0;
  }
  result.local_size = std::clamp<std::size_t>(most, 1, kGroupSize);
  const std::size_t wanted = static_cast<std::size_t>(items);
  result.global_size = std::min((wanted - 1) / result.local_size + 1, kMostGroups) * result.local_size;
  return 0;
}

void set_pointer(const crucible_device& device, cl_kernel kernel, std::uint32_t index, const void* pointer) {
  const cl_int code = device.memory.kind == MemoryKind::kUsm
                          ? device.memory.set_pointer(kernel, index, pointer)
                          : device.cl->clSetKernelArgSVMPointer(kernel, index, pointer);
  check(code,
        "setting argument " + std::to_string(index) + " to a pointer of " + std::string(name(device.memory.kind)));
}

/// The number of the first argument behind the buffers.
std::uint32_t set_buffers(const crucible_device& device, const sdk::ListedOp& op, const Launch& launch) {
  std::uint32_t argument = 0;
  for (const Place& place : op.places) {
    if (device.memory.kind != MemoryKind::kBuffers) {
      set_pointer(device, launch.kernel.get(), argument++, pointer_of(place));
      continue;
    }
    cl_mem const memory = memory_of(place);
    set_argument(device, launch.kernel.get(), argument++, memory);
    set_argument(device, launch.kernel.get(), argument++, cl_ulong{place.offset});
  }
  return argument;
}

/// The same for a kernel with a table of offsets.
std::uint32_t set_table(crucible_device& device, std::size_t index, const sdk::ListedOp& op, Launch& launch) {
  std::vector<cl_mem> memories;
  std::vector<cl_ulong> table;
  for (const Place& place : op.places) {
    const auto known = std::ranges::find(memories, memory_of(place));
    table.push_back(static_cast<cl_ulong>(known - memories.begin()));
    table.push_back(place.offset);
    if (known == memories.end()) memories.push_back(memory_of(place));
  }
  if (memories.size() > kTableMemories) {
    sdk::refuse_op(index, std::to_string(op.places.size()) + " buffers in " + std::to_string(memories.size()) +
                              " allocations, and a kernel with so many takes them from " +
                              std::to_string(kTableMemories) + ": put them into one");
  }
  launch.table = make_table(device, table);
  std::uint32_t argument = 0;
  for (std::size_t i = 0; i < kTableMemories; ++i)
    set_argument(device, launch.kernel.get(), argument++, memories[std::min(i, memories.size() - 1)]);
  cl_mem const memory = launch.table->memory();
  set_argument(device, launch.kernel.get(), argument++, memory);
  return argument;
}

/// The same for a kernel with a table of addresses, which the driver has to be told of.
std::uint32_t set_pointer_table(crucible_device& device, const sdk::ListedOp& op, Launch& launch) {
  std::vector<cl_ulong> table;
  std::vector<void*> allocations;
  for (const Place& place : op.places) {
    table.push_back(reinterpret_cast<cl_ulong>(pointer_of(place)));
    void* const start = place.in<Allocation>().pointer();
    if (std::ranges::find(allocations, start) == allocations.end()) allocations.push_back(start);
  }
  launch.table = make_table(device, table);
  set_pointer(device, launch.kernel.get(), 0, launch.table->pointer());
  const cl_bool yes = CL_TRUE;
  const cl_int code =
      device.memory.kind == MemoryKind::kUsm
          ? device.cl->clSetKernelExecInfo(launch.kernel.get(), CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL,
                                           sizeof(yes), &yes)
          : device.cl->clSetKernelExecInfo(launch.kernel.get(), CL_KERNEL_EXEC_INFO_SVM_PTRS,
                                           allocations.size() * sizeof(void*), allocations.data());
  check(code, "plan.build: clSetKernelExecInfo for a table of addresses");
  return 1;
}

std::uint32_t set_places(crucible_device& device, std::size_t index, const sdk::ListedOp& op, Launch& launch) {
  const Buffers buffers = op.kernel->buffers;
  if (!is_table(buffers)) return set_buffers(device, op, launch);
  return buffers == Buffers::kTable ? set_table(device, index, op, launch) : set_pointer_table(device, op, launch);
}

Launch plan_launch(crucible_device& device, std::size_t index, const sdk::ListedOp& op) {
  Launch launch;
  const crucible_kernel& kernel = *op.kernel;
  cl_int code = CL_SUCCESS;
  const Functions& cl = *device.cl;
  sdk::require_alignment(index, op, kernel.name, kernel.shape.alignment);
  launch.kernel = KernelObject(cl, cl.clCreateKernel(kernel.module->program.get(), kernel.name.c_str(), &code));
  check(code, "plan.build: clCreateKernel of " + kernel.name);
  cl_kernel const object = launch.kernel.get();
  std::uint32_t argument = set_places(device, index, op, launch);
  launch.first_scalar = argument;
  for (const spirv::Parameter& parameter : kernel.scalars) {
    launch.arguments.push_back({parameter, spirv::scalar_bits(parameter, op.scalars[parameter.index])});
    set_scalar(device, object, argument++, launch.arguments.back());
  }
  const std::int64_t chunk = op.grid == 0 ? 0 : choose_sizes(device, op, launch);
  set_argument(device, object, argument++, cl_long{0});
  set_argument(device, object, argument++, cl_long{op.grid});
  if (kernel.takes_chunk) set_argument(device, object, argument++, cl_long{chunk});
  return launch;
}

/// The kernel object gets the present scalars. A command buffer's launches are changed without it.
void refresh(const crucible_device& device, Launch& launch) {
  if (!launch.is_stale) return;
  for (std::uint32_t i = 0; i < launch.arguments.size(); ++i)
    set_scalar(device, launch.kernel.get(), launch.first_scalar + i, launch.arguments[i]);
  launch.is_stale = false;
}

/// Where `events` is given, what was enqueued is appended.
void enqueue(crucible_plan& plan, std::size_t index, std::vector<Event>* events) {
  crucible_device& device = *plan.device;
  const sdk::ListedOp& op = plan.list.ops[index];
  if (!op.does_something()) return;
  if (op.kind == CRUCIBLE_OP_FILL) return enqueue_fill(device, device.queue, op.places[0], op.size, op.pattern, events);
  if (op.kind == CRUCIBLE_OP_COPY) return enqueue_copy(device, op.places[0], op.places[1], op.size, events);
  Launch& launch = plan.launches[index];
  refresh(device, launch);
  cl_event event = nullptr;
  check(device.cl->clEnqueueNDRangeKernel(device.queue.get(), launch.kernel.get(), 1, nullptr, &launch.global_size,
                                          &launch.local_size, 0, nullptr, events != nullptr ? &event : nullptr),
        "clEnqueueNDRangeKernel of " + op.kernel->name + ", " + std::to_string(launch.global_size) +
            " work-items in groups of " + std::to_string(launch.local_size));
  if (events != nullptr) events->emplace_back(*device.cl, event);
}

void record_op(const crucible_device& device, CommandBuffer& buffer, const sdk::ListedOp& op, Launch& launch) {
  const bool has_buffers = device.memory.kind == MemoryKind::kBuffers;
  if (op.kind == CRUCIBLE_OP_LAUNCH) {
    refresh(device, launch);
    const bool is_changed = launch.has_slots && device.command_buffers.can_change();
    return buffer.launch(launch.kernel.get(), launch.global_size, launch.local_size,
                         is_changed ? &launch.command : nullptr);
  }
  const Place& to = op.places[0];
  if (op.kind == CRUCIBLE_OP_COPY) {
    const Place& from = op.places[1];
    if (!has_buffers) return buffer.copy(pointer_of(to), pointer_of(from), op.size);
    return buffer.copy(memory_of(to), to.offset, memory_of(from), from.offset, op.size);
  }
  const auto pattern = fill_pattern(op.pattern);
  for (const auto& [from, end, width] : fill_pieces(to, op.size)) {
    if (from == end) continue;
    if (has_buffers) {
      buffer.fill(memory_of(to), pattern.data(), width, to.offset + from, end - from);
    } else {
      buffer.fill(pointer_of(to) + from, pattern.data(), width, end - from);
    }
  }
}

/// The caller holds the run mutex, or nobody else has the plan yet.
void record(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  CommandBuffer buffer(device.command_buffers, device.queue.get());
  for (std::size_t i = 0; i < plan.list.ops.size(); ++i) {
    const sdk::ListedOp& op = plan.list.ops[i];
    if (op.does_something()) record_op(device, buffer, op, plan.launches[i]);
  }
  buffer.finalize();
  plan.buffer = std::move(buffer);
  ++plan.recorded;
}

/// A command buffer where the device takes them; else the queue, and why. By the option auto a driver that refuses to
/// record what it should is one without. Errors: those of recording where the option asks for it.
void choose_way(crucible_plan& plan) {
  const crucible_device& device = *plan.device;
  const CommandBufferFunctions& buffers = device.command_buffers;
  if (!buffers.usable()) {
    plan.why_queue = buffers.why_not;
    return;
  }
  try {
    if (!plan.list.ops.empty()) record(plan);
    plan.is_recorded = true;
  } catch (const sdk::Failure& failure) {
    const bool is_final = failure.code() == CRUCIBLE_E_OUT_OF_MEMORY || failure.code() == CRUCIBLE_E_DEVICE_LOST;
    if (device.only_command_buffers || is_final) throw;
    plan.why_queue = failure.what();
  }
}

/// A command buffer that cannot be changed is dropped: the next replay records it with the new scalars. The caller
/// holds the run mutex.
void change(crucible_plan& plan, std::span<const CommandChange> changes) {
  CommandBuffer buffer = std::move(plan.buffer);
  if (!plan.device->command_buffers.can_change()) return;
  buffer.change(changes);
  plan.patched += changes.size();
  plan.buffer = std::move(buffer);
}

std::uint64_t event_time(const crucible_device& device, const Event& event, cl_profiling_info what) {
  cl_ulong time = 0;
  check(device.cl->clGetEventProfilingInfo(event.get(), what, sizeof(time), &time, nullptr), "clGetEventProfilingInfo");
  return time;
}

struct Plans {
  static void make(crucible_plan& plan) {
    sdk::make_launches(plan.list, plan.launches,
                       [&](std::size_t i) { return plan_launch(*plan.device, i, plan.list.ops[i]); });
    choose_way(plan);
  }

  static void patch(crucible_plan& plan, std::span<const sdk::SlotUse> changed) {
    const std::lock_guard lock(plan.device->run_mutex);
    std::vector<CommandChange> changes;
    for (const sdk::SlotUse& use : changed) {
      const sdk::ListedOp& op = plan.list.ops[use.op];
      if (!op.does_something()) continue;
      Launch& launch = plan.launches[use.op];
      for (std::uint32_t i = 0; i < launch.arguments.size(); ++i) {
        auto& [parameter, bits] = launch.arguments[i];
        const std::uint64_t present = spirv::scalar_bits(parameter, op.scalars[use.scalar]);
        if (parameter.index != use.scalar || bits == present) continue;
        bits = present;
        launch.is_stale = true;  // until it is enqueued or recorded again
        changes.push_back({launch.command, launch.first_scalar + i, parameter.size(), &bits});
      }
    }
    if (!changes.empty() && plan.buffer) change(plan, changes);
  }

  static void run(crucible_plan& plan) { run_plan(plan); }

  static std::vector<std::uint64_t> times(crucible_plan& plan) {
    crucible_device& device = *plan.device;
    const std::size_t count = plan.list.ops.size();
    const std::lock_guard lock(device.run_mutex);
    std::vector<std::vector<Event>> events(count);
    for (std::size_t i = 0; i < count; ++i) enqueue(plan, i, &events[i]);
    finish(device, device.queue, "plan.profile");
    std::vector<std::uint64_t> times(count, 0);
    for (std::size_t i = 0; i < count; ++i) {
      if (events[i].empty()) continue;
      times[i] = event_time(device, events[i].back(), CL_PROFILING_COMMAND_END) -
                 event_time(device, events[i].front(), CL_PROFILING_COMMAND_START);
    }
    return times;
  }

  static void describe(const crucible_plan& plan, crucible_kv_sink sink, void* user) {
    const CommandBufferFunctions& buffers = plan.device->command_buffers;
    std::string way = "queue (" + plan.why_queue + ")", slots = "a changed slot is set on its kernel object";
    if (plan.is_recorded) {
      way = "command_buffer (cl_khr_command_buffer " + version_text(buffers.version) + ")";
      slots = buffers.can_change() ? "a changed slot is patched in the command buffer (mutable dispatch " +
                                         version_text(buffers.mutable_version) + ")"
                                   : "a changed slot records the command buffer again: " + buffers.why_not_change;
    }
    sdk::report(sink, user,
                {sdk::text_item("form", plan.is_recorded ? "native" : "list"),
                 sdk::number_item("ops", plan.list.ops.size()), sdk::text_item("plans", way),
                 sdk::text_item("memory", name(plan.device->memory.kind)), sdk::number_item("recorded", plan.recorded),
                 sdk::number_item("patched", plan.patched), sdk::text_item("slots", slots),
                 sdk::text_item("times", "the profiling event of each op, by itself on the queue")});
  }
};

}  // namespace

void run_plan(crucible_plan& plan) {
  if (plan.list.ops.empty()) return;
  crucible_device& device = *plan.device;
  device.watchdog.require_alive();
  const std::lock_guard lock(device.run_mutex);
  if (plan.is_recorded) {
    if (!plan.buffer) record(plan);
    plan.buffer.enqueue();
  } else {
    for (std::size_t i = 0; i < plan.list.ops.size(); ++i) enqueue(plan, i, nullptr);
  }
  finish(device, device.queue, "queue.submit");
}

const crucible_if_plan kPlanTable = sdk::make_plan_table<crucible_device, crucible_plan, Plans>();

}  // namespace crucible_opencl
