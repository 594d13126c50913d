// Lowering of Chebyshev polynomials of the four kinds, whose order is data: from their closed forms, waves between -1
// and 1 and hyperbolic functions outside, in f64.
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

enum class Kind { kFirst, kSecond, kThird, kFourth };

/// With the angle t where cos t = x, (hyperbolic: cosh t = x > 1): T = cos n t, U = sin (n + 1) t / sin t,
/// V = cos (n + 1/2) t / cos t / 2, W = sin (n + 1/2) t / sin t / 2.
Expression from_angle(Kind kind, const Expression& t, const Expression& n, OpKind cosine, OpKind sine) {
  const Expression half = t * 0.5;
  switch (kind) {
    case Kind::kFirst:
      return (n * t).unary(cosine);
    case Kind::kSecond:
      return ((n + 1.0) * t).unary(sine) / t.unary(sine);
    case Kind::kThird:
      return ((n + 0.5) * t).unary(cosine) / half.unary(cosine);
    case Kind::kFourth:
      return ((n + 0.5) * t).unary(sine) / half.unary(sine);
  }
  return t;
}

/// At 1; at -1 the third and fourth kind change places.
Expression at_one(Kind kind, const Expression& n) {
  switch (kind) {
    case Kind::kSecond:
      return n + 1.0;
    case Kind::kFourth:
      return n * 2.0 + 1.0;
    default:
      return n * 0.0 + 1.0;
  }
}

Kind mirrored(Kind kind) {
  if (kind == Kind::kThird) return Kind::kFourth;
  return kind == Kind::kFourth ? Kind::kThird : kind;
}

/// p_n(-x) is p_n(x), negative for odd n, with the third and fourth kind exchanged.
Expression polynomial(Kind kind, const Expression& x, const Expression& n) {
  const Expression half = n * 0.5, is_even = half == half.unary(OpKind::kFloor);
  const Expression size = magnitude(x), inner = x.unary(OpKind::kAcos), outer = size.unary(OpKind::kAcosh);
  const Expression waves = from_angle(kind, inner, n, OpKind::kCos, OpKind::kSin);
  const Expression right = from_angle(kind, outer, n, OpKind::kCosh, OpKind::kSinh);
  const Expression left = from_angle(mirrored(kind), outer, n, OpKind::kCosh, OpKind::kSinh);
  const Expression edge = choose(x > 0, at_one(kind, n), at_one(mirrored(kind), n));
  const Expression beyond = choose(size == 1, edge, choose(x > 0, right, left));
  const Expression signed_beyond = choose((x > 0) || is_even, beyond, -beyond);
  const Expression value = choose(is_nan(x), x, choose(size < 1, waves, signed_beyond));
  return choose(n < 0, 0.0, choose(n == 0, 1.0, value));
}

template <Kind kind, bool shifted>
void chebyshev(OpCall& c) {
  Emitter& e = c.emit();
  const auto wide = [&](const char* name) {
    const Expression x = c.operand(name);
    return Expression(e, x.is_number() ? e.fill(x, {}, DType::kF64) : e.cast(x, DType::kF64));
  };
  const Expression x = wide("x"), n = wide("n").unary(OpKind::kTruncate);
  c.set(0, polynomial(kind, shifted ? x * 2.0 - 1.0 : x, n));
}

#define CRUCIBLE_CHEBYSHEV(letter, kind)                                                                       \
  {"aten::special_chebyshev_polynomial_" letter, chebyshev<kind, false>},                                      \
      {"aten::special_chebyshev_polynomial_" letter ".n_scalar", chebyshev<kind, false>},                      \
      {"aten::special_chebyshev_polynomial_" letter ".x_scalar", chebyshev<kind, false>},                      \
      {"aten::special_shifted_chebyshev_polynomial_" letter, chebyshev<kind, true>},                           \
      {"aten::special_shifted_chebyshev_polynomial_" letter ".n_scalar", chebyshev<kind, true>}, {             \
    "aten::special_shifted_chebyshev_polynomial_" letter ".x_scalar", chebyshev<kind, true>                    \
  }

constexpr Entry kEntries[] = {
    CRUCIBLE_CHEBYSHEV("t", Kind::kFirst),
    CRUCIBLE_CHEBYSHEV("u", Kind::kSecond),
    CRUCIBLE_CHEBYSHEV("v", Kind::kThird),
    CRUCIBLE_CHEBYSHEV("w", Kind::kFourth),
};
#undef CRUCIBLE_CHEBYSHEV

}  // namespace

std::span<const Entry> chebyshev_entries() { return kEntries; }

}  // namespace crucible::aten
