// Lowering of element-wise ops of two operands beyond plain arithmetic: division by mode, remainders, bits, extrema and
// the rarer functions.
#include <limits>
#include <numbers>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The operands `self` and `other` in the dtype that the framework computes in.
struct Pair {
  Expression a, b;
  DType dtype;  // before widening
};

Expression brought(Emitter& e, const Term& x, const Term& other, DType dtype) {
  if (!x.is_number()) return {e, e.cast(x, compute_dtype(dtype))};
  const Expression number = rounded_like(e, x, other);
  // A number alone would be weak: the other operand's dtype holds only when it is as wide.
  return {e, e.fill(number, {}, compute_dtype(dtype))};
}

Pair operands(OpCall& c, bool floating = false) {
  Emitter& e = c.emit();
  const Expression a = c.operand("self"), b = c.operand("other");
  DType dtype = promote({a, b});
  if (floating && !is_floating(dtype)) dtype = DType::kF32;
  return {brought(e, a, b, dtype), brought(e, b, a, dtype), dtype};
}

/// An intermediate result where the framework's kernel has one of this dtype.
Expression rounded(const Expression& x, DType dtype) { return x.cast(dtype).cast(compute_dtype(dtype)); }

template <OpKind kind>
void floating(OpCall& c) {
  const Pair p = operands(c, true);
  c.set(0, p.a.binary(kind, p.b));
}

/// The quotient of integers rounded down: by zero 0.
Expression floor_of_integers(const Expression& a, const Expression& b) {
  const Expression q = a.binary(OpKind::kDivideInteger, b), rest = a - q * b;
  return choose((rest != 0) && ((rest < 0) != (b < 0)), q - 1, q);
}

/// The framework's floor division of floats: from the exact remainder, so that a quotient just below a whole number is
/// not rounded up to it.
Expression floor_of_reals(const Expression& a, const Expression& b) {
  const Expression rest = a.binary(OpKind::kRemainder, b), quotient = (a - rest) / b;
  const Expression adjusted = choose((rest != 0) && ((b < 0) != (rest < 0)), quotient - 1, quotient);
  const Expression low = adjusted.unary(OpKind::kFloor);
  const Expression whole = choose(adjusted - low > 0.5, low + 1, low);
  const Expression ratio = a / b;
  return choose(b == 0, ratio, choose(adjusted == 0, ratio * 0, whole));
}

/// Integers alone raise where they are divided by zero.
void expect_divisor(OpCall& c, const Pair& p) {
  if (!is_floating(p.dtype)) c.emit().expect_all([&] { return p.b != 0; });
}

void floor_divide(OpCall& c) {
  const Pair p = operands(c);
  expect_divisor(c, p);
  c.set(0, is_floating(p.dtype) ? floor_of_reals(p.a, p.b) : floor_of_integers(p.a, p.b));
}

void divide_by_mode(OpCall& c) {
  const std::string mode = c.text("rounding_mode");
  if (mode == "floor") return floor_divide(c);
  if (mode.empty()) return c.set(0, divide(c.emit(), c.operand("self"), c.operand("other")));
  const Pair p = operands(c);
  expect_divisor(c, p);
  if (!is_floating(p.dtype)) return c.set(0, p.a.binary(OpKind::kDivideInteger, p.b));
  c.set(0, rounded(p.a / p.b, p.dtype).unary(OpKind::kTruncate));
}

/// The rest with the sign of the dividend.
void fmod(OpCall& c) {
  const Pair p = operands(c);
  expect_divisor(c, p);
  c.set(0, p.a.binary(OpKind::kRemainder, p.b));
}

/// The rest with the sign of the divisor.
void remainder(OpCall& c) {
  const Pair p = operands(c);
  expect_divisor(c, p);
  const Expression rest = p.a.binary(OpKind::kRemainder, p.b);
  c.set(0, choose((rest != 0) && ((rest < 0) != (p.b < 0)), rest + p.b, rest));
}

template <OpKind on_integers, OpKind on_bool>
void bitwise(OpCall& c) {
  const Pair p = operands(c);
  c.set(0, p.a.binary(p.dtype == DType::kBool ? on_bool : on_integers, p.b));
}

template <OpKind kind>
void shift(OpCall& c) {
  const Pair p = operands(c);
  c.set(0, p.a.binary(kind, p.b));
}

void logical_xor(OpCall& c) {
  Emitter& e = c.emit();
  const Expression a(e, e.cast(c.tensor("self"), DType::kBool)), b(e, e.cast(c.tensor("other"), DType::kBool));
  c.set(0, a != b);
}

template <OpKind kind>
void extremum(OpCall& c) {
  const Pair p = operands(c);
  if (p.dtype != DType::kBool) return c.set(0, p.a.binary(kind, p.b));
  c.set(0, p.a.binary(kind == OpKind::kMaximum ? OpKind::kLogicalOr : OpKind::kLogicalAnd, p.b));
}

/// A NaN gives way to a number.
template <OpKind kind>
void extremum_of_numbers(OpCall& c) {
  const Pair p = operands(c);
  if (!is_floating(p.dtype)) return extremum<kind>(c);
  c.set(0, choose(is_nan(p.a), p.b, choose(is_nan(p.b), p.a, p.a.binary(kind, p.b))));
}

Expression is_negative(const Expression& x) { return (x < 0) || ((x == 0) && (x.unary(OpKind::kReciprocal) < 0)); }

void copysign(OpCall& c) {
  const Pair p = operands(c, true);
  const Expression size = magnitude(p.a);
  c.set(0, choose(is_negative(p.b), -size, size));
}

/// By the larger side, so that squares do not overflow.
void hypot(OpCall& c) {
  const Pair p = operands(c);
  const Expression a = magnitude(p.a), b = magnitude(p.b), high = larger(a, b), low = smaller(a, b);
  const Expression ratio = choose(high == 0, 0.0, low / high);
  const Expression length = high * square_root(ratio * ratio + 1);
  c.set(0, choose((a == kInfinity) || (b == kInfinity), kInfinity, length));
}

void heaviside(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x(e, c.tensor("self"));
  c.set(0, choose(x == 0, c.tensor("values"), choose(x > 0, 1, 0).cast(x.dtype)));
}

/// log(base^a + base^b) from the larger exponent.
template <OpKind power, OpKind logarithm>
void log_add(OpCall& c) {
  const Pair p = operands(c, true);
  const Expression high = larger(p.a, p.b), gap = -magnitude(p.a - p.b);
  const Expression sum =
      logarithm == OpKind::kLog ? log_plus_1(gap.unary(power)) : log_plus_1(gap.unary(power)) * std::numbers::log2e;
  c.set(0, choose((p.a == p.b) && (magnitude(p.a) == kInfinity), p.a, high + sum));
}

/// a log b; 0 where a is 0 and b a number.
template <bool plus_1>
void x_log_y(OpCall& c) {
  const Pair p = operands(c, true);
  const Expression product = p.a * rounded(plus_1 ? log_plus_1(p.b) : log(p.b), p.dtype);
  c.set(0, choose(is_nan(p.b), p.b, choose(p.a == 0, 0, product)));
}

void ldexp(OpCall& c) {
  const Pair p = operands(c, true);
  c.set(0, p.a * p.b.unary(OpKind::kExp2));
}

void clamp(OpCall& c) {
  Emitter& e = c.emit();
  Term x = c.wide("self");
  const auto bound = [&](const char* name, OpKind kind, OpKind of_bools) {
    if (!c.has(name)) return;
    const Expression limit = widened(e, c.operand(name));
    x = e.binary(promote({x, limit}) == DType::kBool ? of_bools : kind, x, limit);
  };
  bound("min", OpKind::kMaximum, OpKind::kLogicalOr);
  bound("max", OpKind::kMinimum, OpKind::kLogicalAnd);
  c.set(0, x);
}

constexpr Entry kEntries[] = {
    {"aten::div.Tensor_mode", divide_by_mode},
    {"aten::div.Scalar_mode", divide_by_mode},
    {"aten::floor_divide", floor_divide},
    {"aten::floor_divide.Scalar", floor_divide},
    {"aten::fmod.Tensor", fmod},
    {"aten::fmod.Scalar", fmod},
    {"aten::remainder.Tensor", remainder},
    {"aten::remainder.Scalar", remainder},
    {"aten::remainder.Scalar_Tensor", remainder},
    {"aten::bitwise_and.Tensor", bitwise<OpKind::kBitAnd, OpKind::kLogicalAnd>},
    {"aten::bitwise_and.Scalar", bitwise<OpKind::kBitAnd, OpKind::kLogicalAnd>},
    {"aten::bitwise_and.Scalar_Tensor", bitwise<OpKind::kBitAnd, OpKind::kLogicalAnd>},
    {"aten::bitwise_or.Tensor", bitwise<OpKind::kBitOr, OpKind::kLogicalOr>},
    {"aten::bitwise_or.Scalar", bitwise<OpKind::kBitOr, OpKind::kLogicalOr>},
    {"aten::bitwise_or.Scalar_Tensor", bitwise<OpKind::kBitOr, OpKind::kLogicalOr>},
    {"aten::bitwise_xor.Tensor", bitwise<OpKind::kBitXor, OpKind::kNotEqual>},
    {"aten::bitwise_xor.Scalar", bitwise<OpKind::kBitXor, OpKind::kNotEqual>},
    {"aten::bitwise_xor.Scalar_Tensor", bitwise<OpKind::kBitXor, OpKind::kNotEqual>},
    {"aten::bitwise_left_shift.Tensor", shift<OpKind::kShiftLeft>},
    {"aten::bitwise_left_shift.Tensor_Scalar", shift<OpKind::kShiftLeft>},
    {"aten::bitwise_left_shift.Scalar_Tensor", shift<OpKind::kShiftLeft>},
    {"aten::__lshift__.Tensor", shift<OpKind::kShiftLeft>},
    {"aten::__lshift__.Scalar", shift<OpKind::kShiftLeft>},
    {"aten::bitwise_right_shift.Tensor", shift<OpKind::kShiftRight>},
    {"aten::bitwise_right_shift.Tensor_Scalar", shift<OpKind::kShiftRight>},
    {"aten::bitwise_right_shift.Scalar_Tensor", shift<OpKind::kShiftRight>},
    {"aten::__rshift__.Tensor", shift<OpKind::kShiftRight>},
    {"aten::__rshift__.Scalar", shift<OpKind::kShiftRight>},
    {"aten::logical_xor", logical_xor, Complexity::kMagnitude},
    {"aten::maximum", extremum<OpKind::kMaximum>},
    {"aten::minimum", extremum<OpKind::kMinimum>},
    {"aten::fmax", extremum_of_numbers<OpKind::kMaximum>},
    {"aten::fmin", extremum_of_numbers<OpKind::kMinimum>},
    {"aten::atan2", floating<OpKind::kAtan2>},
    {"aten::copysign.Tensor", copysign},
    {"aten::copysign.Scalar", copysign},
    {"aten::hypot", hypot},
    {"aten::heaviside", heaviside},
    {"aten::logaddexp", log_add<OpKind::kExp, OpKind::kLog>},
    {"aten::logaddexp2", log_add<OpKind::kExp2, OpKind::kLog2>},
    {"aten::xlogy.Tensor", x_log_y<false>},
    {"aten::xlogy.Scalar_Other", x_log_y<false>},
    {"aten::xlogy.Scalar_Self", x_log_y<false>},
    {"aten::special_xlog1py", x_log_y<true>},
    {"aten::special_xlog1py.other_scalar", x_log_y<true>},
    {"aten::special_xlog1py.self_scalar", x_log_y<true>},
    {"aten::ldexp.Tensor", ldexp},
    {"aten::clamp.Tensor", clamp},
    {"aten::clamp_min.Tensor", clamp},
    {"aten::clamp_max.Tensor", clamp},
};

}  // namespace

std::span<const Entry> binary_entries() { return kEntries; }

}  // namespace crucible::aten
