// The sides of an image that weighted resampling works along, and how far one output moves along each: shared by plain
// and antialiased interpolation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "frontends/aten/call/op_call.hpp"

namespace crucible::aten {

struct Side {
  std::int64_t dim = 0, input = 0, output = 0;  // which dimension, and its size before and after
  std::optional<double> factor;                 // the scale factor that the user gave, if any
};

/// The last sides of an image, as many as the op's name says.
std::vector<Side> sides_of(OpCall& c, const Sizes& input, const Sizes& output);

/// `x` in the precision of the computation: f32 but for f64.
double rounded(double x, DType dtype);

/// How far one output moves along the input, in the precision of the computation.
double scale_of(const Side& side, bool align_corners, DType dtype);

}  // namespace crucible::aten
