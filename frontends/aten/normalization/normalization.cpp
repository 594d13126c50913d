// Formulas of normalising ops: see normalization.hpp.
#include "frontends/aten/normalization/normalization.hpp"

#include "frontends/aten/algebra/formulas.hpp"

namespace crucible::aten {

using graph::OpKind;

Term inverse_deviation(Emitter& e, const Term& variance, double epsilon) {
  return e.unary(OpKind::kReciprocalSqrt, e.binary(OpKind::kAdd, variance, Term::number(epsilon)));
}

Term normalized(Emitter& e, const Term& x, const Term& mean, const Term& scale) {
  return multiply(e, e.binary(OpKind::kSubtract, x, mean), scale);
}

Term scaled_and_shifted(OpCall& c, Term x, const Sizes* shape) {
  Emitter& e = c.emit();
  for (const char* name : {"weight", "bias"}) {
    if (!c.has(name)) continue;
    Term row = widened(e, c.tensor(name));
    if (shape) row = e.reshape(row, *shape);
    x = e.binary(name[0] == 'w' ? OpKind::kMultiply : OpKind::kAdd, x, row);
  }
  return x;
}

Term normalization_backward(Emitter& e, const Term& g, const Term& h, const Term& scale, const Dims& dims) {
  const Term left = e.binary(OpKind::kSubtract, g, e.mean(g, dims));
  const Term right = multiply(e, h, e.mean(multiply(e, g, h), dims));
  return multiply(e, e.binary(OpKind::kSubtract, left, right), scale);
}

}  // namespace crucible::aten
