// Which inputs an output along one side of a resampled image is made from: the framework's scale rules, worked out
// before the program runs, so that regular patterns become views.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace crucible::aten {

/// The source of every output of nearest-neighbour resampling along one side. `factor`: the scale factor that the user
/// gave, if any; `exact`: the variant that samples at the centres of pixels.
std::vector<std::int64_t> nearest_sources(std::int64_t input, std::int64_t output, std::optional<double> factor,
                                          bool exact);

/// The factor k when output o reads input o / k for all o and every input is read k times.
std::optional<std::int64_t> repetition(const std::vector<std::int64_t>& sources, std::int64_t input);

/// Offset and step when output o reads input offset + o * step, step at least 1.
struct Stepping {
  std::int64_t offset = 0, step = 1;
};
std::optional<Stepping> stepping(const std::vector<std::int64_t>& sources);

/// How far the framework moves along the input per output, as a float: the reciprocal of the given factor, else the
/// quotient of the sizes.
float nearest_scale(std::int64_t input, std::int64_t output, std::optional<double> factor);

}  // namespace crucible::aten
