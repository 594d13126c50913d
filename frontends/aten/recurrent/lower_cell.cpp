// Lowering of single recurrent cells whose gates come as arguments. Their workspaces are laid out as the framework's
// kernels do, and the gradients read them.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/recurrent/recurrent.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// The gates [n, gates h] plus their bias, as [n, gates, h].
Term gates_of(OpCall& c, CellKind kind, const char* name, const char* bias) {
  Emitter& e = c.emit();
  Term gates = c.wide(name);
  if (c.has(bias)) gates = gates + c.wide(bias);
  const std::int64_t count = gate_count(kind);
  return e.reshape(gates, {gates.size(0), count, gates.size(1) / count});
}

/// Parts [n, h] beside each other: [n, parts h].
Expression beside(Emitter& e, const std::vector<Term>& parts) { return e.concat(parts, 1); }

/// Part number `part` of [n, parts h].
Term part_of(const Term& all, std::int64_t part, std::int64_t parts) {
  const std::int64_t width = all.size(1) / parts;
  return slice(all, 1, part * width, width);
}

/// Workspace: the four gates after their functions.
void lstm_cell(OpCall& c) {
  Emitter& e = c.emit();
  const Term from_input = gates_of(c, CellKind::kLstm, "input_gates", "input_bias");
  const Term from_hidden = gates_of(c, CellKind::kLstm, "hidden_gates", "hidden_bias");
  const CellStep step = cell_step(e, CellKind::kLstm, from_input, from_hidden, {}, c.wide("cx"));
  c.set(0, step.h);
  c.set(1, step.c);
  c.set(2, beside(e, step.gates));
}

/// Results: gradients of the gates, of cx, and of the biases.
void lstm_cell_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression old = c.wide("cx"), workspace = c.wide("workspace");
  CellStep step;
  for (std::int64_t gate = 0; gate < 4; ++gate) step.gates.push_back(part_of(workspace, gate, 4));
  step.c = c.wide("cy");
  step.squashed = e.unary(OpKind::kTanh, step.c);
  const auto given = [&](const char* name) {
    return c.has(name) ? c.wide(name) : e.fill(Term::number(0), old.sizes(), old.dtype);
  };
  const CellGradients g = cell_step_backward(e, CellKind::kLstm, step, {}, old, given("grad_hy"), given("grad_cy"));
  const Expression rows = e.reshape(g.from_input, workspace.sizes());
  c.set(0, rows);
  c.set(1, g.c);
  if (c.wants(2)) c.set(2, e.drop(e.sum(rows, {0}), {0}));
}

/// Workspace: reset, update and new gate, the old state, and what it adds to the new gate.
void gru_cell(OpCall& c) {
  Emitter& e = c.emit();
  const Term from_input = gates_of(c, CellKind::kGru, "input_gates", "input_bias");
  const Term from_hidden = gates_of(c, CellKind::kGru, "hidden_gates", "hidden_bias");
  const Expression old = c.wide("hx");
  const CellStep step = cell_step(e, CellKind::kGru, from_input, from_hidden, old, {});
  c.set(0, step.h);
  c.set(1, beside(e, {step.gates[0], step.gates[1], step.gates[2], old, step.hidden_new}));
}

/// Results: gradients of input gates, hidden gates, hx and both biases.
void gru_cell_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression workspace = c.wide("workspace");
  CellStep step;
  for (std::int64_t gate = 0; gate < 3; ++gate) step.gates.push_back(part_of(workspace, gate, 5));
  const Term old = part_of(workspace, 3, 5);
  step.hidden_new = part_of(workspace, 4, 5);
  const CellGradients g = cell_step_backward(e, CellKind::kGru, step, old, {}, c.wide("grad_hy"), {});
  const Sizes sizes{old.size(0), 3 * old.size(1)};
  const Expression input_rows = e.reshape(g.from_input, sizes), hidden_rows = e.reshape(g.from_hidden, sizes);
  c.set(0, input_rows);
  c.set(1, hidden_rows);
  c.set(2, g.h);
  if (c.wants(3)) c.set(3, e.drop(e.sum(input_rows, {0}), {0}));
  if (c.wants(4)) c.set(4, e.drop(e.sum(hidden_rows, {0}), {0}));
}

constexpr Entry kEntries[] = {
    {"aten::_thnn_fused_lstm_cell", lstm_cell},
    {"aten::_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward},
    {"aten::_thnn_fused_gru_cell", gru_cell},
    {"aten::_thnn_fused_gru_cell_backward", gru_cell_backward},
};

}  // namespace

std::span<const Entry> cell_entries() { return kEntries; }

}  // namespace crucible::aten
