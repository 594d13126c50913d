// Cells and layers: see recurrent.hpp.
#include "frontends/aten/recurrent/recurrent.hpp"

#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {

using graph::OpKind;

namespace {

Expression add(Emitter& e, const Term& a, const Term& b) { return e.binary(OpKind::kAdd, a, b); }
Expression subtract(Emitter& e, const Term& a, const Term& b) { return e.binary(OpKind::kSubtract, a, b); }

/// Gate number `gate` of [n, gates, h]: [n, h].
Expression gate_of(Emitter& e, const Term& gates, std::int64_t gate) { return e.drop(slice(gates, 1, gate, 1), {1}); }

/// [n, gates, h] from its gates.
Term joined_gates(Emitter& e, const std::vector<Term>& gates) {
  std::vector<Term> rows;
  for (const Term& gate : gates) rows.push_back(e.unsqueeze(gate, 1));
  return rows.size() == 1 ? rows.front() : e.concat(rows, 1);
}

/// Slopes of the sigmoid and of tanh by their results: y (1 - y) and 1 - y^2.
Expression sigmoid_slope(Emitter& e, const Term& y) { return multiply(e, y, subtract(e, Term::number(1), y)); }
Expression tanh_slope(Emitter& e, const Term& y) { return subtract(e, Term::number(1), multiply(e, y, y)); }

CellStep lstm_step(Emitter& e, const Term& from_input, const Term& from_hidden, const Term& c) {
  const Expression all = add(e, from_input, from_hidden);
  CellStep step;
  for (std::int64_t gate = 0; gate < 4; ++gate) {
    step.gates.push_back(e.unary(gate == 2 ? OpKind::kTanh : OpKind::kSigmoid, gate_of(e, all, gate)));
  }
  step.c = add(e, multiply(e, step.gates[1], c), multiply(e, step.gates[0], step.gates[2]));
  step.squashed = e.unary(OpKind::kTanh, step.c);
  step.h = multiply(e, step.gates[3], step.squashed);
  return step;
}

CellStep gru_step(Emitter& e, const Term& from_input, const Term& from_hidden, const Term& h) {
  CellStep step;
  for (std::int64_t gate = 0; gate < 2; ++gate) {
    step.gates.push_back(
        e.unary(OpKind::kSigmoid, add(e, gate_of(e, from_input, gate), gate_of(e, from_hidden, gate))));
  }
  step.hidden_new = gate_of(e, from_hidden, 2);
  const Expression reset = multiply(e, step.gates[0], step.hidden_new);
  step.gates.push_back(e.unary(OpKind::kTanh, add(e, gate_of(e, from_input, 2), reset)));
  step.h = add(e, step.gates[2], multiply(e, step.gates[1], subtract(e, h, step.gates[2])));
  return step;
}

}  // namespace

std::int64_t gate_count(CellKind kind) { return kind == CellKind::kLstm ? 4 : kind == CellKind::kGru ? 3 : 1; }

CellStep cell_step(Emitter& e, CellKind kind, const Term& from_input, const Term& from_hidden, const Term& h,
                   const Term& c) {
  if (kind == CellKind::kLstm) return lstm_step(e, from_input, from_hidden, c);
  if (kind == CellKind::kGru) return gru_step(e, from_input, from_hidden, h);
  const Expression sum = e.drop(add(e, from_input, from_hidden), {1});
  CellStep step;
  step.h = kind == CellKind::kTanh ? e.unary(OpKind::kTanh, sum) : e.binary(OpKind::kMaximum, sum, Term::number(0));
  step.gates = {step.h};
  return step;
}

CellGradients cell_step_backward(Emitter& e, CellKind kind, const CellStep& step, const Term& h, const Term& c,
                                 const Term& dh, const Term& dc) {
  CellGradients result;
  const auto& g = step.gates;
  if (kind == CellKind::kLstm) {
    const Expression total = add(e, dc, multiply(e, multiply(e, dh, g[3]), tanh_slope(e, step.squashed)));
    result.from_input = joined_gates(e, {multiply(e, multiply(e, total, g[2]), sigmoid_slope(e, g[0])),
                                         multiply(e, multiply(e, total, c), sigmoid_slope(e, g[1])),
                                         multiply(e, multiply(e, total, g[0]), tanh_slope(e, g[2])),
                                         multiply(e, multiply(e, dh, step.squashed), sigmoid_slope(e, g[3]))});
    result.from_hidden = result.from_input;
    result.c = multiply(e, total, g[1]);
    return result;
  }
  if (kind == CellKind::kGru) {
    const Expression update = multiply(e, multiply(e, dh, subtract(e, h, g[2])), sigmoid_slope(e, g[1]));
    const Expression fresh = multiply(e, multiply(e, dh, subtract(e, Term::number(1), g[1])), tanh_slope(e, g[2]));
    const Expression reset = multiply(e, multiply(e, fresh, step.hidden_new), sigmoid_slope(e, g[0]));
    result.from_input = joined_gates(e, {reset, update, fresh});
    result.from_hidden = joined_gates(e, {reset, update, multiply(e, fresh, g[0])});
    result.h = multiply(e, dh, g[1]);
    return result;
  }
  const Expression slope = kind == CellKind::kTanh
                               ? tanh_slope(e, step.h)
                               : e.cast(e.binary(OpKind::kGreater, step.h, Term::number(0)), step.h.dtype);
  result.from_input = joined_gates(e, {multiply(e, dh, slope)});
  result.from_hidden = result.from_input;
  return result;
}

namespace {

/// rows [..., k] w^T + b, as [rows, gates, h].
Expression gates_from(Emitter& e, const RecurrentLayer& layer, const Term& rows, const Term& w, const Term& b) {
  const std::int64_t k = w.size(1), gates = gate_count(layer.kind), h = layer.hidden();
  const std::int64_t count = k == 0 ? 0 : rows.elements() / k;
  const Expression product = e.reshape(e.matmul(e.reshape(rows, {count, k}), e.transpose(w, 0, 1)), {count, gates, h});
  return layer.has_bias ? add(e, product, e.reshape(b, {gates, h})) : product;
}

Term rows_of_step(const RecurrentLayer& layer, const Term& gates, std::int64_t step) {
  return slice(gates, 0, layer.at(step) * layer.batch(), layer.batch());
}

/// One piece per step, joined in the order of x.
Term joined_steps(Emitter& e, const RecurrentLayer& layer, std::vector<Term> pieces) {
  if (layer.reverse) std::reverse(pieces.begin(), pieces.end());
  return pieces.size() == 1 ? pieces.front() : e.concat(pieces, 0);
}

/// The hidden state before each step, in the order of x: [steps, n, h].
Expression states_before(Emitter& e, const RecurrentLayer& layer, const Term& output) {
  const Expression first = e.unsqueeze(layer.h, 0);
  if (layer.steps() == 1) return first;
  const Term others = slice(output, 0, layer.reverse ? 1 : 0, layer.steps() - 1);
  return layer.reverse ? e.concat({others, first}, 0) : e.concat({first, others}, 0);
}

}  // namespace

LayerRun run_layer(Emitter& e, const RecurrentLayer& layer) {
  const Expression from_input = gates_from(e, layer, layer.x, layer.w_input, layer.b_input);
  LayerRun run;
  std::vector<Term> outputs;
  Term h = layer.h, c = layer.c;
  for (std::int64_t i = 0; i < layer.steps(); ++i) {
    const Expression from_hidden = gates_from(e, layer, h, layer.w_hidden, layer.b_hidden);
    run.steps.push_back(cell_step(e, layer.kind, rows_of_step(layer, from_input, i), from_hidden, h, c));
    h = run.steps.back().h;
    c = run.steps.back().c;
    outputs.push_back(e.unsqueeze(h, 0));
  }
  run.output = joined_steps(e, layer, std::move(outputs));
  return run;
}

LayerRun rerun_layer(Emitter& e, const RecurrentLayer& layer, const Term& output) {
  const Expression from_input = gates_from(e, layer, layer.x, layer.w_input, layer.b_input);
  const Expression before = states_before(e, layer, output);
  const Expression from_hidden = gates_from(e, layer, before, layer.w_hidden, layer.b_hidden);
  LayerRun run{{}, output};
  Term c = layer.c;
  for (std::int64_t i = 0; i < layer.steps(); ++i) {
    const Expression h = e.drop(slice(before, 0, layer.at(i), 1), {0});
    run.steps.push_back(cell_step(e, layer.kind, rows_of_step(layer, from_input, i),
                                  rows_of_step(layer, from_hidden, i), h, c));
    c = run.steps.back().c;
  }
  return run;
}

LayerGradients layer_gradients(Emitter& e, const RecurrentLayer& layer, const LayerRun& run, const Term& dy,
                               const Term& dh_last, const Term& dc_last) {
  const std::int64_t steps = layer.steps(), n = layer.batch(), width = gate_count(layer.kind) * layer.hidden();
  const Expression before = states_before(e, layer, run.output);
  Term dh = dh_last, dc = dc_last;
  std::vector<Term> from_input(static_cast<std::size_t>(steps)), from_hidden = from_input;
  for (std::int64_t i = steps; i-- > 0;) {
    const auto s = static_cast<std::size_t>(i);
    const auto row = [&](const Term& all) { return e.drop(slice(all, 0, layer.at(i), 1), {0}); };
    dh = add(e, dh, row(dy));
    const Term& c = i == 0 ? layer.c : run.steps[s - 1].c;
    const CellGradients gradients = cell_step_backward(e, layer.kind, run.steps[s], row(before), c, dh, dc);
    from_input[s] = gradients.from_input;
    from_hidden[s] = gradients.from_hidden;
    dc = gradients.c;
    const Expression through = e.matmul(e.reshape(gradients.from_hidden, {n, width}), layer.w_hidden);
    dh = layer.kind == CellKind::kGru ? add(e, through, gradients.h) : through;
  }
  const bool same = layer.kind != CellKind::kGru;
  const Expression input_rows = e.reshape(joined_steps(e, layer, std::move(from_input)), {steps * n, width});
  const Expression hidden_rows =
      same ? input_rows : e.reshape(joined_steps(e, layer, std::move(from_hidden)), {steps * n, width});
  LayerGradients result;
  result.x = e.reshape(e.matmul(input_rows, layer.w_input), layer.x.sizes());
  const auto weight = [&](const Term& rows, const Term& x) {
    return e.matmul(e.transpose(rows, 0, 1), e.reshape(x, {steps * n, x.size(-1)}));
  };
  result.w_input = weight(input_rows, layer.x);
  result.w_hidden = weight(hidden_rows, before);
  if (layer.has_bias) {
    result.b_input = e.drop(e.sum(input_rows, {0}), {0});
    result.b_hidden = same ? result.b_input : e.drop(e.sum(hidden_rows, {0}), {0});
  }
  result.h = dh;
  result.c = dc;
  return result;
}

}  // namespace crucible::aten
