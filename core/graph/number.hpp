// A number that is known before an iteration starts, with its type: real, or whole with all of its 64 bits. A double
// alone would lose the last digits of whole numbers above 2^53, such as nanoseconds since 1970.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <limits>

namespace crucible::graph {

class Number {
 public:
  constexpr Number() = default;  // 0.0
  constexpr Number(double real) : bits_(std::bit_cast<std::uint64_t>(real)) {}
  constexpr Number(std::int64_t integer) : is_integer_(true), bits_(static_cast<std::uint64_t>(integer)) {}

  constexpr bool is_integer() const { return is_integer_; }
  /// The number rounded to a double.
  constexpr double real() const { return is_integer_ ? static_cast<double>(whole()) : std::bit_cast<double>(bits_); }
  /// The number without what stands behind its point, at most as large as 64 bits hold; of NaN 0.
  constexpr std::int64_t integer() const {
    constexpr double kLimit = 9223372036854775808.0;
    if (is_integer_) return whole();
    const double value = std::bit_cast<double>(bits_);
    if (value != value) return 0;
    if (value >= kLimit) return std::numeric_limits<std::int64_t>::max();
    return value <= -kLimit ? std::numeric_limits<std::int64_t>::min() : static_cast<std::int64_t>(value);
  }
  /// The eight bytes as which kernels and plugins get it: those of the double, or of the integer in two's complement.
  constexpr std::uint64_t bits() const { return bits_; }

  /// The same type and the same bits: 0.0 and -0.0 are two numbers, and so are 1 and 1.0.
  auto operator<=>(const Number&) const = default;

 private:
  constexpr std::int64_t whole() const { return static_cast<std::int64_t>(bits_); }
  bool is_integer_ = false;
  std::uint64_t bits_ = 0;
};

}  // namespace crucible::graph
