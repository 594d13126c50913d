// Some iterations of a recording as a recording of their own.
#pragma once

#include <cstdint>

#include "core/base/result.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

/// Iterations `first` to `last`, both included, counted from 0 and renumbered from 0. What dropped iterations carried
/// into them is taken in as external bytes where the file has these: taken in a dropped iteration and not written by a
/// recorded op since. Final states stay only when no complete iteration follows `last`; otherwise incomplete_reason
/// says that they are missing. `trace` must be valid. The blobs' bytes still come from the store of `trace`. Errors:
/// kUsage for a range that is not there; kBadInput when dropped iterations wrote what the kept ones read, with the list
/// of these storages. A range from 0 on always works.
Result<Trace> trim(const Trace& trace, std::uint32_t first, std::uint32_t last);

}  // namespace crucible::trace
