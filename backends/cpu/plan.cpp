// Plan table. A replay on one thread does each op whole. On several, who finishes the last piece of a step opens the next one, and does steps of
// one piece by itself on the way: nobody else has to come for those. Threads split work items only, so their number changes no bit.
#include "backends/cpu/plan.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>

#include "backends/cpu/processors.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/tables.hpp"
#include "plugins/abi/sized_launch.hpp"

namespace crucible_cpu {

Range chunk_range(std::int64_t grid, std::int64_t chunks, std::int64_t index) {
  const std::int64_t share = grid / chunks, rest = grid % chunks;
  const std::int64_t begin = index * share + std::min(index, rest);
  return {begin, begin + share + (index < rest ? 1 : 0)};
}

std::int64_t piece_count(std::int64_t grid, std::int64_t grain, int threads) {
  constexpr std::int64_t kMostEach = 4;  // of which others take what a late thread has not begun
  if (grid <= 0) return 0;
  const std::int64_t worth = std::max<std::int64_t>(1, grid / std::max<std::int64_t>(grain, 1));
  if (threads == 1 || worth < threads) return threads == 1 ? 1 : worth;
  return threads * std::min<std::int64_t>(kMostEach, worth / threads);
}

namespace {

constexpr std::int64_t kBlock = 4096;     // bytes that a copy or fill is split into
constexpr std::int64_t kBlockGrain = 64;  // 256 KiB: fewest that are worth a thread
constexpr double kGrainNs = 5e3;          // what a host's grain takes at least
constexpr double kLibraryFlopsPerNs = 50;  // of one thread at most
constexpr double kWorthATeamNs = 100e3;   // shared work of a replay, below which it begins with one thread

/// Work items [begin, end) of a launch, blocks of a copy or fill.
void run_items(const PlanOp& op, Range range) {
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

void run_library_piece(const PlanOp& op, std::uint32_t stage, std::uint32_t piece) {
  const NoOpenMpThreads alone;
  auto* scratch = op.library->scratch_bytes() == 0 ? nullptr : static_cast<std::byte*>(op.buffers[3]);
  op.library->run_piece(op.buffers.data(), scratch, stage, piece);
}

/// A step as a job of the team's.
struct StepJob {
  const PlanOp* op = nullptr;
  std::uint32_t stage = 0;
};

void run_piece(const void* context, std::uint32_t piece) {
  const auto& [op, stage] = *static_cast<const StepJob*>(context);
  if (op->kind == CRUCIBLE_OP_LIBRARY) return run_library_piece(*op, stage, piece);
  run_items(*op, chunk_range(op->grid, op->pieces, piece));
}

/// All of a step on the calling thread.
void run_whole(const PlanOp& op, const PlanStep& step) {
  if (op.kind != CRUCIBLE_OP_LIBRARY) return run_items(op, {0, op.grid});
  for (std::uint32_t piece = 0; piece < step.pieces; ++piece) run_library_piece(op, step.stage, piece);
}

/// Steps [at, end) of a plan, given to the team one after the other.
struct Walk {
  const crucible_plan* plan;
  std::size_t at, end;
  double scale;  // of the host's estimates, where replays took longer
  StepJob job;

  static bool next(void* context, Job& job) {
    auto& walk = *static_cast<Walk*>(context);
    while (walk.at < walk.end) {
      const PlanStep& step = walk.plan->steps[walk.at++];
      const PlanOp& op = walk.plan->ops[step.op];
      if (step.pieces == 1) {
        run_whole(op, step);
        continue;
      }
      walk.job = {&op, step.stage};
      job = {run_piece, &walk.job, step.pieces, step.rest_ns * walk.scale};
      return true;
    }
    return false;
  }
};

/// Steps [at, end) on so many threads. Errors: those of the team.
RunFacts run_steps(const crucible_plan& plan, std::size_t at, std::size_t end, int threads) {
  if (threads > 1) {
    const double thought = plan.steps.front().rest_ns;
    Walk walk{&plan, at, end, thought > 0 ? std::max(1.0, plan.pace->least_ns() / thought) : 1, {}};
    return plan.device->team->run(Walk::next, &walk, threads);
  }
  for (; at < end; ++at) run_whole(plan.ops[plan.steps[at].op], plan.steps[at]);
  return {};
}

/// Errors: what the library calls of the plan met.
void check_library(const crucible_plan& plan) {
  for (const PlanOp& op : plan.ops) {
    if (op.library != nullptr) op.library->check();
  }
}

/// Replays of this process that are going on, of all devices: they share the processors.
class RunningReplay {
 public:
  RunningReplay() : count_(1 + replays_.fetch_add(1, std::memory_order_relaxed)) {}
  RunningReplay(const RunningReplay&) = delete;
  RunningReplay& operator=(const RunningReplay&) = delete;
  ~RunningReplay() { replays_.fetch_sub(1, std::memory_order_relaxed); }
  /// Of `threads`, those that this replay may have beside the others.
  int share_of(int threads) const { return count_ == 1 ? threads : std::clamp(usable_processors() / count_, 1, threads); }

 private:
  static inline std::atomic<int> replays_{0};
  int count_;
};

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
  result.pieces = piece_count(op.grid, op.grain, plan.device->threads);
  result.shared_ns = kGrainNs * static_cast<double>(op.grid) / static_cast<double>(std::max<std::int64_t>(op.grain, 1));
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
  result.library = make_library_call(plan.device->onednn, read_sized(op.library), plan.device->threads);
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
  result.pieces = piece_count(result.grid, kBlockGrain, plan.device->threads);
  result.shared_ns = kGrainNs * static_cast<double>(result.grid) / kBlockGrain;
}

/// What is left to do after all ops were read.
void list_steps(crucible_plan& plan) {
  for (std::uint32_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    if (op.library == nullptr) {
      if (op.pieces > 0) plan.steps.push_back({i, 0, static_cast<std::uint32_t>(op.pieces), op.pieces > 1 ? op.shared_ns : 0});
      continue;
    }
    for (std::uint32_t stage = 0; stage < op.library->stages(); ++stage) {
      const std::uint32_t pieces = op.library->pieces(stage);
      const double ns = op.library->flops() / kLibraryFlopsPerNs / op.library->stages();
      plan.steps.push_back({i, stage, pieces, pieces > 1 ? ns : 0});
    }
  }
  for (std::size_t i = plan.steps.size(); i-- > 1;) plan.steps[i - 1].rest_ns += plan.steps[i].rest_ns;
}

void set_pace(crucible_plan& plan) {
  const crucible_device& device = *plan.device;
  const double shared_ns = plan.steps.empty() ? 0 : plan.steps.front().rest_ns;
  Pace::Settings settings{.most = shared_ns > 0 ? device.threads : 1, .first = device.threads, .is_fixed = device.has_fixed_threads, .shared_ns = shared_ns};
  if (!settings.is_fixed && settings.most > 1) settings.first = shared_ns < kWorthATeamNs ? 1 : free_processors(device);
  plan.pace.emplace(settings);
}

crucible_status build(crucible_device* device, const crucible_op* ops, std::uint32_t count, std::uint32_t slot_count,
                      crucible_plan** out) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "plan.build: no device or no place for the plan");
    require(count == 0 || ops != nullptr, "plan.build: the ops are missing");
    const NoOpenMpThreads alone;  // oneDNN plans for the number of threads that the caller has
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
    list_steps(*plan);
    set_pace(*plan);
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
    std::unique_lock lock(plan->device->run_mutex, std::defer_lock);
    if (plan->device->process.is_this_one()) lock.lock();  // a thread that did not come along may hold it
    const Pace& pace = *plan->pace;
    const std::string threads = pace.in_words();
    const crucible_kv items[] = {text_item("form", "list"),
                                 number_item("ops", plan->ops.size()),
                                 text_item("times", "the host's clock around each op"),
                                 text_item("threads", threads),
                                 number_item("threads.now", static_cast<std::uint64_t>(pace.threads())),
                                 number_item("threads.changes", pace.changes()),
                                 number_item("threads.stalls", pace.stalls()),
                                 number_item("threads.stalled_ns", static_cast<std::uint64_t>(pace.stalled_ns()))};
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
    const FloatMode mode;
    std::vector<std::uint64_t> times;
    std::size_t step = 0;
    for (std::uint32_t op = 0; op < plan->ops.size(); ++op) {
      const auto start = std::chrono::steady_clock::now();
      std::size_t end = step;
      while (end < plan->steps.size() && plan->steps[end].op == op) ++end;
      run_steps(*plan, step, end, plan->pace->threads());
      step = end;
      const auto time = std::chrono::steady_clock::now() - start;
      times.push_back(static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()));
    }
    check_library(*plan);
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
  const RunningReplay running;
  const FloatMode mode;
  const auto start = std::chrono::steady_clock::now();
  const int wanted = plan.pace->threads(), threads = plan.device->has_fixed_threads ? wanted : running.share_of(wanted);
  const RunFacts facts = run_steps(plan, 0, plan.steps.size(), threads);
  const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start);
  if (threads == wanted) plan.pace->took({time.count(), facts.stalls, facts.stalled_ns});
  check_library(plan);
  plan.findings.raise();
}

const crucible_if_plan kPlanTable = {
    sizeof(crucible_if_plan), CRUCIBLE_ABI_MINOR, build, set_slots, replay, profile, destroy, describe};

}  // namespace crucible_cpu
