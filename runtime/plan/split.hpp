// A schedule cut into pieces that run on two devices in turn, and the copies of exactly the values that cross.
//
// Both devices have an arena of the same layout. A value is valid in the arena of the device that wrote it, and in the
// other one once it was copied there. The host writes starting states, inputs and constants into the first arena and
// reads results from it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.hpp"
#include "runtime/run/session.hpp"

namespace crucible::runtime {

/// One value's bytes, at the same place in both arenas.
struct CrossCopy {
  graph::ValueId value = graph::kNone;
  std::uint64_t offset_bytes = 0, size_bytes = 0;
};

/// Steps [begin, end), all on one device, after the copies into its arena.
struct Segment {
  bool on_second = false;
  std::uint32_t begin = 0, end = 0;
  std::vector<CrossCopy> before;
  bool homes = false;        // the home copies run behind its steps
  bool is_transfer = false;  // its one step is a copy between the first device and the host
};

struct Split {
  std::vector<Segment> segments;  // at least one; the last one is on the first device
  std::vector<graph::ValueId>
      loaded_twice;                     // never written and read by the second device: the host loads them into both
  std::uint64_t copies = 0, bytes = 0;  // of one iteration
};

/// `on_second` has one entry per step; with `one_step_each`, a segment has one step at most. Errors: kInternal when a
/// step reads a value that nobody wrote.
Result<Split> split(const graph::Program& program, const kernel::Schedule& schedule, const Placement& placement,
                    const std::vector<bool>& on_second, bool one_step_each = false);

}  // namespace crucible::runtime
