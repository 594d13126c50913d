// The order of the tiers, and how the budget is shared among them.
#include "core/memory/part_solver.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <span>
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
    if (!is_small()) {
      search();
      return std::move(result_);
    }
    ExactSearch exact(part_);
    aim(exact, goal_.passes / 4);
    if (!is_done()) search();
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

  bool is_small() const { return part_.blocks.size() <= ExactSearch::kMaxBlocks; }
  std::uint64_t search_passes() const { return is_small() ? goal_.passes / 4 : goal_.passes; }
  std::uint64_t pass_cost() const { return part_.is_plain() ? 1 : kFirstFitPasses; }

  /// Skyline in the ranks, then first fit and best fit in three of them; fits in all ranks where skyline does not know
  /// the rules.
  void fixed_tiers() {
    const bool is_plain = part_.is_plain(), keeps_starts = search_passes() >= 2 * pass_cost();
    constexpr std::uint32_t kLineRanks[] = {0, 1, 2, 3, 4, 5}, kLoadRanks[] = {0, 3, 4};
    constexpr std::uint32_t kFitRanks[] = {4, 5, 0, 3, 2, 1};
    const bool is_large = part_.blocks.size() > kManyToRank && !keeps_starts;
    const std::span<const std::uint32_t> line_ranks =
        is_large ? std::span<const std::uint32_t>(kLoadRanks) : kLineRanks;
    const std::uint32_t lines =
        is_plain ? std::min(goal_.fixed_passes, static_cast<std::uint32_t>(line_ranks.size())) : 0;
    std::uint32_t fits = std::min(goal_.fixed_passes, is_plain ? kRanks / 2 : kRanks);
    if (is_plain && part_.blocks.size() > kManyToFit) fits = std::min(fits, 1u);
    if (is_plain && (part_.blocks.size() > kFitLimit || !goal_.first_fit)) fits = 0;
    starts_.resize(lines + (goal_.best_fit ? 2 : 1) * fits);
    const auto count = static_cast<std::uint32_t>(starts_.size());
    std::atomic<std::uint64_t> lowest = kNoLimit;  // peak so far, not below the target
    const std::uint32_t found = run_jobs(count, goal_.threads, [&](std::uint32_t job, const std::atomic<bool>&) {
      Start& start = starts_[job];
      const bool is_line = job < lines;
      // What is higher than another is dropped half done, unless the search wants to go on from it. What is not is
      // never dropped, so that the result does not depend on which job is faster.
      const std::uint64_t limit = keeps_starts && (is_line || !is_plain) ? kNoLimit : lowest.load();
      start.order = ranked(part_, is_line ? line_ranks[job] : kFitRanks[(job - lines) % fits]);
      if (is_line) {
        Skyline(part_).pass(start.order, limit, start.placed);
      } else {
        FirstFit(part_, job - lines < fits ? Gap::kLowest : Gap::kSmallest).pass(start.order, limit, start.placed);
      }
      const std::uint64_t reached = std::max(start.placed.peak, goal_.target);
      for (std::uint64_t old = lowest; reached < old && !lowest.compare_exchange_weak(old, reached);) {
      }
      return start.placed.peak <= goal_.target;
    });
    if (found < starts_.size()) starts_.resize(found + 1);
    for (const Start& start : starts_) keep(start.placed);
    // The search goes on with skyline passes, or with first fit: other offsets say nothing about those.
    starts_.resize(std::min<std::size_t>(starts_.size(), is_plain ? lines : fits));
    std::ranges::stable_sort(starts_, [](const Start& a, const Start& b) { return a.placed.peak < b.placed.peak; });
  }

  /// The search on ranks: many short chains, then the best of them for longer. The first to reach the target wins.
  void search() {
    const std::uint64_t half = search_passes() / pass_cost() / 2;
    if (half == 0 || starts_.empty()) return;
    const auto count = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(half / kChainPasses, 1, kMaxChains));
    std::vector<Chain> chains;
    for (std::uint32_t number = 0; number < count; ++number) {
      const Start& start = starts_[number / kChainsPerStart % starts_.size()];
      chains.emplace_back(part_, start.order, start.placed, number, goal_.target);
    }
    if (go_on(chains, half / count)) return;
    std::ranges::stable_sort(chains, {}, [](const Chain& chain) { return chain.best().peak; });
    chains.erase(chains.begin() + (count + kKeepOneOf - 1) / kKeepOneOf, chains.end());
    go_on(chains, half / chains.size());
  }

  /// True when one has reached the target.
  bool go_on(std::vector<Chain>& chains, std::uint64_t passes) {
    const auto count = static_cast<std::uint32_t>(chains.size());
    const std::uint32_t found =
        run_jobs(count, goal_.threads, [&](std::uint32_t number, const std::atomic<bool>& stop) {
          chains[number].run(passes, stop);
          return chains[number].best().peak <= goal_.target;
        });
    const std::uint32_t run = std::min(count, found + 1);
    for (std::uint32_t number = 0; number < run; ++number) keep(chains[number].best());
    result_.passes += passes * pass_cost() * run;
    return found < count;
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
  static constexpr std::size_t kManyToRank = 20'000;  // blocks: beyond, skyline wins in the ranks by load, if at all
  static constexpr std::size_t kManyToFit = 5'000;  // blocks: beyond, first fit is slow and only its best rank is tried
  static constexpr std::size_t kFitLimit = 200'000;  // blocks: beyond, not even that
  static constexpr std::uint64_t kChainPasses = 25;  // of a short chain, at least
  static constexpr std::uint64_t kMaxChains = 32;
  static constexpr std::uint32_t kChainsPerStart = 6, kKeepOneOf = 8;

  const Part& part_;
  const PartGoal& goal_;
  PartResult result_;
  std::vector<Start> starts_;
};

}  // namespace

PartResult solve_part(const Part& part, const PartGoal& goal) { return PartSolver(part, goal).run(); }

}  // namespace crucible::memory
