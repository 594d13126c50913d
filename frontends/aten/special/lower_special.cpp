// Lowering of special functions that are sums of Chebyshev polynomials or ratios of polynomials: Bessel and Airy
// functions, the scaled complement of the error function, quantile and logarithm of the normal distribution. Every
// range is computed everywhere and chosen afterwards; what a formula gives outside its range does not matter.
#include <cmath>
#include <limits>
#include <numbers>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/special/bessel.hpp"
#include "frontends/aten/special/special_coefficients.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kRootOf2OverPi = 0.797884560802865355879892119868763737;

/// The argument in f32 or f64; its name is `self` or `x`.
Expression argument(OpCall& c) {
  return {c.emit(), c.floating(c.has("self") ? "self" : "x")};
}

Expression constant(const Expression& like, double value) {
  Emitter& e = like.emitter();
  return {e, e.fill(Term::number(value), {}, like.dtype)};
}

/// sum of c[n - 1 - i] T_i(x / 2), the first term halved (Clenshaw).
Expression chebyshev(const Expression& x, Coefficients c) {
  Expression last = constant(x, 0), before = last, now = constant(x, c[0]);
  for (std::size_t i = 1; i < c.size(); ++i) {
    before = last;
    last = now;
    now = x * last - before + c[i];
  }
  return (now - before) * 0.5;
}

/// c[0] x^(n - 1) + ... + c[n - 1]. The framework's Bessel functions lack the leading 1 that Cephes has below the line;
/// so do these.
Expression polynomial(const Expression& x, Coefficients c) {
  Expression sum = constant(x, c[0]);
  for (std::size_t i = 1; i < c.size(); ++i) sum = sum * x + c[i];
  return sum;
}

Expression sine(const Expression& x) { return x.unary(OpKind::kSin); }
Expression cosine(const Expression& x) { return x.unary(OpKind::kCos); }

/// exp(-|x|) I of order 0 or 1.
Expression scaled_i(const Expression& given, int order) {
  const Expression x = magnitude(given);
  const Expression close = chebyshev(x * 0.5 - 2.0, order == 0 ? i0_near() : i1_near());
  const Expression far = chebyshev(32.0 / x - 2.0, order == 0 ? i0_far() : i1_far()) / square_root(x);
  if (order == 0) return choose(x <= 8.0, close, far);
  const Expression size = choose(x <= 8.0, close * x, far);
  return choose(given < 0, -size, size);
}

Expression bessel_i(const Expression& x, int order) { return exp(magnitude(x)) * scaled_i(x, order); }

template <int order, bool scaled>
void modified_first_kind(OpCall& c) {
  const Expression x = argument(c);
  c.set(0, scaled ? scaled_i(x, order) : bessel_i(x, order));
}

template <int order, bool scaled>
void modified_second_kind(OpCall& c) {
  const Expression x = argument(c);
  const Expression series = chebyshev(x * x - 2.0, order == 0 ? k0_near() : k1_near());
  const Expression grown = log(x * 0.5) * bessel_i(x, order);
  Expression close = order == 0 ? series - grown : grown + series / x;
  Expression far = chebyshev(8.0 / x - 2.0, order == 0 ? k0_far() : k1_far()) / square_root(x);
  if (scaled) {
    close = close * exp(x);
  } else {
    far = far * exp(-x);
  }
  c.set(0, choose(x == 0, kInfinity, choose(x < 0, kNan, choose(x <= 2.0, close, far))));
}

/// Both waves from 5 on: their amplitudes and the angle that they are taken at.
struct Waves {
  Expression even, odd, angle, scale;
};

Waves waves(const Expression& x, int order) {
  const Expression z = 25.0 / (x * x);
  const auto even = order == 0 ? even_over_0() : even_over_1(),
             even_below = order == 0 ? even_under_0() : even_under_1();
  const auto odd = order == 0 ? odd_over_0() : odd_over_1(), odd_below = order == 0 ? odd_under_0() : odd_under_1();
  return {polynomial(z, even) / polynomial(z, even_below), 5.0 / x * (polynomial(z, odd) / polynomial(z, odd_below)),
          x - (order == 0 ? 0.25 : 0.75) * std::numbers::pi, kRootOf2OverPi / square_root(x)};
}

Expression bessel_j(const Expression& given, int order) {
  const Expression x = magnitude(given), square = x * x;
  const Waves w = waves(x, order);
  const Expression far = (w.even * cosine(w.angle) - w.odd * sine(w.angle)) * w.scale;
  if (order == 0) {
    const Expression zeros = (square - 5.78318596294678452118) * (square - 30.4712623436620863991);
    const Expression close = zeros * polynomial(square, j0_over()) / polynomial(square, j0_under());
    return choose(x <= 5.0, choose(x < 0.00001, 1.0 - square / 4.0, close), far);
  }
  const Expression zeros = x * (square - 14.6819706421238932572) * (square - 49.2184563216946036703);
  const Expression size = choose(x <= 5.0, polynomial(square, j1_over()) / polynomial(square, j1_under()) * zeros, far);
  return choose(given < 0, -size, size);
}

template <int order>
void first_kind(OpCall& c) {
  c.set(0, bessel_j(argument(c), order));
}

template <int order>
void second_kind(OpCall& c) {
  const Expression x = argument(c), square = x * x;
  const Waves w = waves(x, order);
  const Expression far = (w.even * sine(w.angle) + w.odd * cosine(w.angle)) * w.scale;
  constexpr double kTwoOverPi = 2 / std::numbers::pi;
  const Expression ratio = order == 0 ? polynomial(square, y0_over()) / polynomial(square, y0_under())
                                      : polynomial(square, y1_over()) / polynomial(square, y1_under());
  const Expression wave = log(x) * bessel_j(x, order);
  const Expression close = order == 0 ? ratio + wave * kTwoOverPi : x * ratio + (wave - 1.0 / x) * kTwoOverPi;
  c.set(0, choose(x == 0, -kInfinity, choose(x < 0, kNan, choose(x <= 5.0, close, far))));
}

/// sin(x) / x, by its series near 0.
void spherical_j0(OpCall& c) {
  const Expression x = argument(c), square = x * x;
  Expression series = constant(x, 0);
  for (double k = 12; k >= 2; k -= 2) series = square * (series + 1.0) * (-1.0 / (k * (k + 1)));
  c.set(0, choose(magnitude(x) == kInfinity, 0.0, choose(magnitude(x) < 0.5, series + 1.0, sine(x) / x)));
}

/// The solution of y'' = x y that falls off: waves, the power series between -2.09 and 2.09, an exponential.
void airy(OpCall& c) {
  const Expression x = argument(c), size = magnitude(x), root = square_root(size);
  const Expression zeta = 2.0 * size * root / 3.0, inverse = 1.0 / zeta, square = inverse * inverse;
  constexpr double kInverseRootOfPi = 0.564189583547756286948;
  const Expression angle = zeta + 0.25 * std::numbers::pi;
  const Expression even = 1.0 + square * polynomial(square, airy_sine_over()) / polynomial(square, airy_sine_under());
  const Expression odd = inverse * polynomial(square, airy_cosine_over()) / polynomial(square, airy_cosine_under());
  const Expression left = kInverseRootOfPi / square_root(root) * (sine(angle) * even - cosine(angle) * odd);
  const Expression ratio = polynomial(inverse, airy_over()) / polynomial(inverse, airy_under());
  const Expression right = kInverseRootOfPi * ratio / (2.0 * square_root(root) * exp(zeta));
  Expression first = constant(x, 1), second = x, first_term = first, second_term = x;
  const Expression cube = x * x * x;
  for (int k = 3; k < 45; k += 3) {
    first_term = first_term * cube / (1.0 * k * (k - 1));
    second_term = second_term * cube / (1.0 * k * (k + 1));
    first = first + first_term;
    second = second + second_term;
  }
  const Expression middle = first * 0.355028053887817239260 - second * 0.258819403792806798405;
  const Expression finite = choose(x < -2.09, left, choose(x >= 2.09, right, middle));
  c.set(0, choose(size == kInfinity, kNan, choose(x > 103.892, 0.0, finite)));
}

/// exp(x x) erfc(x); for x from 0 of a smooth ratio to 1 / (1 + 2 x).
Expression erfcx(const Expression& x) {
  const Expression size = magnitude(x), t = 2.0 * (size - 3.75) / (size + 3.75);
  const Expression ratio = chebyshev(t, erfcx_ratio()) / (2.0 * size + 1.0);
  const Expression positive = choose(size > 1e6, 1.0 / std::sqrt(std::numbers::pi) / size, ratio);
  return choose(x < 0, 2.0 * exp(x * x) - positive, positive);
}

void scaled_complement(OpCall& c) {
  const Expression x = argument(c);
  c.set(0, choose(x < -26.7, kInfinity, erfcx(x)));
}

void log_normal_share(OpCall& c) {
  const Expression x = argument(c), t = x * (1 / std::numbers::sqrt2);
  const Expression tail = log(erfcx(magnitude(t)) * 0.5) - t * t;
  c.set(0, choose(x < -1.0, tail, log_plus_1(t.unary(OpKind::kErfc) * -0.5)));
}

/// Where the normal distribution has the share `given` below it.
void normal_quantile(OpCall& c) {
  const Expression given = argument(c);
  constexpr double kEdge = 0.13533528323661269189;  // exp(-2)
  const Expression upper = given > 1 - kEdge, y = choose(upper, 1.0 - given, given);
  const Expression from_middle = y - 0.5, square = from_middle * from_middle;
  const Expression bend = square * polynomial(square, normal_middle_over()) / polynomial(square, normal_middle_under());
  const Expression middle = (from_middle + from_middle * bend) * 2.50662827463100050242;
  const Expression x = square_root(log(y) * -2.0), z = 1.0 / x;
  const Expression close = polynomial(z, normal_tail_over()) / polynomial(z, normal_tail_under());
  const Expression far = polynomial(z, normal_far_tail_over()) / polynomial(z, normal_far_tail_under());
  const Expression tail = x - log(x) / x - z * choose(x < 8.0, close, far);
  const Expression inside = choose(y > kEdge, middle, choose(upper, tail, -tail));
  const Expression outside = choose((given < 0) || (given > 1), kNan, inside);
  c.set(0, choose(given == 0, -kInfinity, choose(given == 1, kInfinity, outside)));
}

constexpr Entry kEntries[] = {
    {"aten::i0", modified_first_kind<0, false>},
    {"aten::special_i0e", modified_first_kind<0, true>},
    {"aten::special_i1", modified_first_kind<1, false>},
    {"aten::special_i1e", modified_first_kind<1, true>},
    {"aten::special_modified_bessel_i0", modified_first_kind<0, false>},
    {"aten::special_modified_bessel_i1", modified_first_kind<1, false>},
    {"aten::special_modified_bessel_k0", modified_second_kind<0, false>},
    {"aten::special_modified_bessel_k1", modified_second_kind<1, false>},
    {"aten::special_scaled_modified_bessel_k0", modified_second_kind<0, true>},
    {"aten::special_scaled_modified_bessel_k1", modified_second_kind<1, true>},
    {"aten::special_bessel_j0", first_kind<0>},
    {"aten::special_bessel_j1", first_kind<1>},
    {"aten::special_bessel_y0", second_kind<0>},
    {"aten::special_bessel_y1", second_kind<1>},
    {"aten::special_spherical_bessel_j0", spherical_j0},
    {"aten::special_airy_ai", airy},
    {"aten::special_erfcx", scaled_complement},
    {"aten::special_log_ndtr", log_normal_share},
    {"aten::special_ndtri", normal_quantile},
};

}  // namespace

Expression bessel_i0(const Expression& x) { return bessel_i(x, 0); }

std::span<const Entry> special_entries() { return kEntries; }

}  // namespace crucible::aten
