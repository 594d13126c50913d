// One pass that fills gaps: each block of a ranked order goes to the lowest offset at which it is free during the whole
// of its life (first fit), or into the smallest gap that takes it (best fit). Knows every rule of a part: pins, lives
// with gaps, pairs kept apart.
//
// The second tier of the planner, and the pass that the search repeats where the skyline does not know the rules. No
// graph of overlaps is built: a tree over time holds merged occupied intervals.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/memory/blocks.hpp"

namespace crucible::memory {

/// Units [first, second), sorted, neither overlapping nor touching.
using Intervals = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

enum class Gap { kLowest, kSmallest };

/// Passes over one part. Keeps its working memory from pass to pass.
class FirstFit {
 public:
  explicit FirstFit(const Part& part, Gap gap = Gap::kLowest);

  /// Places every block: the pinned ones first, then the others in `order`. Gives up as soon as the peak is above
  /// `limit`: offsets are then incomplete.
  /// Shapes: `order` is a permutation of the blocks. Threads: one at a time.
  void pass(std::span<const std::uint32_t> order, std::uint64_t limit, Placed& placed);

 private:
  void insert(const Range& range, std::uint64_t low, std::uint64_t high);
  void gather(const Range& range);
  std::uint64_t find(std::uint32_t block, const Placed& placed);
  std::uint64_t lowest_free(std::uint32_t block, const Placed& placed, std::uint64_t offset);
  std::uint64_t gap_end(std::uint32_t block, const Placed& placed, std::uint64_t offset) const;
  void put(std::uint32_t block, std::uint64_t offset, Placed& placed);

  const Part& part_;
  Gap gap_ = Gap::kLowest;
  std::uint32_t leaves_ = 1;
  std::vector<Intervals> touching_;  // per node: what is occupied somewhere in its sections
  std::vector<Intervals> covering_;  // per node: what is occupied in all of its sections by what was put there
  std::vector<bool> is_placed_;
  /// A list being walked upwards: the intervals before `at` end at or below the cursor.
  struct Walk {
    const Intervals* list = nullptr;
    std::size_t at = 0;
  };
  std::vector<Walk> walks_;
};

}  // namespace crucible::memory
