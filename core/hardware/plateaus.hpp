// Levels of memory from a curve: bandwidth over the working set falls in steps, one per cache that it has outgrown.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace crucible::hardware {

struct CurvePoint {
  double bytes = 0;             // working set
  double bytes_per_second = 0;  // of the rounds, whatever stands for them
};

/// Points [begin, end) of a curve that belong to one level.
struct Plateau {
  std::size_t begin = 0, end = 0;
  double bytes_per_second = 0;  // the best third of its points: what the level gives where nothing disturbs
};

/// Cuts a curve (working sets rising, bandwidths above 0) into at most `most` plateaus of falling bandwidth: those with
/// the least squared error of the logarithms, one more only where that takes away more than `gain` per plateau. A
/// single plateau for an empty or flat curve (none for an empty one).
std::vector<Plateau> find_plateaus(std::span<const CurvePoint> curve, std::size_t most = 4, double gain = 0.15);

}  // namespace crucible::hardware
