// The formulas of recurrent cells: from gates to states and back. Gates stand beside each other as rows [n, k, h] in the
// framework's order: input, forget, cell, output (LSTM).
#pragma once

#include <vector>

#include "frontends/aten/emitter.hpp"

namespace crucible::aten {

/// Gate number `gate` of `gates` [n, k, h]: [n, h].
Term gate_of(Emitter& e, const Term& gates, std::int64_t gate);

struct LstmStep {
  Term input, forget, cell, output;  // after their functions
  Term squashed;                     // tanh of the new cell state
  Term c, h;
};

/// `gates` [n, 4, h] before their functions, the cell state [n, h].
LstmStep lstm_step(Emitter& e, const Term& gates, const Term& c);

struct LstmGradients {
  Term gates;  // [n, 4, h], with respect to the gates before their functions
  Term c;      // with respect to the old cell state
};

/// `dh` and `dc` are the gradients of the step's h and c, `c` is the old cell state.
LstmGradients lstm_step_backward(Emitter& e, const LstmStep& step, const Term& c, const Term& dh, const Term& dc);

}  // namespace crucible::aten
