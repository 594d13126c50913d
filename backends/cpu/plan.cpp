// Plan table. All threads of the team walk a stretch of ops together and meet at a barrier after each op that more than
// one of them works on (0.2 us, where leaving and entering the team costs 0.8); stretches end at library calls, which
// bring their own regions. Threads split work items only, so their number changes no bit.
#include "backends/cpu/plan.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>

#include "backends/cpu/sdk.hpp"
#include "backends/cpu/tables.hpp"
#include "plugins/abi/sized_launch.hpp"

namespace crucible_cpu {

Range chunk_range(std::int64_t grid, std::int64_t chunks, std::int64_t index) {
  const std::int64_t share = grid / chunks, rest = grid % chunks;
  const std::int64_t begin = index * share + std::min(index, rest);
  return {begin, begin + share + (index < rest ? 1 : 0)};
}

std::int64_t chunk_count(std::int64_t grid, std::int64_t grain, int threads) {
  if (grid <= 0) return 0;
  return std::clamp<std::int64_t>(grid / std::max<std::int64_t>(grain, 1), 1, threads);
}

namespace {

constexpr std::int64_t kBlock = 4096;     // bytes that a copy or fill is split into
constexpr std::int64_t kBlockGrain = 64;  // 256 KiB: fewest that are worth a thread

/// All threads of a team wait for each other; generations, so that it can be used again at once.
class Barrier {
 public:
  void wait(int count) {
    const std::uint32_t generation = generation_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    for (Spin spin; generation_.load(std::memory_order_acquire) == generation;) spin.wait();
  }

 private:
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
};

/// One chunk of a launch, copy or fill.
void run_chunk(const PlanOp& op, std::int64_t chunk) {
  const Range range = chunk_range(op.grid, op.chunks, chunk);
  if (op.guarded) {
    return run_guarded(*op.guarded, op.kernel, op.buffers.data(), reinterpret_cast<const double*>(op.scalars.data()), range.begin, range.end);
  }
  if (op.kind == CRUCIBLE_OP_LAUNCH) return op.kernel(op.buffers.data(), reinterpret_cast<const double*>(op.scalars.data()), range.begin, range.end);
  const auto begin = static_cast<std::uint64_t>(range.begin * kBlock);
  const std::uint64_t end = std::min(op.size, static_cast<std::uint64_t>(range.end * kBlock));
  auto* destination = static_cast<std::byte*>(op.buffers[0]) + begin;
  if (op.kind == CRUCIBLE_OP_COPY) {
    std::memcpy(destination, static_cast<const std::byte*>(op.buffers[1]) + begin, end - begin);
  } else {
    std::memset(destination, op.pattern, end - begin);
  }
}

/// Ops [begin, end) of a plan, none of them a library call, walked by a whole team.
struct Stretch {
  const PlanOp* ops;
  std::size_t count;
  Barrier barrier;
};

void walk(void* context, int index, int count) {
  auto& stretch = *static_cast<Stretch*>(context);
  const FloatMode mode;
  for (std::size_t i = 0; i < stretch.count; ++i) {
    const PlanOp& op = stretch.ops[i];
    for (std::int64_t chunk = index; chunk < op.chunks; chunk += count) run_chunk(op, chunk);
    // Thread 0 alone does ops of one chunk: between two of those nobody has to wait.
    const bool last = i + 1 == stretch.count;
    if (!last && (op.chunks > 1 || stretch.ops[i + 1].chunks > 1)) stretch.barrier.wait(count);
  }
}

/// Ops [begin, end), all of them other than library calls; on the calling thread alone when none has two chunks.
void run_stretch(const PlanOp* begin, const PlanOp* end, Team& team) {
  const auto is_shared = [](const PlanOp& op) { return op.chunks > 1; };
  // Ops before the first shared one and after the last need no team.
  const PlanOp* const first = std::find_if(begin, end, is_shared);
  const PlanOp* last = end;
  while (last != first && !is_shared(*(last - 1))) --last;
  for (const PlanOp* op = begin; op != first; ++op) {
    if (op->chunks == 1) run_chunk(*op, 0);
  }
  if (first == last) return;
  Stretch stretch{first, static_cast<std::size_t>(last - first), {}};
  team.run(walk, &stretch);
  for (const PlanOp* op = last; op != end; ++op) {
    if (op->chunks == 1) run_chunk(*op, 0);
  }
}

void run_library(const PlanOp& op, Team& team) {
  auto* scratch = op.library->scratch_bytes() == 0 ? nullptr : static_cast<std::byte*>(op.buffers[3]);
  op.library->run(op.buffers.data(), scratch, team);
}

/// Of ABI 0.1: fields after these may be missing.
constexpr std::uint32_t kSmallestOp = offsetof(crucible_op, reserved) + sizeof(std::uint32_t);

std::string place(std::uint32_t index) { return "op " + std::to_string(index) + ": "; }

/// Errors: INVALID_ARGUMENT naming the op and what is wrong with it.
[[noreturn]] void invalid(std::uint32_t index, const std::string& what) {
  throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.build: " + place(index) + what);
}

void need_buffers(std::uint32_t index, const crucible_op& op, std::uint32_t count) {
  if (op.buffer_count < count || op.buffers == nullptr) {
    invalid(index, "it has " + std::to_string(op.buffer_count) + " buffers and needs " + std::to_string(count));
  }
}

/// What a kernel that checks itself may access: its buffers, where the host said how large they are, and what the plan hands it.
void guard_launch(crucible_plan& plan, const crucible_kernel& kernel, const std::vector<std::uint64_t>& sizes, PlanOp& result) {
  GuardedLaunch& launch = result.guarded.emplace();
  launch.kernel = kernel.name;
  launch.enter = kernel.enter;
  launch.findings = &plan.findings;
  launch.is_sized = sizes.size() == result.buffers.size();
  launch.buffer_count = result.buffers.size();
  const auto address = [](const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); };
  for (std::size_t i = 0; i < sizes.size() && launch.is_sized; ++i) {
    launch.ranges.push_back({address(result.buffers[i]), sizes[i] & ~crucible::abi::kMayWrite, sizes[i] >> 63});
  }
  launch.ranges.push_back({address(result.buffers.data()), result.buffers.size() * sizeof(void*), 0});
  launch.ranges.push_back({address(result.scalars.data()), result.scalars.size() * sizeof(std::uint64_t), 0});
}

void read_launch(crucible_plan& plan, std::uint32_t index, const crucible_op& op, PlanOp& result) {
  if (op.kernel == nullptr) invalid(index, "a launch without a kernel");
  if (op.grid < 0) invalid(index, "a grid of " + std::to_string(op.grid) + " work items");
  if (op.scalar_count != 0 && op.scalars == nullptr) invalid(index, "its scalars are missing");
  result.kernel = op.kernel->function;
  result.grid = op.grid;
  result.chunks = chunk_count(op.grid, op.grain, plan.device->threads);
  std::vector<std::uint64_t> sizes;
  for (std::uint32_t i = 0; i < op.scalar_count; ++i) {
    const crucible_scalar& scalar = op.scalars[i];
    if (plan.device->sanitizes && scalar.slot == crucible::abi::kBufferBytesSlot) {
      sizes.push_back(scalar.bits);
      continue;
    }
    if (scalar.type > CRUCIBLE_SCALAR_I64) invalid(index, "scalar " + std::to_string(i) + " is of type " + std::to_string(scalar.type));
    result.scalars.push_back(scalar.bits);
    if (scalar.slot == CRUCIBLE_SLOT_NONE) continue;
    if (scalar.slot >= plan.slot_count) {
      invalid(index, "slot " + std::to_string(scalar.slot) + " of " + std::to_string(plan.slot_count));
    }
    plan.slot_uses.push_back({scalar.slot, index, i});
  }
  if (op.kernel->enter != nullptr) guard_launch(plan, *op.kernel, sizes, result);
}

void read_library(crucible_plan& plan, std::uint32_t index, const crucible_op& op, PlanOp& result) {
  if (op.library == nullptr || op.library->struct_size < kSmallestDescription) {
    invalid(index, "a library call without a whole description");
  }
  need_buffers(index, op, 3);
  result.library =
      make_library_call(plan.device->onednn, read_sized(op.library));
  const std::uint64_t needed = result.library->scratch_bytes();
  if (needed == 0) return;
  need_buffers(index, op, 4);
  if (op.scratch_bytes < needed) {
    invalid(index,
            "it has " + std::to_string(op.scratch_bytes) + " bytes of scratch and needs " + std::to_string(needed));
  }
}

/// Copies one op of the host. Errors: INVALID_ARGUMENT, and those of the library.
void read_op(crucible_plan& plan, std::uint32_t index, const crucible_op& op) {
  PlanOp& result = plan.ops.emplace_back();
  result.kind = op.kind;
  result.size = op.size;
  if (op.buffer_count != 0 && op.buffers == nullptr) invalid(index, "its buffers are missing");
  for (std::uint32_t i = 0; i < op.buffer_count; ++i) result.buffers.push_back(reinterpret_cast<void*>(op.buffers[i]));
  switch (op.kind) {
    case CRUCIBLE_OP_LAUNCH:
      return read_launch(plan, index, op, result);
    case CRUCIBLE_OP_LIBRARY:
      return read_library(plan, index, op, result);
    case CRUCIBLE_OP_COPY:
      need_buffers(index, op, 2);
      break;
    case CRUCIBLE_OP_FILL:
      need_buffers(index, op, 1);
      if (op.pattern > 255) invalid(index, "the pattern " + std::to_string(op.pattern) + " is not a byte");
      result.pattern = static_cast<int>(op.pattern);
      break;
    default:
      invalid(index, "kind " + std::to_string(op.kind) + " is not known");
  }
  result.grid = static_cast<std::int64_t>((op.size + kBlock - 1) / kBlock);
  result.chunks = chunk_count(result.grid, kBlockGrain, plan.device->threads);
}

crucible_status build(crucible_device* device, const crucible_op* ops, std::uint32_t count, std::uint32_t slot_count,
                      crucible_plan** out) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "plan.build: no device or no place for the plan");
    require(count == 0 || ops != nullptr, "plan.build: the ops are missing");
    const std::lock_guard lock(device->run_mutex);
    const OpenMpThreads threads(device->library_threads());
    auto plan = std::make_unique<crucible_plan>();
    plan->device = device;
    plan->slot_count = slot_count;
    plan->ops.reserve(count);
    const SizedArray<crucible_op> all(ops);
    for (std::uint32_t i = 0; i < count; ++i) {
      const crucible_op op = all[i];
      if (op.struct_size < kSmallestOp) invalid(i, "its struct_size is too small");
      read_op(*plan, i, op);
    }
    *out = plan.release();
  });
}

crucible_status set_slots(crucible_plan* plan, const std::uint64_t* values, std::uint32_t count) {
  return guard([&] {
    require(plan != nullptr && (values != nullptr || count == 0), "plan.set_slots: no plan or no values");
    if (count != plan->slot_count) {
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.set_slots: " + std::to_string(count) + " values for " +
                                                     std::to_string(plan->slot_count) + " slots");
    }
    for (const SlotUse& use : plan->slot_uses) plan->ops[use.op].scalars[use.scalar] = values[use.slot];
  });
}

crucible_status replay(crucible_plan* plan) {
  return guard([&] {
    require(plan != nullptr, "plan.replay: no plan");
    run_plan(*plan);
  });
}

crucible_status describe(crucible_plan* plan, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(plan != nullptr && sink != nullptr, "plan.describe: no plan or no function to report to");
    const crucible_kv items[] = {text_item("form", "list"), number_item("ops", plan->ops.size()),
                                 text_item("times", "the host's clock around each op")};
    sink(user, items, std::size(items));
  });
}

/// Op by op, so that each has its own time: a little slower in sum than replay().
crucible_status profile(crucible_plan* plan, std::uint64_t* out_ns, std::uint32_t count) {
  return guard([&] {
    require(plan != nullptr && (out_ns != nullptr || count == 0), "plan.profile: no plan or no place for the times");
    if (count != plan->ops.size()) {
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.profile: places for " + std::to_string(count) +
                                                     " times, the plan has " + std::to_string(plan->ops.size()) +
                                                     " ops");
    }
    plan->device->process.require_this_one("plan.profile");
    const std::lock_guard lock(plan->device->run_mutex);
    const OpenMpThreads threads(plan->device->library_threads());
    const FloatMode mode;
    std::vector<std::uint64_t> times;
    for (const PlanOp& op : plan->ops) {
      const auto start = std::chrono::steady_clock::now();
      if (op.kind == CRUCIBLE_OP_LIBRARY) {
        run_library(op, *plan->device->team);
      } else {
        run_stretch(&op, &op + 1, *plan->device->team);
      }
      const auto time = std::chrono::steady_clock::now() - start;
      times.push_back(static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()));
    }
    plan->findings.raise();
    std::copy(times.begin(), times.end(), out_ns);
  });
}

crucible_status destroy(crucible_plan* plan) {
  return guard([&] { delete plan; });
}

}  // namespace

void run_plan(crucible_plan& plan) {
  plan.device->process.require_this_one("plan.replay");  // before the lock, which a thread that is not here may hold
  const std::lock_guard lock(plan.device->run_mutex);
  const OpenMpThreads threads(plan.device->library_threads());
  const FloatMode mode;
  const PlanOp* const end = plan.ops.data() + plan.ops.size();
  for (const PlanOp* op = plan.ops.data(); op != end;) {
    if (op->kind == CRUCIBLE_OP_LIBRARY) {
      run_library(*op++, *plan.device->team);
      continue;
    }
    const PlanOp* const stop = std::find_if(op, end, [](const PlanOp& o) { return o.kind == CRUCIBLE_OP_LIBRARY; });
    run_stretch(op, stop, *plan.device->team);
    op = stop;
  }
  plan.findings.raise();
}

const crucible_if_plan kPlanTable = {
    sizeof(crucible_if_plan), CRUCIBLE_ABI_MINOR, build, set_slots, replay, profile, destroy, describe};

}  // namespace crucible_cpu
