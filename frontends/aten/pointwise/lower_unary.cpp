// Lowering of element-wise mathematics of one tensor: functions, rounding, signs and questions about single numbers.
#include <cmath>
#include <limits>
#include <numbers>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The argument `self`, as it is computed with: integers stay integers.
Expression self(OpCall& c) { return c.wide("self"); }
/// As self(); integers become f32.
Expression real_self(OpCall& c) { return c.floating("self"); }

template <OpKind kind>
void function(OpCall& c) {
  c.set(0, real_self(c).unary(kind));
}

/// Integers are whole already.
template <OpKind kind>
void rounding(OpCall& c) {
  const Expression x = self(c);
  c.set(0, is_floating(x.dtype) ? x.unary(kind) : x);
}

void round_decimals(OpCall& c) {
  const Expression x = self(c);
  const auto decimals = c.integer("decimals");
  if (!is_floating(x.dtype)) return c.set(0, x);
  const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  if (decimals >= 0) return c.set(0, (x * scale).unary(OpKind::kRound) / scale);
  c.set(0, (x / scale).unary(OpKind::kRound) * scale);
}

void fraction(OpCall& c) {
  const Expression x = self(c);
  c.set(0, x - x.unary(OpKind::kTruncate));
}

void sign(OpCall& c) {
  const Expression x = self(c);
  if (x.dtype == DType::kBool) return c.set(0, x);
  c.set(0, choose(x > 0, 1, choose(x < 0, -1, 0)).cast(x.dtype));
}

/// True for -0 too. The sign of a NaN is not looked at.
void signbit(OpCall& c) {
  const Expression x = self(c);
  if (x.dtype == DType::kBool) return c.set(0, x && !x);
  if (!is_floating(x.dtype)) return c.set(0, x < 0);
  c.set(0, (x < 0) || ((x == 0) && (x.unary(OpKind::kReciprocal) < 0)));
}

template <int side>
void is_infinite(OpCall& c) {
  const Expression x = self(c);
  if (!is_floating(x.dtype)) return c.set(0, Term::integer(0));
  c.set(0, side == 0 ? magnitude(x) == kInfinity : x == side * kInfinity);
}

void sinc(OpCall& c) {
  const Expression x = real_self(c), angle = x * std::numbers::pi;
  c.set(0, choose(x == 0, 1, angle.unary(OpKind::kSin) / angle));
}

void logit(OpCall& c) {
  Expression x = real_self(c);
  const double eps = c.has("eps") ? c.real("eps") : -1;
  if (eps >= 0) x = smaller(larger(x, eps), 1 - eps);
  c.set(0, log(x / (1 - x)));
}

void logit_backward(OpCall& c) {
  const Expression x = self(c), g(c.emit(), c.wide("grad_output"));
  const double eps = c.has("eps") ? c.real("eps") : -1, low = eps < 0 ? 0 : eps;
  const Expression slope = g / (x * (1 - x));
  c.set(0, choose((x < low) || (x > 1 - low), eps < 0 ? kNan : 0.0, slope));
}

template <bool to_degrees>
void angle_unit(OpCall& c) {
  c.set(0, real_self(c) * (to_degrees ? 180 / std::numbers::pi : std::numbers::pi / 180));
}

/// The angle of a real number in the complex plane.
void angle(OpCall& c) {
  const Expression x = real_self(c);
  const Expression half_turn = c.emit().fill(Term::number(std::numbers::pi), {}, x.dtype);
  c.set(0, choose(is_nan(x), x, choose(x < 0, half_turn, 0)));
}

double largest(DType dtype) {
  if (dtype == DType::kF64) return std::numeric_limits<double>::max();
  if (dtype == DType::kF16) return 65504;
  if (dtype == DType::kBF16) return std::ldexp(255.0, 120);
  return static_cast<double>(std::numeric_limits<float>::max());
}

void nan_to_num(OpCall& c) {
  const Expression x = self(c);
  const DType dtype = c.tensor("self").dtype;
  if (!is_floating(dtype)) return c.set(0, x);
  const double nan = c.has("nan") ? c.real("nan") : 0;
  const double high = c.has("posinf") ? c.real("posinf") : largest(dtype);
  const double low = c.has("neginf") ? c.real("neginf") : -largest(dtype);
  c.set(0, choose(is_nan(x), nan, choose(x == kInfinity, high, choose(x == -kInfinity, low, x))));
}

/// -x log x; 0 at 0, -inf below.
void entropy(OpCall& c) {
  const Expression x = real_self(c);
  c.set(0, choose(is_nan(x), x, choose(x > 0, -x * log(x), choose(x == 0, 0.0, -kInfinity))));
}

void bitwise_not(OpCall& c) {
  const Expression x = self(c);
  c.set(0, x.unary(x.dtype == DType::kBool ? OpKind::kLogicalNot : OpKind::kBitNot));
}

constexpr Entry kEntries[] = {
    {"aten::ceil", rounding<OpKind::kCeil>},
    {"aten::floor", rounding<OpKind::kFloor>},
    {"aten::trunc", rounding<OpKind::kTruncate>},
    {"aten::round", rounding<OpKind::kRound>},
    {"aten::round.decimals", round_decimals},
    {"aten::frac", fraction},
    {"aten::sign", sign},
    {"aten::sgn", sign},
    {"aten::signbit", signbit},
    {"aten::isinf", is_infinite<0>, Complexity::kMagnitude},
    {"aten::isposinf", is_infinite<1>},
    {"aten::isneginf", is_infinite<-1>},
    {"aten::exp2", function<OpKind::kExp2>},
    {"aten::expm1", function<OpKind::kExpm1>},
    {"aten::log1p", function<OpKind::kLog1p>},
    {"aten::log2", function<OpKind::kLog2>},
    {"aten::log10", function<OpKind::kLog10>},
    {"aten::tan", function<OpKind::kTan>},
    {"aten::asin", function<OpKind::kAsin>},
    {"aten::acos", function<OpKind::kAcos>},
    {"aten::atan", function<OpKind::kAtan>},
    {"aten::sinh", function<OpKind::kSinh>},
    {"aten::cosh", function<OpKind::kCosh>},
    {"aten::asinh", function<OpKind::kAsinh>},
    {"aten::acosh", function<OpKind::kAcosh>},
    {"aten::atanh", function<OpKind::kAtanh>},
    {"aten::erfc", function<OpKind::kErfc>},
    {"aten::erfinv", function<OpKind::kErfInverse>},
    {"aten::lgamma", function<OpKind::kLogGamma>},
    {"aten::digamma", function<OpKind::kDigamma>},
    {"aten::sinc", sinc},
    {"aten::logit", logit},
    {"aten::logit_backward", logit_backward},
    {"aten::deg2rad", angle_unit<false>},
    {"aten::rad2deg", angle_unit<true>},
    {"aten::angle", angle},
    {"aten::nan_to_num", nan_to_num},
    {"aten::special_entr", entropy},
    {"aten::bitwise_not", bitwise_not},
};

}  // namespace

std::span<const Entry> unary_entries() { return kEntries; }

}  // namespace crucible::aten
