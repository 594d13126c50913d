// Lowering of element-wise ops: arithmetic, comparisons, choices, in place or not. Activations
// are in lower_activation.cpp.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

Term alpha_of(OpCall& c) { return c.has("alpha") ? c.operand("alpha") : Term::integer(1); }

void add(OpCall& c) { c.set(0, add_scaled(c.emit(), c.operand("self"), c.operand("other"), alpha_of(c))); }
void subtract(OpCall& c) { c.set(0, subtract_scaled(c.emit(), c.operand("self"), c.operand("other"), alpha_of(c))); }
void reverse_subtract(OpCall& c) {
  c.set(0, subtract_scaled(c.emit(), c.operand("other"), c.operand("self"), alpha_of(c)));
}
void multiply_op(OpCall& c) { c.set(0, multiply(c.emit(), c.operand("self"), c.operand("other"))); }
void divide_op(OpCall& c) { c.set(0, divide(c.emit(), c.operand("self"), c.operand("other"))); }

template <OpKind kind>
void unary(OpCall& c) {
  c.set(0, c.floating("self").unary(kind));
}

/// For kinds that integers have too.
template <OpKind kind>
void unary_any(OpCall& c) {
  c.set(0, c.wide("self").unary(kind));
}

template <OpKind kind>
void binary(OpCall& c) {
  Emitter& e = c.emit();
  const Expression a = c.operand("self"), b = c.operand("other");
  c.set(0, e.binary(kind, widened(e, rounded_like(e, a, b)), widened(e, rounded_like(e, b, a))));
}

template <OpKind kind>
void logic(OpCall& c) {
  c.set(0, c.emit().binary(kind, c.tensor("self"), c.operand("other")));
}

void power_op(OpCall& c) { c.set(0, power(c.emit(), c.operand("self"), c.operand("exponent"))); }

void clamp(OpCall& c) {
  Emitter& e = c.emit();
  Term x = c.wide("self");
  if (c.has("min")) x = e.binary(OpKind::kMaximum, x, c.operand("min"));
  if (c.has("max")) x = e.binary(OpKind::kMinimum, x, c.operand("max"));
  c.set(0, x);
}

void where(OpCall& c) { c.set(0, choose(c.tensor("condition"), c.operand("self"), c.operand("other"))); }

void masked_fill(OpCall& c) {
  Emitter& e = c.emit();
  const Expression self = c.tensor("self");
  Term value = c.operand("value");
  if (!value.is_number()) value = e.cast(value, self.dtype);
  Term result = choose(c.tensor("mask"), value, self);
  c.set(0, result);
}

void lerp(OpCall& c) { c.set(0, interpolate(c.emit(), c.tensor("self"), c.tensor("end"), c.operand("weight"))); }

void addcmul(OpCall& c) {
  c.set(0, add_product(c.emit(), c.tensor("self"), c.tensor("tensor1"), c.tensor("tensor2"), c.operand("value")));
}

void addcdiv(OpCall& c) {
  c.set(0, add_quotient(c.emit(), c.tensor("self"), c.tensor("tensor1"), c.tensor("tensor2"), c.operand("value")));
}

constexpr Entry kEntries[] = {
    {"aten::add.Tensor", add},
    {"aten::add.Scalar", add},
    {"aten::sub.Tensor", subtract},
    {"aten::sub.Scalar", subtract},
    {"aten::rsub.Tensor", reverse_subtract},
    {"aten::rsub.Scalar", reverse_subtract},
    {"aten::mul.Tensor", multiply_op},
    {"aten::mul.Scalar", multiply_op},
    {"aten::div.Tensor", divide_op},
    {"aten::div.Scalar", divide_op},
    {"aten::neg", unary_any<OpKind::kNegate>},
    {"aten::abs", unary_any<OpKind::kAbsolute>},
    {"aten::reciprocal", unary<OpKind::kReciprocal>},
    {"aten::sqrt", unary<OpKind::kSqrt>},
    {"aten::rsqrt", unary<OpKind::kReciprocalSqrt>},
    {"aten::exp", unary<OpKind::kExp>},
    {"aten::log", unary<OpKind::kLog>},
    {"aten::tanh", unary<OpKind::kTanh>},
    {"aten::erf", unary<OpKind::kErf>},
    {"aten::sigmoid", unary<OpKind::kSigmoid>},
    {"aten::sin", unary<OpKind::kSin>},
    {"aten::cos", unary<OpKind::kCos>},
    {"aten::isnan", unary_any<OpKind::kIsNan>, Complexity::kMagnitude},
    {"aten::logical_not", unary_any<OpKind::kLogicalNot>, Complexity::kMagnitude},
    {"aten::logical_and", logic<OpKind::kLogicalAnd>, Complexity::kMagnitude},
    {"aten::logical_or", logic<OpKind::kLogicalOr>, Complexity::kMagnitude},
    {"aten::lt.Tensor", binary<OpKind::kLess>},
    {"aten::lt.Scalar", binary<OpKind::kLess>},
    {"aten::le.Tensor", binary<OpKind::kLessEqual>},
    {"aten::le.Scalar", binary<OpKind::kLessEqual>},
    {"aten::gt.Tensor", binary<OpKind::kGreater>},
    {"aten::gt.Scalar", binary<OpKind::kGreater>},
    {"aten::ge.Tensor", binary<OpKind::kGreaterEqual>},
    {"aten::ge.Scalar", binary<OpKind::kGreaterEqual>},
    {"aten::eq.Tensor", binary<OpKind::kEqual>},
    {"aten::eq.Scalar", binary<OpKind::kEqual>},
    {"aten::ne.Tensor", binary<OpKind::kNotEqual>},
    {"aten::ne.Scalar", binary<OpKind::kNotEqual>},
    {"aten::pow.Tensor_Scalar", power_op},
    {"aten::pow.Tensor_Tensor", power_op},
    {"aten::pow.Scalar", power_op},
    {"aten::clamp", clamp},
    {"aten::clamp_min", clamp},
    {"aten::clamp_max", clamp},
    {"aten::where.self", where},
    {"aten::masked_fill.Scalar", masked_fill, Complexity::kParts},
    {"aten::masked_fill.Tensor", masked_fill, Complexity::kParts},
    {"aten::lerp.Scalar", lerp},
    {"aten::lerp.Tensor", lerp},
    {"aten::addcmul", addcmul},
    {"aten::addcdiv", addcdiv},
};

}  // namespace

std::span<const Entry> pointwise_entries() { return kEntries; }

}  // namespace crucible::aten
