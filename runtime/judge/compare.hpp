// Compares a tensor that the replay computed with the one that was recorded: the measure behind `--verify`.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/result.hpp"

namespace crucible::runtime {

struct TensorDifference {
  double max_rel_diff = 0;  // largest |actual - expected| over the largest |expected|; infinite where one alone is NaN
  bool bit_equal = false;  // by same_bits(): one NaN is like another
};

/// Compares element by element in double precision (64-bit integers exactly). NaN equals NaN, an infinity itself. When
/// all expected elements are 0, the difference is taken over the smallest normal float32.
/// Errors: kBadInput when the sizes differ or are no multiple of the element's; kInternal for a dtype without
/// arithmetic (complex, other) whose bytes differ.
Result<TensorDifference> compare(DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected);

/// How far a tensor is from another one, as shares of the other's largest magnitude: at worst, in the root of the mean
/// of squares, and of the middle element. A few elements that went another way move the first alone; a wrong factor
/// moves all three.
struct Gap {
  double largest = 0, rms = 0, median = 0;
  /// The larger of each, where that is finite.
  void widen(const Gap& other);
};

/// As compare(), all three; elements of which `is_left_out` is true do not count (shorter than the tensor: none of the
/// others).
Gap gap_between(DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected,
                const std::vector<bool>& is_left_out = {});

/// How far all elements of a narrow tensor (f16, bf16) lean to one side of another one: by which share actual is
/// larger, summed over the expected numbers that are told apart, each counted once, for equal ones round alike. Right
/// arithmetic rounds to either side. 0 for other dtypes, and where less than kLeastToLean numbers are told apart: then
/// chance leans as far.
double lean_of(DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected);
inline constexpr std::size_t kLeastToLean = 128;

/// Why a difference has no finite or no sensible size, "" where it has one: "element 3 is nan, recorded is 0.5", "all
/// recorded elements are 0".
std::string words_of_difference(DType dtype, std::span<const std::byte> actual, std::span<const std::byte> expected);
std::string words_of_difference(double actual, double expected);

/// How far an output of this dtype may be from the recorded one, as TensorDifference::max_rel_diff: what another order
/// of sums and another library's functions cost, in roundings of the dtype. 0 for integers and bool.
double output_tolerance(DType dtype);

/// |actual - expected| / max(|expected|, smallest normal float32), with the same rules for NaN and infinity.
double relative_difference(double actual, double expected);

/// The unit in the last place of 1.
double unit_of(DType dtype);

/// One element as a double. Shapes: `bytes` has at least size_bytes(dtype) bytes. Complex and other: NaN.
double element_as_double(DType dtype, std::span<const std::byte> bytes);

}  // namespace crucible::runtime
