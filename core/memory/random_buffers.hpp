// Random planner inputs for the tests of this folder: many sizes, dense and sparse in time, with odd cases mixed in.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/memory/plan.hpp"

namespace crucible::memory {

/// `count` buffers over `horizon` steps; some are empty, some have zero length, some live throughout.
inline std::vector<Buffer> random_buffers(std::uint32_t seed, std::uint32_t count, std::uint32_t horizon) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  std::vector<Buffer> buffers(count);
  for (Buffer& buffer : buffers) {
    buffer.size_bytes = std::uint64_t{below(1000)} << below(10);
    buffer.begin = below(horizon);
    buffer.end = buffer.begin + below(1 + below(horizon - buffer.begin + 1));
    if (below(16) == 0) buffer.size_bytes = 0;
    if (below(16) == 0) buffer.begin = 0, buffer.end = horizon;
  }
  return buffers;
}

}  // namespace crucible::memory
