// Lowering of ops on the parts that numbers are made of: exponent and mantissa, the next representable number, common
// divisors and multiples.
#include <algorithm>
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// 2^n for whole n, also where that is subnormal or n is beyond the largest exponent of one factor.
Expression scaled_by_power(const Expression& x, const Expression& n) {
  const Expression half = (n * 0.5).unary(OpKind::kFloor);
  return x * half.unary(OpKind::kExp2) * (n - half).unary(OpKind::kExp2);
}

/// |mantissa| in [1/2, 1) and exponent with x = mantissa 2^exponent, in f64; 0 has the exponent 0.
struct Parts {
  Expression mantissa, exponent;
};

Parts parts_of(const Expression& x) {
  const Expression size = magnitude(x);
  const Expression tiny = size < 0x1p-1000, normal = choose(tiny, size * 0x1p100, size);
  const Expression guess = normal.unary(OpKind::kLog2).unary(OpKind::kFloor) + 1.0;
  const Expression ratio = scaled_by_power(normal, -guess);
  // The logarithm may be rounded across a whole number.
  const Expression exponent = guess + choose(ratio >= 1, 1.0, choose(ratio < 0.5, -1.0, 0.0));
  const Expression mantissa = ratio * choose(ratio >= 1, 0.5, choose(ratio < 0.5, 2.0, 1.0));
  const Expression shifted = exponent - choose(tiny, 100.0, 0.0);
  const Expression plain = (size > 0) && (size < kInfinity);
  return {choose(plain, choose(x < 0, -mantissa, mantissa), x), choose(plain, shifted, 0.0)};
}

void frexp(OpCall& c) {
  const Expression x(c.emit(), c.tensor("self"));
  const Parts parts = parts_of(x.cast(DType::kF64));
  c.set(0, parts.mantissa);
  c.set(1, parts.exponent);
}

/// Bits of the mantissa, the leading one included, and the exponent (of parts_of) of the smallest normal number.
struct Format {
  double bits, lowest;
};

Format format_of(DType dtype) {
  if (dtype == DType::kF64) return {53, -1021};
  if (dtype == DType::kBF16) return {8, -125};
  if (dtype == DType::kF16) return {11, -13};
  return {24, -125};
}

/// The number after self on the way to other. Computed in f64, where one step of any format is exact.
void next_after(OpCall& c) {
  Emitter& e = c.emit();
  const Expression self = c.tensor("self"), other = c.tensor("other");
  const DType dtype = promote({self, other});
  const Format format = format_of(dtype);
  const Expression x(e, e.cast(self, DType::kF64)), to(e, e.cast(other, DType::kF64));
  const Parts parts = parts_of(x);
  const Expression one(e, e.fill(Term::number(1), {}, DType::kF64));
  const Expression inward = (x > 0) == (to < x);
  // Towards 0 the steps below a power of two are half as wide.
  const Expression edge = (magnitude(parts.mantissa) == 0.5) && inward;
  const Expression exponent = larger(choose(edge, parts.exponent - 1.0, parts.exponent), format.lowest);
  const Expression lowest = one * format.lowest;
  const Expression step = scaled_by_power(one, choose(x == 0, lowest, exponent) - format.bits);
  const Expression moved = choose(to > x, x + step, x - step);
  const Expression largest =
      scaled_by_power(one - scaled_by_power(one, one * -format.bits), one * (dtype == DType::kF64   ? 1024.0
                                                                             : dtype == DType::kF16 ? 16.0
                                                                                                    : 128.0));
  const Expression back = choose(x > 0, largest, -largest);
  const Expression next = choose(magnitude(x) == kInfinity, back, moved);
  c.set(0, choose(is_nan(x) || is_nan(to), x + to, choose(x == to, to, next)));
}

/// How many steps Euclid's algorithm takes at most for numbers of this dtype.
int euclid_steps(DType dtype) {
  switch (size_bytes(dtype)) {
    case 1:
      return 13;
    case 2:
      return 24;
    case 4:
      return 47;
    default:
      return 92;
  }
}

Expression common_divisor(const Expression& x, const Expression& y) {
  Expression a = magnitude(x), b = magnitude(y);
  for (int step = 0; step < euclid_steps(x.dtype); ++step) {
    const Expression done = b == 0, rest = a.binary(OpKind::kRemainder, b);
    a = choose(done, a, b);
    b = rest;
  }
  return a;
}

struct Pair {
  Expression a, b;
};

Pair integers(OpCall& c) {
  Emitter& e = c.emit();
  const Expression a = c.tensor("self"), b = c.tensor("other");
  const DType dtype = promote({a, b});
  return {{e, e.cast(a, dtype)}, {e, e.cast(b, dtype)}};
}

void gcd(OpCall& c) {
  const Pair p = integers(c);
  c.set(0, common_divisor(p.a, p.b));
}

void lcm(OpCall& c) {
  const Pair p = integers(c);
  c.set(0, magnitude(p.a.binary(OpKind::kDivideInteger, common_divisor(p.a, p.b)) * p.b));
}

constexpr Entry kEntries[] = {
    {"aten::frexp.Tensor", frexp},
    {"aten::nextafter", next_after},
    {"aten::gcd", gcd},
    {"aten::lcm", lcm},
};

}  // namespace

std::span<const Entry> parts_entries() { return kEntries; }

}  // namespace crucible::aten
