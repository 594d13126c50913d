// The ranks of the planner: the orders in which the passes take blocks.
//
// Blocks with larger keys come first; ties keep the order of the input, so that equal inputs give equal plans.
#pragma once

#include <cstdint>
#include <vector>

#include "core/memory/blocks.hpp"

namespace crucible::memory {

inline constexpr std::uint32_t kRanks = 6;

/// The blocks of a part, the first to be placed first. `rank` is below kRanks. Threads: any.
std::vector<std::uint32_t> ranked(const Part& part, std::uint32_t rank);

}  // namespace crucible::memory
