// A concatenation (kConcat) of one list is its bytes, and the result's dtype may be another one: those bytes as elements of that dtype, the
// least significant byte of a number at the lowest address. x [n] -> [n * bytes of x's elements / bytes of the result's], written row-major;
// the result is not of bools, whose bytes are 0 and 1. No bit changes on the way, not even a NaN's.
#pragma once

#include "core/graph/program.hpp"

namespace crucible::graph {

inline bool is_bitcast(const Program& program, const Op& op) {
  if (op.kind != OpKind::kConcat || op.inputs.size() != 1 || op.inputs[0].is_scalar()) return false;
  return program.values[op.inputs[0].value].dtype != program.values[op.outputs[0].value].dtype;
}

}  // namespace crucible::graph
