// The planner: refuses what contradicts itself, reduces each space to parts, solves them, and puts the offsets
// together.
#include "core/memory/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/memory/blocks.hpp"
#include "core/memory/part_solver.hpp"
#include "core/memory/ranks.hpp"

namespace crucible::memory {
namespace {

/// Placements of single blocks that a budget amounts to.
constexpr std::uint64_t kQuickPlacements = 30'000, kThoroughPlacements = 2'500'000;
constexpr std::size_t kFewBlocks = 3'000;
/// Blocks from which the fixed tiers try only one rank.
constexpr std::size_t kManyBlocks = 300'000;

std::uint64_t passes_for(const Options& options, std::size_t blocks) {
  if (options.budget_passes < Options::kThorough) return options.budget_passes;
  const bool is_quick = options.budget_passes == Options::kQuick;
  std::uint64_t placements = is_quick ? kQuickPlacements : kThoroughPlacements;
  if (blocks < kFewBlocks) placements += placements / 2;  // a placement among few takes less time
  return placements / std::max<std::size_t>(blocks, 1);
}

bool meet(const Part& part, std::uint32_t a, std::uint32_t b) {
  if (!part.apart.empty() && std::ranges::binary_search(part.apart[a], b)) return true;
  Range own_a, own_b;
  for (const Range& one : part.life(a, own_a)) {
    for (const Range& other : part.life(b, own_b)) {
      if (std::max(one.begin, other.begin) < std::min(one.end, other.end)) return true;
    }
  }
  return false;
}

class SpaceSolver {
 public:
  SpaceSolver(const Problem& problem, std::uint32_t space, const Options& options, std::vector<std::uint64_t>& offsets)
      : space_(problem.spaces[space]), options_(options), blocks_(reduce(problem, space)), offsets_(offsets) {
    for (const std::uint32_t buffer : blocks_.idle) {
      const std::uint64_t pin = problem.buffers[buffer].pinned_offset;
      offsets_[buffer] = pin == kUnpinned ? 0 : pin;
    }
    settle_idle_groups(problem);
  }

  SpacePlan run(std::uint64_t& passes) {
    plan_.lower_bound_bytes = blocks_.bound * blocks_.unit_bytes;
    plan_.lower_bound_time = blocks_.bound_time;
    plan_.witness = std::move(blocks_.witness);
    if (plan_.lower_bound_bytes > space_.capacity_bytes) {
      refuse(Outcome::kImpossible,
             fmt::format("at step {} at least {} bytes are needed, {} more than the capacity of {}",
                         plan_.lower_bound_time, plan_.lower_bound_bytes,
                         plan_.lower_bound_bytes - space_.capacity_bytes, space_.capacity_bytes));
      plan_.peak_bytes = plan_.lower_bound_bytes;
      return plan_;
    }
    if (const std::string clash = find_clash(); !clash.empty()) {
      refuse(Outcome::kImpossible, clash);
      return plan_;
    }
    solve_parts(passes);
    return plan_;
  }

 private:
  /// Idle buffers of a group lie where the group's pin is.
  void settle_idle_groups(const Problem& problem) {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> pins;
    for (const std::uint32_t buffer : blocks_.idle) {
      const Buffer& idle = problem.buffers[buffer];
      if (idle.group != kNoGroup && idle.pinned_offset != kUnpinned) pins.emplace_back(idle.group, idle.pinned_offset);
    }
    std::ranges::sort(pins);
    for (const std::uint32_t buffer : blocks_.idle) {
      const auto pin = std::ranges::lower_bound(pins, problem.buffers[buffer].group, {},
                                                &std::pair<std::uint32_t, std::uint64_t>::first);
      if (pin != pins.end() && pin->first == problem.buffers[buffer].group) offsets_[buffer] = pin->second;
    }
  }

  void refuse(Outcome outcome, std::string reason) {
    plan_.outcome = outcome;
    plan_.reason = std::move(reason);
  }

  /// Two pinned blocks on each other, in words.
  std::string find_clash() const {
    for (const Part& part : blocks_.parts) {
      if (part.pinned.empty()) continue;
      std::vector<std::uint32_t> pinned;
      for (std::uint32_t block = 0; block < part.blocks.size(); ++block) {
        if (part.pinned[block] != kUnpinned) pinned.push_back(block);
      }
      std::ranges::stable_sort(pinned, {}, [&](std::uint32_t block) { return part.pinned[block]; });
      for (std::size_t i = 0; i < pinned.size(); ++i) {
        const std::uint64_t end = part.pinned[pinned[i]] + part.blocks[pinned[i]].size;
        for (std::size_t k = i + 1; k < pinned.size() && part.pinned[pinned[k]] < end; ++k) {
          if (!meet(part, pinned[i], pinned[k])) continue;
          return fmt::format("buffers {} and {} are pinned onto each other", first_member(part, pinned[i]),
                             first_member(part, pinned[k]));
        }
      }
    }
    return {};
  }

  std::uint32_t first_member(const Part& part, std::uint32_t block) const {
    return blocks_.members[part.ids[block]][0];
  }

  /// The parts with the highest bounds first: the others need not be lower than those.
  void solve_parts(std::uint64_t& passes) {
    const bool has_capacity = space_.capacity_bytes != kNoCapacity;
    const std::uint64_t capacity = space_.capacity_bytes / blocks_.unit_bytes;
    std::vector<std::uint32_t> order(blocks_.parts.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(
        order, [&](std::uint32_t a, std::uint32_t b) { return blocks_.parts[a].bound > blocks_.parts[b].bound; });
    const std::size_t count = blocks_.members.first.size() - 1;
    const bool is_quick = options_.budget_passes == Options::kQuick;
    PartGoal goal{.target = has_capacity ? capacity : blocks_.bound,
                  .has_capacity = has_capacity,
                  .passes = passes_for(options_, count),
                  .fixed_passes = count > kManyBlocks ? 1u : kRanks,
                  .first_fit = !is_quick || count < kFewBlocks,
                  .best_fit = !is_quick && options_.budget_passes > 0,
                  .threads = options_.threads};
    std::uint64_t peak = 0, bound = blocks_.bound;
    for (const std::uint32_t p : order) {
      const Part& part = blocks_.parts[p];
      if (!has_capacity) goal.target = std::max({goal.target, peak});
      const PartResult result = solve_part(part, goal);
      passes += result.passes;
      peak = std::max(peak, result.best.peak);
      bound = std::max(bound, result.bound);
      for (std::uint32_t block = 0; block < part.blocks.size(); ++block) {
        for (const std::uint32_t buffer : blocks_.members[part.ids[block]]) {
          offsets_[buffer] = result.best.offsets[block] * blocks_.unit_bytes;
        }
      }
    }
    conclude(peak, bound, has_capacity, capacity);
  }

  void conclude(std::uint64_t peak, std::uint64_t bound, bool has_capacity, std::uint64_t capacity) {
    plan_.peak_bytes = peak * blocks_.unit_bytes;
    plan_.optimal = peak <= bound;
    if (!has_capacity || peak <= capacity) return;
    if (bound > capacity) {
      refuse(Outcome::kImpossible, fmt::format("the search has tried every placement within the capacity of {} bytes: "
                                               "none is valid; the best found above it needs {}",
                                               space_.capacity_bytes, plan_.peak_bytes));
      plan_.optimal = false;
    } else {
      refuse(
          Outcome::kNotFound,
          fmt::format("the best plan found needs {} bytes, {} more than the capacity of {}; at least {} are needed, so "
                      "there may be one that fits: allow more passes",
                      plan_.peak_bytes, plan_.peak_bytes - space_.capacity_bytes, space_.capacity_bytes,
                      plan_.lower_bound_bytes));
    }
  }

  const Space& space_;
  const Options& options_;
  SpaceBlocks blocks_;
  std::vector<std::uint64_t>& offsets_;
  SpacePlan plan_;
};

}  // namespace

Result<Solution> solve(const Problem& problem, const Options& options) {
  CRUCIBLE_TRY_VOID(check_problem(problem));
  Solution solution;
  solution.offsets.assign(problem.buffers.size(), 0);
  for (std::uint32_t space = 0; space < problem.spaces.size(); ++space) {
    SpaceSolver solver(problem, space, options, solution.offsets);
    solution.spaces.push_back(solver.run(solution.passes));
    const Outcome outcome = solution.spaces.back().outcome;
    if (outcome == Outcome::kImpossible || solution.outcome == Outcome::kFound) solution.outcome = outcome;
  }
  if (solution.outcome != Outcome::kFound) solution.offsets.clear();
  return solution;
}

Result<Plan> plan(std::span<const Buffer> buffers, std::uint64_t alignment) {
  Problem problem;
  problem.buffers.assign(buffers.begin(), buffers.end());
  problem.spaces[0].alignment = alignment;
  CRUCIBLE_TRY(Solution solution, solve(problem));
  SpacePlan& space = solution.spaces[0];
  if (solution.outcome != Outcome::kFound) return Error{ErrorCode::kBadInput, std::move(space.reason)};
  return Plan{.offsets = std::move(solution.offsets),
              .peak_bytes = space.peak_bytes,
              .lower_bound_bytes = space.lower_bound_bytes,
              .lower_bound_time = space.lower_bound_time,
              .witness = std::move(space.witness),
              .optimal = space.optimal};
}

}  // namespace crucible::memory
