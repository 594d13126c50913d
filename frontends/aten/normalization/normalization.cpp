// Formulas of normalising ops: see normalization.hpp.
#include "frontends/aten/normalization/normalization.hpp"

#include "frontends/aten/algebra/algebra.hpp"

namespace crucible::aten {

using graph::OpKind;

Term inverse_deviation(Emitter& e, const Term& variance, double epsilon) {
  return e.binary(OpKind::kAdd, variance, Term::number(epsilon)).unary(OpKind::kReciprocalSqrt);
}

Expression normalized(Emitter& e, const Term& x, const Term& mean, const Term& scale) {
  return multiply(e, e.binary(OpKind::kSubtract, x, mean), scale);
}

Term scaled_and_shifted(OpCall& c, Term x, const Sizes* shape) {
  Emitter& e = c.emit();
  for (const char* name : {"weight", "bias"}) {
    if (!c.has(name)) continue;
    Term row = c.wide(name);
    if (shape) row = e.reshape(row, *shape);
    x = e.binary(name[0] == 'w' ? OpKind::kMultiply : OpKind::kAdd, x, row);
  }
  return x;
}

Expression normalization_backward(Emitter& e, const Term& g, const Term& h, const Term& scale, const Dims& dims) {
  const Expression left = g - e.mean(g, dims);
  const Expression right = multiply(e, h, e.mean(multiply(e, g, h), dims));
  return multiply(e, left - right, scale);
}

}  // namespace crucible::aten
