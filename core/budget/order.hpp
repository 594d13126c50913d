// The order of execution, chosen for memory: what frees bytes runs as early as it can, what makes them as late, as far
// as that lowers the peak.
#pragma once

#include "core/budget/line.hpp"

namespace crucible::budget {

/// What was tried, for reports.
struct Ordered {
  std::uint64_t peak_before = 0, peak_after = 0;  // bytes alive at most
  std::uint32_t moved = 0;                        // nodes that are elsewhere in the order
  std::uint32_t tries = 0;                        // orders measured
};

/// Reorders the line where that lowers its peak, else leaves it as it is: a list scheduler that runs whatever frees
/// memory as soon as its operands are there, then a local search that moves single nodes away from the peak.
/// Deterministic; stops after `work` visits of arguments, so its time is bounded for any size.
Ordered order_for_memory(Line& line, std::uint64_t work = 8'000'000);

}  // namespace crucible::budget
