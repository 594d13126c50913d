// Bytes that stand in for others: as many elements of the same type, of about the same statistics, and none of the
// original's content. What `crucible trace strip` fills tensors with (strip.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/dtype.hpp"

namespace crucible::trace {

/// What a stand-in must be good for.
struct StandInUse {
  bool keeps_order =
      false;  // offsets and their like: what ascends goes on ascending, with the same first and last element
  bool is_compared_only = false;  // no op reads it: what holds one value alone gets others too
};

/// Floating-point: mean, deviation, least and largest value about as they were, as many infinities and NaNs, whole
/// numbers stay whole; one value alone changes by a twentieth at most, and zero stays. Integers: the same range, so
/// that what are indices stay indices; mean and deviation about as they were; as many negative ones, and of a few
/// negative values (-100, -1) those; all numbers of a range once each stay that; 0 and 1 alone stay. Truth values: as
/// many. Bytes behind the last whole element are zero. The same `seed` gives the same bytes. Threads: any.
std::vector<std::byte> stand_in(std::span<const std::byte> content, DType dtype, const StandInUse& use,
                                std::uint64_t seed);

}  // namespace crucible::trace
