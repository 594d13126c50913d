// Plan table: reads and checks the host's list once and sets all arguments; a replay enqueues the list and waits once.
#include "backends/opencl/plan.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>

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

/// The number of the first argument behind the buffers.
std::uint32_t set_buffers(const crucible_device& device, const PlanOp& op) {
  std::uint32_t argument = 0;
  for (const Place& place : op.places) {
    set_argument(device, op.kernel.get(), argument++, place.memory.get());
    set_argument(device, op.kernel.get(), argument++, cl_ulong{place.offset});
  }
  return argument;
}

/// The same for a kernel with a table.
std::uint32_t set_table(const crucible_device& device, std::uint32_t index, PlanOp& op) {
  std::vector<cl_mem> memories;
  std::vector<cl_ulong> table;
  for (const Place& place : op.places) {
    const auto known = std::ranges::find(memories, place.memory.get());
    table.push_back(static_cast<cl_ulong>(known - memories.begin()));
    table.push_back(place.offset);
    if (known == memories.end()) memories.push_back(place.memory.get());
  }
  if (memories.size() > kTableMemories) {
    invalid(index, std::to_string(op.places.size()) + " buffers in " + std::to_string(memories.size()) +
                       " allocations, and a kernel with so many takes them from " + std::to_string(kTableMemories) +
                       ": put them into one");
  }
  cl_int code = CL_SUCCESS;
  const Functions& cl = *device.cl;
  op.table = Memory(cl, cl.clCreateBuffer(device.context.get(), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                          table.size() * sizeof(cl_ulong), table.data(), &code));
  check(code, "plan.build: clCreateBuffer for a table of buffers");
  std::uint32_t argument = 0;
  for (std::size_t i = 0; i < kTableMemories; ++i)
    set_argument(device, op.kernel.get(), argument++, memories[std::min(i, memories.size() - 1)]);
  set_argument(device, op.kernel.get(), argument++, op.table.get());
  return argument;
}

void read_launch(crucible_plan& plan, std::uint32_t index, const crucible_op& op, PlanOp& result) {
  const crucible_device& device = *plan.device;
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
  std::uint32_t argument = kernel.buffers == Buffers::kTable ? set_table(device, index, result)
                                                             : set_buffers(device, result);
  result.first_scalar = argument;
  for (std::uint32_t i = 0; i < op.scalar_count; ++i) {
    const crucible_scalar& scalar = op.scalars[i];
    set_argument(device, object, argument++, std::bit_cast<double>(scalar.f64_bits));
    if (scalar.slot == CRUCIBLE_SLOT_NONE) continue;
    if (scalar.slot >= plan.slot_count) {
      invalid(index, "slot " + std::to_string(scalar.slot) + " of " + std::to_string(plan.slot_count));
    }
    plan.slot_uses.push_back({scalar.slot, index, i});
  }
  const std::int64_t chunk = op.grid == 0 ? 0 : choose_sizes(device, op, result);
  set_argument(device, object, argument++, cl_long{0});
  set_argument(device, object, argument++, cl_long{op.grid});
  set_argument(device, object, argument++, cl_long{chunk});
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

/// Where `events` is given, what was enqueued is appended.
void enqueue(crucible_device& device, const PlanOp& op, std::vector<Event>* events) {
  const Functions& cl = *device.cl;
  cl_event event = nullptr;
  cl_event* const place = events != nullptr ? &event : nullptr;
  if (op.kind == CRUCIBLE_OP_FILL) {
    if (op.size != 0)
      enqueue_fill(device, op.places[0].memory.get(), op.places[0].offset, op.size, op.pattern, events);
    return;
  }
  if (op.kind == CRUCIBLE_OP_COPY) {
    if (op.size == 0) return;
    const Place &to = op.places[0], &from = op.places[1];
    check(cl.clEnqueueCopyBuffer(device.queue.get(), from.memory.get(), to.memory.get(), from.offset, to.offset,
                                 op.size, 0, nullptr, place),
          "clEnqueueCopyBuffer of " + std::to_string(op.size) + " bytes");
  } else {
    if (op.global_size == 0) return;
    check(cl.clEnqueueNDRangeKernel(device.queue.get(), op.kernel.get(), 1, nullptr, &op.global_size, &op.local_size, 0,
                                    nullptr, place),
          "clEnqueueNDRangeKernel");
  }
  if (events != nullptr) events->emplace_back(cl, event);
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

crucible_status set_slots(crucible_plan* plan, const double* values, std::uint32_t count) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr && (values != nullptr || count == 0), "plan.set_slots: no plan or no values");
    if (count != plan->slot_count) {
      throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.set_slots: " + std::to_string(count) + " values for " +
                                                          std::to_string(plan->slot_count) + " slots");
    }
    for (const SlotUse& use : plan->slot_uses) {
      const PlanOp& op = plan->ops[use.op];
      set_argument(*plan->device, op.kernel.get(), op.first_scalar + use.scalar, values[use.slot]);
    }
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
    check(device.cl->clFinish(device.queue.get()), "plan.profile: clFinish");
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
    delete plan;
  });
}

crucible_status describe(crucible_plan* plan, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(plan != nullptr && sink != nullptr, "plan.describe: no plan or no function to report to");
    sdk::report(sink, user, {sdk::text_item("form", "list"), sdk::number_item("ops", plan->ops.size())});
  });
}

}  // namespace

void run_plan(crucible_plan& plan) {
  if (plan.ops.empty()) return;
  crucible_device& device = *plan.device;
  const std::lock_guard lock(device.run_mutex);
  for (const PlanOp& op : plan.ops) enqueue(device, op, nullptr);
  check(device.cl->clFinish(device.queue.get()), "plan.replay: clFinish");
}

const crucible_if_plan kPlanTable = {
    sizeof(crucible_if_plan), CRUCIBLE_ABI_MINOR, build, set_slots, replay, profile, destroy, describe};

}  // namespace crucible_opencl
