// The formulas of recurrent cells and layers: from gates to states and back. Gates stand beside each other as rows
// [n, gates, h] in the framework's order: input, forget, cell, output (LSTM); reset, update, new (GRU).
#pragma once

#include <vector>

#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {

/// The numbers that the framework gives them.
enum class CellKind : std::uint8_t { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };

std::int64_t gate_count(CellKind kind);

/// One step of a cell, with what its gradient needs.
struct CellStep {
  std::vector<Term> gates;  // after their functions, each [n, h]
  Term hidden_new;          // GRU: what the hidden state adds to the new gate, before the reset gate [n, h]
  Term squashed;            // LSTM: tanh of the new cell state
  Term h, c;                // the new states; c of an LSTM alone
};

/// `from_input` and `from_hidden` [n, gates, h] are what input and hidden state (with their biases) add to the gates.
CellStep cell_step(Emitter& e, CellKind kind, const Term& from_input, const Term& from_hidden, const Term& h,
                   const Term& c);

struct CellGradients {
  Term from_input, from_hidden;  // [n, gates, h]
  Term h;                        // of the old hidden state where the cell reads it besides the gates; GRU alone
  Term c;                        // of the old cell state; LSTM alone
};

/// `dh` and `dc` (LSTM alone) are the gradients of the step's states, `h` and `c` the old ones.
CellGradients cell_step_backward(Emitter& e, CellKind kind, const CellStep& step, const Term& h, const Term& c,
                                 const Term& dh, const Term& dc);

/// One layer in one direction; x is [steps, n, features], the weights are [gates h, features] and [gates h, h], biases
/// [gates h], states [n, h].
struct RecurrentLayer {
  CellKind kind = CellKind::kLstm;
  bool has_bias = false, reverse = false;
  Term x, w_input, w_hidden, b_input, b_hidden, h, c;

  std::int64_t steps() const { return x.size(0); }
  std::int64_t batch() const { return x.size(1); }
  std::int64_t hidden() const { return w_hidden.size(1); }
  /// The place in x of step `i`.
  std::int64_t at(std::int64_t i) const { return reverse ? steps() - 1 - i : i; }
};

struct LayerRun {
  std::vector<CellStep> steps;  // in the order of computation
  Term output;                  // [steps, n, h], in the order of x
};

LayerRun run_layer(Emitter& e, const RecurrentLayer& layer);
/// The same from known outputs: what the hidden states add to the gates is then one product.
LayerRun rerun_layer(Emitter& e, const RecurrentLayer& layer, const Term& output);

struct LayerGradients {
  Term x, w_input, w_hidden, b_input, b_hidden, h, c;  // c of an LSTM alone
};

/// `dy` [steps, n, h], `dh` and `dc` [n, h] (dc for an LSTM alone) are the gradients of outputs and last states.
LayerGradients layer_gradients(Emitter& e, const RecurrentLayer& layer, const LayerRun& run, const Term& dy,
                               const Term& dh, const Term& dc);

}  // namespace crucible::aten
