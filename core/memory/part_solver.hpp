// All tiers of the planner on one part: skyline and first fit in fixed ranks, the search on ranks, the exact search.
// Each stops as soon as the peak is low enough.
#pragma once

#include <cstdint>

#include "core/memory/blocks.hpp"

namespace crucible::memory {

struct PartGoal {
  std::uint64_t target = 0;    // a peak that is low enough: not below the part's bound
  bool has_capacity = false;   // the target is a capacity: whether it can be reached matters, and nothing else
  std::uint64_t passes = 0;    // of search
  std::uint32_t fixed_passes = 0;  // of each kind in the fixed tiers, at most
  bool first_fit = true, best_fit = true;  // kinds, where skyline knows the rules; else first fit is all there is
  std::uint32_t threads = 1;
};

struct PartResult {
  Placed best;                 // the peak is above the target when it was not reached
  std::uint64_t bound = 0;     // proved: no placement has a smaller peak
  std::uint64_t passes = 0;    // of search, spent
};

/// Deterministic, with any number of threads.
PartResult solve_part(const Part& part, const PartGoal& goal);

}  // namespace crucible::memory
