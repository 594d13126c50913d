// How the bytes of two tensors differ, element by element: for `crucible trace diff`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/dtype.hpp"

namespace crucible::trace {

struct ElementDifference {
  std::uint64_t elements = 0;   // of the shorter of the two; an element of kOther is a byte
  std::uint64_t differing = 0;  // by their bits: -0.0 differs from 0.0, a NaN equals the same NaN
  std::uint64_t first = 0;      // index of the first one that differs
  std::string first_a, first_b;
  double max_abs_difference = 0;  // NaN when an element that differs is a NaN on one side
};

/// Compares as many whole elements as both have. Threads: any.
ElementDifference compare_elements(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype);

/// "element 5 of 32 is 0.1 against 0.2; 3 differ, by at most 0.1", or, for different sizes, "128 bytes against 256".
std::string difference_text(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype);

}  // namespace crucible::trace
