// The sides of a resampled image: see resample_side.hpp.
#include "frontends/aten/resampling/resample_side.hpp"

#include "frontends/aten/pooling/pool_window.hpp"

namespace crucible::aten {

std::vector<Side> sides_of(OpCall& c, const Sizes& input, const Sizes& output) {
  const std::size_t count = sides_by_name(c);
  c.integers("output_size");
  const auto factors = given_factors(c, count);
  if (input.size() != count + 2 || output.size() != count + 2) {
    c.emit().fail("the sizes of image and result do not fit the operator");
    return {};
  }
  std::vector<Side> sides;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t d = input.size() - count + i;
    sides.push_back({static_cast<std::int64_t>(d), input[d], output[d], factors[i]});
  }
  return sides;
}

double rounded(double x, DType dtype) {
  return dtype == DType::kF64 ? x : static_cast<double>(static_cast<float>(x));
}

double scale_of(const Side& side, bool align_corners, DType dtype) {
  const auto input = static_cast<double>(side.input), output = static_cast<double>(side.output);
  if (align_corners) return side.output > 1 ? rounded((input - 1) / (output - 1), dtype) : 0;
  if (side.factor && *side.factor > 0) return rounded(1.0 / *side.factor, dtype);
  return rounded(input / output, dtype);
}

}  // namespace crucible::aten
