// Lowering of recurrent layers and cells by their formulas, step by step. What a layer reserves for its gradient is not
// looked at: the gradient computes the gates again, from the inputs and, where they were recorded, from the outputs.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/recurrent/recurrent.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

CellKind kind_of(OpCall& c) {
  const std::int64_t mode = c.integer("mode");
  if (mode < 0 || mode > 3) c.emit().fail(fmt::format("recurrent mode {} is not known: 0 to 3 are", mode));
  return static_cast<CellKind>(std::clamp<std::int64_t>(mode, 0, 3));
}

Expression zeros(Emitter& e, const Sizes& sizes, DType dtype) { return e.fill(Term::number(0), sizes, dtype); }

/// The argument with these sizes, zeros where it is missing.
Term given_or_zero(OpCall& c, const char* name, const Sizes& sizes, DType dtype) {
  Emitter& e = c.emit();
  return c.has(name) ? e.reshape(c.wide(name), sizes) : zeros(e, sizes, dtype);
}

/// Each step is so many ops. More of them than this nobody records; a sequence without elements may say it has any
/// number.
void expect_steps(Emitter& e, std::int64_t steps) {
  constexpr std::int64_t kMostSteps = 1 << 16;
  if (steps < 1 || steps > kMostSteps)
    e.fail(fmt::format("a sequence of {} steps: 1 to {} are supported", steps, kMostSteps));
}

/// oneDNN: one layer of an LSTM in one direction.
RecurrentLayer onednn_layer(OpCall& c, int first_weight, const char* cell_state) {
  Emitter& e = c.emit();
  const auto weight = [&](int i) { return c.wide(fmt::format("weight{}", first_weight + i)); };
  RecurrentLayer layer;
  layer.kind = kind_of(c);
  if (layer.kind != CellKind::kLstm) e.fail("oneDNN layers other than LSTM are not supported");
  layer.x = c.wide("input");
  layer.w_input = weight(0);
  layer.w_hidden = weight(1);
  layer.has_bias = c.boolean("has_biases");
  if (layer.has_bias) layer.b_input = weight(2), layer.b_hidden = weight(3);
  layer.reverse = c.boolean("reverse");
  const Sizes state{layer.batch(), layer.hidden()};
  layer.h = e.reshape(c.wide("hx_"), state);
  layer.c = e.reshape(c.wide(cell_state), state);
  expect_steps(e, layer.steps());
  return layer;
}

void onednn(OpCall& c) {
  Emitter& e = c.emit();
  const RecurrentLayer layer = onednn_layer(c, 0, "cx_");
  if (!e.failure().empty()) return;
  const LayerRun run = run_layer(e, layer);
  c.set(0, run.output);
  if (c.wants(1)) c.set(1, e.reshape(run.steps.back().h, c.result(1).sizes));
  if (c.wants(2)) c.set(2, e.reshape(run.steps.back().c, c.result(2).sizes));
}

/// Results: gradients of x, both weights, both biases, h and c.
void onednn_backward(OpCall& c) {
  Emitter& e = c.emit();
  const RecurrentLayer layer = onednn_layer(c, 1, "cx_tmp");
  if (!e.failure().empty()) return;
  const Sizes state{layer.batch(), layer.hidden()};
  const Expression output = c.wide("output");
  const LayerGradients g = layer_gradients(e, layer, rerun_layer(e, layer, output),
                                           given_or_zero(c, "grad_output", output.sizes(), layer.x.dtype),
                                           given_or_zero(c, "grad_hy", state, layer.x.dtype),
                                           given_or_zero(c, "grad_cy", state, layer.x.dtype));
  c.set(0, g.x);
  c.set(1, g.w_input);
  c.set(2, g.w_hidden);
  c.set(3, layer.has_bias ? g.b_input : Term::number(0));
  c.set(4, layer.has_bias ? g.b_hidden : Term::number(0));
  if (c.wants(5)) c.set(5, e.reshape(g.h, c.result(5).sizes));
  if (c.wants(6)) c.set(6, e.reshape(g.c, c.result(6).sizes));
}

/// cuDNN and MIOpen: all layers and directions; weights as a list of 4 (2 without biases) per layer and direction.
struct Stack {
  CellKind kind = CellKind::kLstm;
  std::int64_t layers = 1, directions = 1, per_layer = 4, hidden = 0;
  bool batch_first = false;
  Term x;                      // [steps, n, features]
  std::vector<Term> weights;
  Term h, c;                   // [layers directions, n, h]

  Term state(Emitter& e, const Term& all, std::int64_t index) const { return e.drop(slice(all, 0, index, 1), {0}); }
  RecurrentLayer layer(Emitter& e, const Term& input, std::int64_t index) const {
    RecurrentLayer layer;
    const auto first = static_cast<std::size_t>(index * per_layer);
    layer.kind = kind;
    layer.x = input;
    layer.reverse = index % directions == 1;
    layer.w_input = weights[first];
    layer.w_hidden = weights[first + 1];
    layer.has_bias = per_layer == 4;
    if (layer.has_bias) layer.b_input = weights[first + 2], layer.b_hidden = weights[first + 3];
    layer.h = state(e, h, index);
    if (kind == CellKind::kLstm) layer.c = state(e, c, index);
    return layer;
  }
};

Stack stack_of(OpCall& c) {
  Emitter& e = c.emit();
  Stack stack;
  stack.kind = kind_of(c);
  stack.layers = c.integer("num_layers");
  stack.directions = c.boolean("bidirectional") ? 2 : 1;
  stack.per_layer = c.integer("weight_stride0");
  stack.hidden = c.integer("hidden_size");
  stack.batch_first = c.boolean("batch_first");
  for (const Term& weight : c.tensors("weight")) stack.weights.push_back(widened(e, weight));
  stack.x = c.wide("input");
  if (stack.batch_first) stack.x = e.transpose(stack.x, 0, 1);
  if (c.boolean("train") && c.real("dropout") != 0) e.fail("recurrent layers with dropout are not supported");
  if (c.has("proj_size") && c.integer("proj_size") != 0) e.fail("recurrent layers with projections are not supported");
  if (!c.integers("batch_sizes").empty()) e.fail("recurrent layers of packed sequences are not supported");
  const auto weights = static_cast<std::int64_t>(stack.weights.size());
  const bool fits = (stack.per_layer == 2 || stack.per_layer == 4) && stack.layers >= 1 && stack.layers <= weights;
  if (!fits || weights != stack.layers * stack.directions * stack.per_layer || stack.x.rank() != 3) {
    e.fail("the weights of a recurrent layer are not as its sizes say");
    return stack;
  }
  expect_steps(e, stack.x.size(0));
  const Sizes sizes{stack.layers * stack.directions, stack.x.size(1), stack.hidden};
  stack.h = e.reshape(c.wide("hx"), sizes);
  if (stack.kind == CellKind::kLstm) stack.c = e.reshape(c.wide("cx"), sizes);
  return stack;
}

/// Runs of all layers and directions; each layer's output is the next one's input.
struct StackRun {
  std::vector<RecurrentLayer> layers;
  std::vector<LayerRun> runs;
  Term output;  // [steps, n, directions h]
};

StackRun run_stack(Emitter& e, const Stack& stack) {
  StackRun all;
  Term input = stack.x;
  for (std::int64_t layer = 0; layer < stack.layers; ++layer) {
    std::vector<Term> outputs;
    for (std::int64_t direction = 0; direction < stack.directions; ++direction) {
      all.layers.push_back(stack.layer(e, input, layer * stack.directions + direction));
      all.runs.push_back(run_layer(e, all.layers.back()));
      outputs.push_back(all.runs.back().output);
    }
    input = outputs.size() == 1 ? outputs.front() : e.concat(outputs, 2);
  }
  all.output = input;
  return all;
}

Expression stacked(Emitter& e, const std::vector<Term>& states) {
  std::vector<Term> rows;
  for (const Term& state : states) rows.push_back(e.unsqueeze(state, 0));
  return e.concat(rows, 0);
}

void stack_forward(OpCall& c) {
  Emitter& e = c.emit();
  const Stack stack = stack_of(c);
  if (!e.failure().empty()) return;
  const StackRun all = run_stack(e, stack);
  c.set(0, stack.batch_first ? e.transpose(all.output, 0, 1) : all.output);
  std::vector<Term> h, cells;
  for (const LayerRun& run : all.runs) h.push_back(run.steps.back().h), cells.push_back(run.steps.back().c);
  c.set(1, stacked(e, h));
  if (stack.kind == CellKind::kLstm) c.set(2, stacked(e, cells));
}

/// Results: gradients of x, h, c and of each weight.
void stack_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Stack stack = stack_of(c);
  if (!e.failure().empty()) return;
  const StackRun all = run_stack(e, stack);
  const bool lstm = stack.kind == CellKind::kLstm;
  Sizes shape = all.output.sizes();
  if (stack.batch_first) std::swap(shape[0], shape[1]);
  Term dy = given_or_zero(c, "grad_output", shape, stack.x.dtype);
  if (stack.batch_first) dy = e.transpose(dy, 0, 1);
  const Term dh = given_or_zero(c, "grad_hy", stack.h.sizes(), stack.x.dtype);
  const Term dc = lstm ? given_or_zero(c, "grad_cy", stack.h.sizes(), stack.x.dtype) : Term();
  std::vector<LayerGradients> gradients(all.layers.size());
  for (std::int64_t layer = stack.layers; layer-- > 0;) {
    Term dx;
    for (std::int64_t direction = 0; direction < stack.directions; ++direction) {
      const std::int64_t index = layer * stack.directions + direction;
      const auto i = static_cast<std::size_t>(index);
      const Term own = slice(dy, 2, direction * stack.hidden, stack.hidden);
      gradients[i] = layer_gradients(e, all.layers[i], all.runs[i], own, stack.state(e, dh, index),
                                     lstm ? stack.state(e, dc, index) : Term());
      dx = direction == 0 ? gradients[i].x : e.binary(OpKind::kAdd, dx, gradients[i].x);
    }
    dy = dx;
  }
  c.set(0, stack.batch_first ? e.transpose(dy, 0, 1) : dy);
  std::vector<Term> h, cells;
  std::size_t next = 3;
  for (const LayerGradients& g : gradients) {
    h.push_back(g.h), cells.push_back(g.c);
    c.set(next++, g.w_input);
    c.set(next++, g.w_hidden);
    if (stack.per_layer == 4) c.set(next++, g.b_input), c.set(next++, g.b_hidden);
  }
  c.set(1, stacked(e, h));
  if (lstm) c.set(2, stacked(e, cells));
}

constexpr Entry kEntries[] = {
    {"aten::mkldnn_rnn_layer", onednn},
    {"aten::mkldnn_rnn_layer_backward", onednn_backward},
    {"aten::_cudnn_rnn", stack_forward},
    {"aten::_cudnn_rnn_backward", stack_backward},
    {"aten::miopen_rnn", stack_forward},
    {"aten::miopen_rnn_backward", stack_backward},
};

}  // namespace

std::span<const Entry> recurrent_entries() { return kEntries; }

}  // namespace crucible::aten
