// Typed byte buffers as plain numbers and back, for the reference interpreter: integers and booleans become 64-bit
// integers, floating-point becomes double. Rounding happens once, on the way back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/graph/program.hpp"

namespace crucible::graph {

using Bytes = std::vector<std::byte>;

/// Elements of a view in row-major order, as integers or as doubles according to `is_integer`.
struct Numbers {
  bool is_integer = false;
  std::vector<double> real;
  std::vector<std::int64_t> integer;

  std::size_t size() const { return is_integer ? integer.size() : real.size(); }
  double as_real(std::size_t i) const { return is_integer ? static_cast<double>(integer[i]) : real[i]; }
  /// As real_to_integer() to i64.
  std::int64_t as_integer(std::size_t i) const;
  bool as_bool(std::size_t i) const { return is_integer ? integer[i] != 0 : real[i] != 0; }
  /// `size` zeros of the kind that fits `dtype`.
  static Numbers zeros(DType dtype, std::size_t size);
};

/// Rounds to the nearest number of a floating-point `dtype`, ties to even; other dtypes: the value itself.
double round_to(DType dtype, double value);

/// A float as it is converted to an integer dtype, before that cuts it: towards zero; NaN and what has no place in 64
/// bits (i64, u8) or 32 (the others) is the lowest integer of so many.
std::int64_t real_to_integer(DType dtype, double value);

/// Reads one element. The dtype must not be complex or kOther.
double load_real(DType dtype, const std::byte* at);
std::int64_t load_integer(DType dtype, const std::byte* at);

/// Writes one element: doubles are rounded once, integers keep their low bits.
void store_real(DType dtype, double value, std::byte* at);
void store_integer(DType dtype, std::int64_t value, std::byte* at);

/// The elements of `view` over `buffer`, row-major.
Numbers load(const Bytes& buffer, DType dtype, const View& view);

/// Writes numbers through `view`, converting to `dtype`.
void store(const Numbers& numbers, DType dtype, const View& view, Bytes& buffer);

/// The same numbers as `dtype` would hold them, without going through bytes.
Numbers converted(const Numbers& numbers, DType dtype);

}  // namespace crucible::graph
