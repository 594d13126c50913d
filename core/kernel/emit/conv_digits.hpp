// The dimensions that an index of a convolution's steps or columns counts, as digits of a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace crucible::kernel {

/// One dimension of the steps or the columns, and what an index of it adds to places in memory and under the window.
struct Digit {
  std::int64_t size = 1;
  std::int64_t right = 0, left = 0, out = 0;  // elements
  std::int64_t h = 0, w = 0;                  // rows and columns of the windowed operand, times `divisor`
};

inline std::int64_t count(const std::vector<Digit>& digits) {
  std::int64_t product = 1;
  for (const Digit& digit : digits) product *= digit.size;
  return product;
}

/// So many of these, from one that is a multiple of it, lie side by side.
inline std::int64_t run_of(const std::vector<Digit>& digits, std::int64_t Digit::* place) {
  std::int64_t run = 1;
  for (std::size_t d = digits.size(); d-- > 0; run *= digits[d].size) {
    if (digits[d].size > 1 && digits[d].*place != run) break;
  }
  return run;
}

}  // namespace crucible::kernel
