// A concatenation (kConcat) of one list is its bytes, and the result's dtype may be another one: those bytes as
// elements of that dtype, the least significant byte of a number at the lowest address. x [n] -> [n * bytes of x's
// elements / bytes of the result's], written row-major; the result is not of bools, whose bytes are 0 and 1. No bit
// changes on the way, not even a NaN's, unless the attribute `index` is kNamesNans: then x is floating, and the bytes
// are those of x with each NaN as the canonical one (core/base/nan_bits.hpp). The lowering asks for that where
// arithmetic made x (computed_nans.hpp).
#pragma once

#include "core/graph/program.hpp"

namespace crucible::graph {

inline constexpr std::int64_t kNamesNans = 1;

inline bool is_bitcast(const Program& program, const Op& op) {
  if (op.kind != OpKind::kConcat || op.inputs.size() != 1 || op.inputs[0].is_scalar()) return false;
  return program.values[op.inputs[0].value].dtype != program.values[op.outputs[0].value].dtype;
}

/// Of a bitcast.
inline bool names_nans(const Op& op) { return op.attributes.index == kNamesNans; }

}  // namespace crucible::graph
