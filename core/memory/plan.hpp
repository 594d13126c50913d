// The memory planner: intervals in, offsets out. It knows nothing of graphs or devices.
//
// A buffer lives on the half-open interval [begin, end); two buffers that are alive at once must not share a byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace crucible::memory {

struct Buffer {
  std::uint64_t size_bytes = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

struct Plan {
  std::vector<std::uint64_t> offsets;   // one per buffer, multiples of the alignment
  std::uint64_t peak_bytes = 0;         // size of the arena
  std::uint64_t lower_bound_bytes = 0;  // most bytes alive at one time (sizes rounded up to the alignment)
  std::uint32_t lower_bound_time = 0;   // when
  std::vector<std::uint32_t> witness;   // the buffers alive then
};

/// Places every buffer. Deterministic. Units: bytes; alignment is a power of two.
/// Errors: kBadInput when an interval is reversed or the sum of sizes overflows.
Result<Plan> plan(std::span<const Buffer> buffers, std::uint64_t alignment);

/// The independent checker: a sweep over time that shares no code with plan(). Checks overlap, alignment, peak and
/// lower bound. Errors: kCheckFailed, naming the two buffers, their intervals and their byte ranges.
Result<void> check(std::span<const Buffer> buffers, std::uint64_t alignment, const Plan& plan);

}  // namespace crucible::memory
