// One pass of the skyline greedy: blocks in ranked order fill the lowest valley of the occupied heights over time.
//
// The first tier of the planner, and the pass that the search on ranks repeats. For parts that are plain (blocks.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/memory/blocks.hpp"

namespace crucible::memory {

/// Passes over one part. Keeps its working memory from pass to pass.
class Skyline {
 public:
  explicit Skyline(const Part& part);
  ~Skyline();
  Skyline(const Skyline&) = delete;
  Skyline& operator=(const Skyline&) = delete;

  /// Places every block. Of the unplaced blocks that fit into the lowest valley's time span, the first in `order` is
  /// taken; when none fits, the valley is raised to its lower neighbour. Gives up as soon as the peak is above `limit`:
  /// the peak is then that of the block that was too high, and offsets are incomplete.
  /// Shapes: `order` is a permutation of the blocks. Threads: one at a time.
  /// Source: the best-fit heuristic for strip packing (Burke, Kendall, Whitwell 2004), time in the place of width.
  void pass(std::span<const std::uint32_t> order, std::uint64_t limit, Placed& placed);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace crucible::memory
