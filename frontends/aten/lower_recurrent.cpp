// Lowering of recurrent layers by their cells' formulas, step by step. What a layer reserves for its gradient is not
// looked at: the gradient computes the gates again, all at once, from the inputs and the recorded outputs.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/aten/formulas.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/recurrent.hpp"
#include "frontends/aten/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr std::int64_t kLstm = 2;

/// One layer in one direction; x is [steps, n, features], weights are [4 h, ...].
struct Layer {
  Term x, w_input, w_hidden, h, c;
  Term bias;  // [4 h], the sum of both
  bool has_bias = false, reverse = false;
  std::int64_t steps() const { return x.size(0); }
  std::int64_t batch() const { return x.size(1); }
  std::int64_t hidden() const { return w_hidden.size(1); }
  /// The place in x of step `i`.
  std::int64_t at(std::int64_t i) const { return reverse ? steps() - 1 - i : i; }
};

bool read_layer(OpCall& c, Layer& layer, int first_weight) {
  Emitter& e = c.emit();
  const auto weight = [&](int i) { return widened(e, c.tensor(fmt::format("weight{}", first_weight + i))); };
  if (c.integer("mode") != kLstm) {
    e.fail("this kind of recurrent layer is not supported: LSTM is");
    return false;
  }
  layer.x = widened(e, c.tensor("input"));
  layer.w_input = weight(0);
  layer.w_hidden = weight(1);
  layer.has_bias = c.boolean("has_biases");
  if (layer.has_bias) layer.bias = e.binary(OpKind::kAdd, weight(2), weight(3));
  layer.reverse = c.boolean("reverse");
  layer.h = widened(e, c.tensor("hx_"));
  layer.c = widened(e, c.tensor(first_weight == 0 ? "cx_" : "cx_tmp"));
  const Sizes state{layer.batch(), layer.hidden()};
  layer.h = e.reshape(layer.h, state);
  layer.c = e.reshape(layer.c, state);
  return true;
}

/// rows [..., k] w^T, as [rows, 4, h].
Term product(Emitter& e, const Term& rows, const Term& w) {
  const std::int64_t k = rows.size(-1), count = rows.elements() / std::max<std::int64_t>(1, k);
  return e.reshape(e.matmul(e.reshape(rows, {count, k}), e.transpose(w, 0, 1)), {count, 4, w.size(0) / 4});
}

/// What the inputs and the biases add to the gates of all steps: [steps n, 4, h].
Term input_gates(Emitter& e, const Layer& layer) {
  const Term gates = product(e, layer.x, layer.w_input);
  return layer.has_bias ? e.binary(OpKind::kAdd, gates, e.reshape(layer.bias, {4, layer.hidden()})) : gates;
}

Term rows_of_step(const Layer& layer, const Term& gates, std::int64_t step) {
  return slice(gates, 0, layer.at(step) * layer.batch(), layer.batch());
}

/// Pieces in the order of steps, joined in the order of x.
Term joined(Emitter& e, const Layer& layer, std::vector<Term> pieces) {
  if (layer.reverse) std::reverse(pieces.begin(), pieces.end());
  return e.concat(pieces, 0);
}

void layer_forward(OpCall& c) {
  Emitter& e = c.emit();
  Layer layer;
  if (!read_layer(c, layer, 0)) return;
  const Term from_input = input_gates(e, layer);
  Term h = layer.h, cell = layer.c;
  std::vector<Term> outputs;
  for (std::int64_t i = 0; i < layer.steps(); ++i) {
    const Term gates =
        e.binary(OpKind::kAdd, rows_of_step(layer, from_input, i), product(e, h, layer.w_hidden));
    const LstmStep step = lstm_step(e, gates, cell);
    h = step.h;
    cell = step.c;
    outputs.push_back(e.unsqueeze(h, 0));
  }
  c.set(0, joined(e, layer, std::move(outputs)));
  if (c.wants(1)) c.set(1, e.reshape(h, c.result(1).sizes));
  if (c.wants(2)) c.set(2, e.reshape(cell, c.result(2).sizes));
}

/// A gradient that may be missing, as [n, h].
Term given_or_zero(OpCall& c, const char* name, const Layer& layer) {
  const Sizes state{layer.batch(), layer.hidden()};
  if (!c.has(name)) return c.emit().fill(Term::number(0), state, layer.x.dtype);
  return c.emit().reshape(widened(c.emit(), c.tensor(name)), state);
}

/// Results: gradients of x, both weights, both biases (equal), h and c.
void layer_backward(OpCall& c) {
  Emitter& e = c.emit();
  Layer layer;
  if (!read_layer(c, layer, 1)) return;
  const std::int64_t steps = layer.steps(), n = layer.batch(), hidden = layer.hidden();
  const Term output = widened(e, c.tensor("output"));
  // The hidden state before each step: the first one, then the outputs but the last.
  const Term before = steps == 1 ? e.unsqueeze(layer.h, 0)
                      : layer.reverse
                          ? e.concat({slice(output, 0, 1, steps - 1), e.unsqueeze(layer.h, 0)}, 0)
                          : e.concat({e.unsqueeze(layer.h, 0), slice(output, 0, 0, steps - 1)}, 0);
  const Term gates = e.binary(OpKind::kAdd, input_gates(e, layer), product(e, before, layer.w_hidden));
  std::vector<LstmStep> forward;
  std::vector<Term> cells{layer.c};
  for (std::int64_t i = 0; i < steps; ++i) {
    forward.push_back(lstm_step(e, rows_of_step(layer, gates, i), cells.back()));
    cells.push_back(forward.back().c);
  }
  Term dh = given_or_zero(c, "grad_hy", layer), dc = given_or_zero(c, "grad_cy", layer);
  std::vector<Term> gate_gradients(static_cast<std::size_t>(steps));
  for (std::int64_t i = steps; i-- > 0;) {
    const auto s = static_cast<std::size_t>(i);
    if (c.has("grad_output")) {
      const Term own = e.drop(slice(widened(e, c.tensor("grad_output")), 0, layer.at(i), 1), {0});
      dh = e.binary(OpKind::kAdd, dh, own);
    }
    const LstmGradients gradients = lstm_step_backward(e, forward[s], cells[s], dh, dc);
    gate_gradients[s] = gradients.gates;
    dc = gradients.c;
    dh = e.matmul(e.reshape(gradients.gates, {n, 4 * hidden}), layer.w_hidden);
  }
  const Term all = e.reshape(joined(e, layer, std::move(gate_gradients)), {steps * n, 4 * hidden});
  const Term turned = e.transpose(all, 0, 1);
  c.set(0, e.reshape(e.matmul(all, layer.w_input), layer.x.sizes()));
  c.set(1, e.matmul(turned, e.reshape(layer.x, {steps * n, layer.x.size(2)})));
  c.set(2, e.matmul(turned, e.reshape(before, {steps * n, hidden})));
  if (layer.has_bias) {
    const Term bias = e.drop(e.sum(all, {0}), {0});
    c.set(3, bias);
    c.set(4, bias);
  } else {
    for (std::size_t k : {3, 4}) {
      if (c.wants(k)) c.set(k, Term::number(0));
    }
  }
  if (c.wants(5)) c.set(5, e.reshape(dh, c.result(5).sizes));
  if (c.wants(6)) c.set(6, e.reshape(dc, c.result(6).sizes));
}

constexpr Entry kEntries[] = {
    {"aten::mkldnn_rnn_layer", layer_forward},
    {"aten::mkldnn_rnn_layer_backward", layer_backward},
};

}  // namespace

std::span<const Entry> recurrent_entries() { return kEntries; }

}  // namespace crucible::aten
