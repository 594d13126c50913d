// The order of the tiers, and how the budget is shared among them.
#include "core/memory/part_solver.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "core/memory/exact.hpp"
#include "core/memory/rank_search.hpp"
#include "core/memory/ranks.hpp"

namespace crucible::memory {
namespace {

/// A first fit pass takes about as long as this many skyline passes.
constexpr std::uint64_t kFirstFitPasses = 4;

/// Nodes of the exact search that take about as long as a pass.
std::uint64_t nodes_per_pass(const Part& part) { return std::max<std::uint64_t>(4, part.blocks.size() / 6); }

/// Runs jobs 0 to `count` - 1 on some threads. A job returns true when its result is good enough: later jobs are then
/// not started, or told to stop. The number of the first such job, or `count`; the same for any number of threads.
std::uint32_t run_jobs(std::uint32_t count, std::uint32_t threads,
                       const std::function<bool(std::uint32_t, const std::atomic<bool>&)>& job) {
  std::vector<std::atomic<bool>> stop(count);
  std::atomic<std::uint32_t> next = 0, first = count;
  const auto work = [&] {
    for (std::uint32_t i = next++; i < first; i = next++) {
      if (!job(i, stop[i]) || stop[i]) continue;
      std::uint32_t old = first;
      while (i < old && !first.compare_exchange_weak(old, i)) {
      }
      for (std::uint32_t later = i + 1; later < count; ++later) stop[later] = true;
    }
  };
  std::vector<std::thread> others;
  for (std::uint32_t t = 1; t < std::min(threads, count); ++t) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return first;
}

class PartSolver {
 public:
  PartSolver(const Part& part, const PartGoal& goal) : part_(part), goal_(goal) { result_.bound = part.bound; }

  PartResult run() {
    fixed_tiers();
    if (is_done()) return std::move(result_);
    const bool is_small = part_.blocks.size() <= ExactSearch::kMaxBlocks;
    if (!is_small) {
      search(goal_.passes);
      return std::move(result_);
    }
    ExactSearch exact(part_);
    aim(exact, goal_.passes / 4);
    if (!is_done()) search(goal_.passes / 4);
    if (!is_done()) aim(exact, goal_.passes / (goal_.has_capacity ? 2 : 4));
    if (!is_done() && !goal_.has_capacity) descend(exact, goal_.passes - std::min(goal_.passes, result_.passes));
    return std::move(result_);
  }

 private:
  struct Start {
    std::vector<std::uint32_t> order;
    Placed placed;
  };

  bool is_done() const {
    return result_.best.peak <= std::max(goal_.target, goal_.has_capacity ? 0 : result_.bound) ||
           (goal_.has_capacity && result_.bound > goal_.target);
  }

  void keep(const Placed& placed) {
    if (placed.peak < result_.best.peak) result_.best = placed;
  }

  /// Skyline in the ranks, then first fit in three of them; first fit alone where skyline does not know the rules.
  void fixed_tiers() {
    const bool is_plain = part_.is_plain();
    const std::uint32_t first = is_plain ? std::min(goal_.fixed_passes, kRanks) : 0;
    constexpr std::uint32_t kFirstFitRanks[] = {5, 2, 0, 3, 4, 1};
    const std::uint32_t second = std::min(goal_.fixed_passes, is_plain ? kRanks / 2 : kRanks);
    starts_.resize(first + (is_plain && part_.blocks.size() > kFirstFitLimit ? 0 : second));
    const std::uint32_t found = run_jobs(
        static_cast<std::uint32_t>(starts_.size()), goal_.threads, [&](std::uint32_t job, const std::atomic<bool>&) {
          Start& start = starts_[job];
          start.order = ranked(part_, job < first ? job : kFirstFitRanks[job - first]);
          if (job < first) {
            Skyline(part_).pass(start.order, kNoLimit, start.placed);
          } else {
            FirstFit(part_).pass(start.order, kNoLimit, start.placed);
          }
          return start.placed.peak <= goal_.target;
        });
    if (found < starts_.size()) starts_.resize(found + 1);
    for (const Start& start : starts_) keep(start.placed);
    // First fit's offsets say nothing about a skyline pass in the same order.
    if (is_plain) starts_.resize(std::min<std::size_t>(starts_.size(), first));
    std::ranges::stable_sort(starts_, [](const Start& a, const Start& b) { return a.placed.peak < b.placed.peak; });
  }

  /// The search on ranks: several chains, the first to reach the target wins, else the lowest peak.
  void search(std::uint64_t passes) {
    const std::uint64_t cost = part_.is_plain() ? 1 : kFirstFitPasses;
    const auto chains = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(passes / cost / kChainPasses, 1, kMaxChains));
    const std::uint64_t each = passes / cost / chains;
    if (each == 0 || starts_.empty()) return;
    std::vector<Placed> results(chains);
    const std::uint32_t found =
        run_jobs(chains, goal_.threads, [&](std::uint32_t number, const std::atomic<bool>& stop) {
          const Start& start = starts_[number / 3 % starts_.size()];
          const Chain chain{number, each, goal_.target, &stop};
          results[number] = search_ranks(part_, start.order, start.placed, chain);
          return results[number].peak <= goal_.target;
        });
    result_.passes += each * cost * std::min(chains, found + 1);
    for (std::uint32_t number = 0; number < std::min(chains, found + 1); ++number) keep(results[number]);
  }

  /// Looks for a placement within the target; when there is none, the bound rises (and the target, if it is the bound).
  void aim(ExactSearch& exact, std::uint64_t passes) {
    const std::uint64_t granted = passes * nodes_per_pass(part_);
    std::uint64_t nodes = granted;
    while (nodes > 0 && !is_done()) {
      const std::uint64_t capacity = std::max(goal_.target, result_.bound);
      Placed placed;
      const Search search = exact.run(capacity, nodes, placed);
      if (search == Search::kFound) keep(placed);
      if (search == Search::kExhausted) result_.bound = std::max(result_.bound, capacity + 1);
    }
    result_.passes += (granted - nodes) / nodes_per_pass(part_);
  }

  /// From the best placement downwards, in steps that shrink when they turn out too large.
  void descend(ExactSearch& exact, std::uint64_t passes) {
    const std::uint64_t granted = passes * nodes_per_pass(part_);
    std::uint64_t nodes = granted;
    for (std::uint64_t part = 2; nodes > 0 && !is_done();) {
      const std::uint64_t low = std::max(goal_.target, result_.bound);
      const std::uint64_t step = std::max<std::uint64_t>(1, (result_.best.peak - low) / part);
      std::uint64_t slice = std::min(nodes, step == 1 ? nodes : granted / 8 + 1);
      nodes -= slice;
      Placed placed;
      const std::uint64_t capacity = result_.best.peak - step;
      const Search search = exact.run(capacity, slice, placed);
      nodes += slice;
      if (search == Search::kFound) keep(placed);
      if (search == Search::kExhausted) result_.bound = std::max(result_.bound, capacity + 1);
      if (search == Search::kUnknown) part *= 2;
    }
    result_.passes += (granted - nodes) / nodes_per_pass(part_);
  }

  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::size_t kFirstFitLimit = 200'000;  // blocks: beyond, a skyline pass alone is better
  static constexpr std::uint64_t kChainPasses = 100;
  static constexpr std::uint64_t kMaxChains = 9;

  const Part& part_;
  const PartGoal& goal_;
  PartResult result_;
  std::vector<Start> starts_;
};

}  // namespace

PartResult solve_part(const Part& part, const PartGoal& goal) { return PartSolver(part, goal).run(); }

}  // namespace crucible::memory
