// One pass of the skyline greedy: buffers in ranked order fill the lowest valley of the occupied heights over time.
//
// plan.cpp prepares the items (sizes rounded, time compressed to sections) and keeps the best of several ranks. This is
// the inside of the planner: everybody else uses plan.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crucible::memory {

/// A buffer of the pass: `size` > 0, alive in the sections [begin, end), begin < end.
struct SkylineItem {
  std::uint64_t size = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

struct SkylineResult {
  std::vector<std::uint64_t> offsets;  // one per item
  std::uint64_t peak = 0;
};

/// Places every item. Of the unplaced items that fit into the lowest valley's time span, the first in `order` is taken;
/// when none fits, the valley is raised to its lower neighbour. The sum of sizes must not overflow.
/// Shapes: `order` is a permutation of the items. Threads: any.
/// Source: the best-fit heuristic for strip packing (Burke, Kendall, Whitwell 2004), time in the place of width.
SkylineResult skyline(std::span<const SkylineItem> items, std::span<const std::uint32_t> order, std::uint32_t sections);

}  // namespace crucible::memory
