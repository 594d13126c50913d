// Plan table. A replay on one thread does each op whole. On several, who finishes the last piece of a step opens the
// next one, and does steps of one piece by itself on the way: nobody else has to come for those. Threads split work
// items only, so their number changes no bit.
#include "backends/cpu/plan.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <span>
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

/// An op of the list, and what this plugin adds to it.
struct WholeOp {
  const ListedOp& op;
  const PlanOp& part;
};
WholeOp op_at(const crucible_plan& plan, std::size_t index) { return {plan.list.ops[index], plan.parts[index]}; }

/// Work items [begin, end) of a launch, blocks of a copy or fill.
void run_items(const WholeOp& whole, Range range) {
  const auto& [op, part] = whole;
  if (part.guarded)
    return run_guarded(*part.guarded, op.kernel->function, op.pointers(), op.numbers(), range.begin, range.end);
  if (op.kind == CRUCIBLE_OP_LAUNCH) return op.kernel->function(op.pointers(), op.numbers(), range.begin, range.end);
  const auto begin = static_cast<std::uint64_t>(range.begin * kBlock);
  const std::uint64_t end = std::min(op.size, static_cast<std::uint64_t>(range.end * kBlock));
  auto* destination = static_cast<std::byte*>(op.pointer(0)) + begin;
  if (op.kind == CRUCIBLE_OP_COPY) {
    std::memcpy(destination, static_cast<const std::byte*>(op.pointer(1)) + begin, end - begin);
  } else {
    std::memset(destination, op.pattern, end - begin);
  }
}

void run_library_piece(const WholeOp& whole, std::uint32_t stage, std::uint32_t piece) {
  const NoOpenMpThreads alone;
  LibraryCall& call = *whole.part.library;
  auto* scratch = call.scratch_bytes() == 0 ? nullptr : static_cast<std::byte*>(whole.op.pointer(3));
  call.run_piece(whole.op.pointers(), scratch, stage, piece);
}

/// A step as a job of the team's.
struct StepJob {
  const crucible_plan* plan = nullptr;
  std::uint32_t op = 0, stage = 0;
};

void run_piece(const void* context, std::uint32_t piece) {
  const auto& [plan, index, stage] = *static_cast<const StepJob*>(context);
  const WholeOp op = op_at(*plan, index);
  if (op.part.library != nullptr) return run_library_piece(op, stage, piece);
  run_items(op, chunk_range(op.part.items, op.part.pieces, piece));
}

/// All of a step on the calling thread.
void run_whole(const WholeOp& op, const PlanStep& step) {
  if (op.part.library == nullptr) return run_items(op, {0, op.part.items});
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
      if (step.pieces == 1) {
        run_whole(op_at(*walk.plan, step.op), step);
        continue;
      }
      walk.job = {walk.plan, step.op, step.stage};
      job = {run_piece, &walk.job, step.pieces, step.rest_ns * walk.scale};
      return true;
    }
    return false;
  }
};

/// Steps [at, end) on so many threads. Errors: those of the team.
RunFacts run_steps(const crucible_plan& plan, std::size_t at, std::size_t end, int threads) {
  const NoSignals signals;
  if (threads > 1) {
    const double thought = plan.steps.front().rest_ns;
    Walk walk{&plan, at, end, thought > 0 ? std::max(1.0, plan.pace->least_ns() / thought) : 1, {}};
    return plan.device->team->run(Walk::next, &walk, threads);
  }
  for (; at < end; ++at) run_whole(op_at(plan, plan.steps[at].op), plan.steps[at]);
  return {};
}

/// Errors: what the library calls of the plan met.
void check_library(const crucible_plan& plan) {
  for (const PlanOp& op : plan.parts) {
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
  int share_of(int threads) const {
    return count_ == 1 ? threads : std::clamp(usable_processors() / count_, 1, threads);
  }

 private:
  static inline std::atomic<int> replays_{0};
  int count_;
};

/// What a kernel that checks itself may access: its buffers, where the host said how large they are, and what the plan
/// hands it.
GuardedLaunch guard_launch(crucible_plan& plan, const ListedOp& op) {
  const crucible_kernel& kernel = *op.kernel;
  GuardedLaunch launch;
  launch.kernel = kernel.name;
  launch.enter = kernel.enter;
  launch.findings = &plan.findings;
  launch.is_sized = op.sizes.size() == op.addresses.size();
  launch.buffer_count = op.addresses.size();
  const auto address = [](const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); };
  for (std::size_t i = 0; i < op.sizes.size() && launch.is_sized; ++i) {
    launch.ranges.push_back({op.addresses[i], op.sizes[i] & ~crucible::abi::kMayWrite, op.sizes[i] >> 63});
  }
  launch.ranges.push_back({address(op.addresses.data()), op.addresses.size() * sizeof(void*), 0});
  launch.ranges.push_back({address(op.scalars.data()), op.scalars.size() * sizeof(std::uint64_t), 0});
  return launch;
}

void need_buffers(std::size_t index, const ListedOp& op, std::size_t count) {
  if (op.addresses.size() >= count) return;
  refuse_op(index, "it has " + std::to_string(op.addresses.size()) + " buffers and needs " + std::to_string(count));
}

std::unique_ptr<LibraryCall> read_library(const crucible_device& device, std::size_t index, const ListedOp& op) {
  if (op.library->struct_size < kSmallestDescription) refuse_op(index, "a library call without a whole description");
  need_buffers(index, op, 3);
  auto call = make_library_call(device.onednn, read_sized(op.library), device.threads);
  const std::uint64_t needed = call->scratch_bytes();
  if (needed == 0) return call;
  need_buffers(index, op, 4);
  if (op.scratch_bytes < needed) {
    refuse_op(index,
              "it has " + std::to_string(op.scratch_bytes) + " bytes of scratch and needs " + std::to_string(needed));
  }
  return call;
}

/// How an op is shared among threads. Errors: those of the library.
PlanOp share(crucible_plan& plan, std::size_t index) {
  const ListedOp& op = plan.list.ops[index];
  PlanOp part;
  if (op.kind == CRUCIBLE_OP_LIBRARY) {
    part.library = read_library(*plan.device, index, op);
    return part;
  }
  const bool is_launch = op.kind == CRUCIBLE_OP_LAUNCH;
  const std::int64_t grain = is_launch ? op.grain : kBlockGrain;
  part.items = is_launch ? op.grid : static_cast<std::int64_t>((op.size + kBlock - 1) / kBlock);
  part.pieces = piece_count(part.items, grain, plan.device->threads);
  part.shared_ns = kGrainNs * static_cast<double>(part.items) / static_cast<double>(std::max<std::int64_t>(grain, 1));
  if (is_launch && op.kernel->enter != nullptr) part.guarded = guard_launch(plan, op);
  return part;
}

/// What is left to do after all ops were read.
void list_steps(crucible_plan& plan) {
  for (std::uint32_t i = 0; i < plan.parts.size(); ++i) {
    const PlanOp& op = plan.parts[i];
    if (op.library == nullptr) {
      if (op.pieces > 0)
        plan.steps.push_back({i, 0, static_cast<std::uint32_t>(op.pieces), op.pieces > 1 ? op.shared_ns : 0});
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
  Pace::Settings settings{.most = shared_ns > 0 ? device.threads : 1,
                          .first = device.threads,
                          .is_fixed = device.has_fixed_threads,
                          .shared_ns = shared_ns};
  if (!settings.is_fixed && settings.most > 1) settings.first = shared_ns < kWorthATeamNs ? 1 : free_processors(device);
  plan.pace.emplace(settings);
}

struct Plans {
  static OpChecks checks(crucible_device& device) {
    return {.find = [&](std::uint64_t address) { return device.addresses.find(address, std::string(kDeviceId)); },
            .takes_all_calls = true,
            .takes_sizes = device.sanitizes};
  }

  static void make(crucible_plan& plan) {
    const NoOpenMpThreads alone;  // oneDNN plans for the number of threads that the caller has
    for (std::size_t i = 0; i < plan.list.ops.size(); ++i) plan.parts.push_back(share(plan, i));
    list_steps(plan);
    set_pace(plan);
  }

  /// Kernels and library calls read the list's addresses when they run; who watches accesses has copies of them.
  static void rebind(crucible_plan& plan, std::span<const crucible_rebinding> rebindings) {
    for (const crucible_rebinding& each : rebindings) {
      PlanOp& part = plan.parts[each.op];
      if (part.guarded) part.guarded = guard_launch(plan, plan.list.ops[each.op]);
    }
  }

  static void run(crucible_plan& plan) { run_plan(plan); }

  /// Op by op, so that each has its own time: a little slower in sum than replay().
  static std::vector<std::uint64_t> times(crucible_plan& plan) {
    plan.device->process.require_this_one("plan.profile");
    const std::lock_guard lock(plan.device->run_mutex);
    const FloatMode mode;
    std::size_t step = 0;
    auto times = time_each(plan.parts.size(), [&](std::size_t op) {
      std::size_t end = step;
      while (end < plan.steps.size() && plan.steps[end].op == op) ++end;
      run_steps(plan, step, end, plan.pace->threads());
      step = end;
    });
    check_library(plan);
    plan.findings.raise();
    return times;
  }

  static void describe(const crucible_plan& plan, crucible_kv_sink sink, void* user) {
    std::unique_lock lock(plan.device->run_mutex, std::defer_lock);
    if (plan.device->process.is_this_one()) lock.lock();  // a thread that did not come along may hold it
    describe_list(plan, sink, user);
    const Pace& pace = *plan.pace;
    const std::string threads = pace.in_words();
    report(sink, user,
           {text_item("threads", threads), number_item("threads.now", static_cast<std::uint64_t>(pace.threads())),
            number_item("threads.changes", pace.changes()), number_item("threads.stalls", pace.stalls()),
            number_item("threads.stalled_ns", static_cast<std::uint64_t>(pace.stalled_ns()))});
  }
};

}  // namespace

void run_plan(crucible_plan& plan) {
  plan.device->process.require_this_one("queue.submit");  // before the lock, which a thread that is not here may hold
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

const crucible_if_plan kPlanTable = make_plan_table<crucible_device, crucible_plan, Plans>();

}  // namespace crucible_cpu
