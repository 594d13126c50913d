// Compares a tensor that the replay computed with the one that was recorded: the measure behind `--verify`.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/dtype.hpp"
#include "core/base/result.hpp"

namespace crucible::runtime {

struct TensorDifference {
  double max_rel_diff = 0;  // largest |actual - expected| over the largest |expected|; infinite where one alone is NaN
  bool bit_equal = false;
};

/// Compares element by element in double precision (64-bit integers exactly). NaN equals NaN, an infinity itself. When
/// all expected elements are 0, the difference is taken over the smallest normal float32.
/// Errors: kBadInput when the sizes differ or are no multiple of the element's; kInternal for a dtype without
/// arithmetic (complex, other) whose bytes differ.
Result<TensorDifference> compare(DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected);

/// How far an output of this dtype may be from the recorded one, as TensorDifference::max_rel_diff: what another order of
/// sums and another library's functions cost, in roundings of the dtype. 0 for integers and bool.
double output_tolerance(DType dtype);

/// |actual - expected| / max(|expected|, smallest normal float32), with the same rules for NaN and infinity.
double relative_difference(double actual, double expected);

/// One element as a double. Shapes: `bytes` has at least size_bytes(dtype) bytes. Complex and other: NaN.
double element_as_double(DType dtype, std::span<const std::byte> bytes);

}  // namespace crucible::runtime
