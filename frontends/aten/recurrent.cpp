// Cells of recurrent layers: see recurrent.hpp.
#include "frontends/aten/recurrent.hpp"

#include "frontends/aten/formulas.hpp"
#include "frontends/aten/reducing.hpp"

namespace crucible::aten {

using graph::OpKind;

Term gate_of(Emitter& e, const Term& gates, std::int64_t gate) { return e.drop(slice(gates, 1, gate, 1), {1}); }

LstmStep lstm_step(Emitter& e, const Term& gates, const Term& c) {
  LstmStep step;
  step.input = e.unary(OpKind::kSigmoid, gate_of(e, gates, 0));
  step.forget = e.unary(OpKind::kSigmoid, gate_of(e, gates, 1));
  step.cell = e.unary(OpKind::kTanh, gate_of(e, gates, 2));
  step.output = e.unary(OpKind::kSigmoid, gate_of(e, gates, 3));
  step.c = e.binary(OpKind::kAdd, multiply(e, step.forget, c), multiply(e, step.input, step.cell));
  step.squashed = e.unary(OpKind::kTanh, step.c);
  step.h = multiply(e, step.output, step.squashed);
  return step;
}

namespace {

/// x (1 - x) and 1 - x^2: the slopes of the sigmoid and of tanh by their results.
Term sigmoid_slope(Emitter& e, const Term& y) {
  return multiply(e, y, e.binary(OpKind::kSubtract, Term::number(1), y));
}
Term tanh_slope(Emitter& e, const Term& y) { return e.binary(OpKind::kSubtract, Term::number(1), multiply(e, y, y)); }

}  // namespace

LstmGradients lstm_step_backward(Emitter& e, const LstmStep& step, const Term& c, const Term& dh, const Term& dc) {
  const Term through = multiply(e, multiply(e, dh, step.output), tanh_slope(e, step.squashed));
  const Term total = e.binary(OpKind::kAdd, dc, through);
  const Term gates[] = {multiply(e, multiply(e, total, step.cell), sigmoid_slope(e, step.input)),
                        multiply(e, multiply(e, total, c), sigmoid_slope(e, step.forget)),
                        multiply(e, multiply(e, total, step.input), tanh_slope(e, step.cell)),
                        multiply(e, multiply(e, dh, step.squashed), sigmoid_slope(e, step.output))};
  std::vector<Term> rows;
  for (const Term& gate : gates) rows.push_back(e.unsqueeze(gate, 1));
  return {e.concat(rows, 1), multiply(e, total, step.forget)};
}

}  // namespace crucible::aten
