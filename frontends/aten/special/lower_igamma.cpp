// Lowering of the regularized incomplete gamma functions. Iterations until nothing changes, as the framework has them,
// have no place in a program; here both tails are an integral over a finite range, of a smooth function that falls off,
// in f64.
#include <limits>
#include <numbers>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Expression power_minus_1(const Expression& x) { return x.unary(OpKind::kExpm1); }

/// log of gamma(a) over Stirling's formula, for a from 10 on.
Expression stirling_rest(const Expression& a) {
  constexpr double kTerms[] = {1.0 / 156, -691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12};
  const Expression inverse = 1.0 / a, square = inverse * inverse;
  Expression sum = square * kTerms[0];
  for (std::size_t i = 1; i + 1 < std::size(kTerms); ++i) sum = (sum + kTerms[i]) * square;
  return (sum + kTerms[std::size(kTerms) - 1]) * inverse;
}

/// x^a exp(-x) / gamma(a + 1). For large a relative to its maximum, where powers would lose what counts.
Expression density(const Expression& a, const Expression& x) {
  const Expression close = exp(a * log(x) - x - (a + 1.0).unary(OpKind::kLogGamma));
  const Expression large = larger(a, 10.0), away = (x - large) / large;
  const Expression far =
      exp(-large * (away - log_plus_1(away)) - stirling_rest(large)) / square_root(large * (2 * std::numbers::pi));
  return choose(a < 10, close, far);
}

/// x^a exp(-x) times this is the lower tail times gamma(a + 1); for x up to 1.1.
Expression series(const Expression& a, const Expression& x) {
  Expression sum(a.emitter(), a.emitter().fill(Term::number(1), {}, DType::kF64)), term = sum;
  for (int k = 1; k < 25; ++k) {
    term = term * x / (a + 1.0 * k);
    sum = sum + term;
  }
  return sum;
}

/// The integral of exp(a w - x (exp(w) - 1)) over w: from 0 upwards for x >= a, downwards otherwise, until the exponent
/// is -40.
Expression tail_integral(const Expression& a, const Expression& x) {
  constexpr double kDepth = 40;
  constexpr int kNodes = 112;
  constexpr double kReach = 3.2;
  Emitter& e = a.emitter();
  const Expression direction = choose(x >= a, 1.0, -1.0), slope = magnitude(x - a);
  // Newton's steps on a convex function, from what a parabola would give.
  Expression range = 2 * kDepth / (slope + square_root(slope * slope + 2 * kDepth * x));
  for (int i = 0; i < 4; ++i) {
    const Expression w = direction * range, depth = x * power_minus_1(w) - a * w, steepness = magnitude(x * exp(w) - a);
    range = range - (depth - kDepth) / choose(steepness == 0, 1.0, steepness);
  }
  // Places that crowd towards both ends (the double exponential rule).
  const Expression number(e, e.coordinate(0, {kNodes}, DType::kF64)),
      u = (number + 0.5) * (2 * kReach / kNodes) - kReach;
  const Expression share = sigmoid(u.unary(OpKind::kSinh) * std::numbers::pi);
  const Expression weight = share * (1.0 - share) * u.unary(OpKind::kCosh) * (std::numbers::pi * 2 * kReach / kNodes);
  const auto column = [&](const Expression& t) { return Expression(e, e.unsqueeze(t, -1)); };
  const Expression w = column(direction * range) * share;
  const Expression inside = exp(column(a) * w - column(x) * power_minus_1(w)) * weight;
  return range * Expression(e, e.drop(e.sum(inside, {-1}), {-1}));
}

template <bool upper>
void incomplete_gamma(OpCall& c) {
  Emitter& e = c.emit();
  const Expression a(e, e.cast(c.tensor("self"), DType::kF64)), x(e, e.cast(c.tensor("other"), DType::kF64));
  const Expression base = density(a, x), lower_part = base * series(a, x), tail = base * a * tail_integral(a, x);
  const Expression is_small = x <= 1.1, is_upper_tail = x >= a;
  const Expression one_sided =
      upper ? choose(is_upper_tail, tail, 1.0 - tail) : choose(is_upper_tail, 1.0 - tail, tail);
  const Expression inside = choose(is_small, upper ? 1.0 - lower_part : lower_part, one_sided);
  const double nothing = upper ? 1 : 0, all = upper ? 0 : 1;
  // Borders, the first that holds counts.
  Expression value = choose(x == kInfinity, all, inside);
  value = choose(a == kInfinity, choose(x == kInfinity, kNan, nothing), value);
  value = choose(x == 0, nothing, value);
  value = choose(a == 0, choose(x > 0, all, kNan), value);
  c.set(0, choose((a < 0) || (x < 0), kNan, value));
}

constexpr Entry kEntries[] = {
    {"aten::igamma", incomplete_gamma<false>},
    {"aten::igammac", incomplete_gamma<true>},
};

}  // namespace

std::span<const Entry> igamma_entries() { return kEntries; }

}  // namespace crucible::aten
