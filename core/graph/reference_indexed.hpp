// Reads and writes at places that data decides, of the reference interpreter.
#pragma once

#include "core/graph/program.hpp"
#include "core/graph/reference_numbers.hpp"

namespace crucible::graph {

/// The element of `x` at each index, 0 where the index is outside.
Numbers reference_take(const Numbers& x, const Numbers& index);

/// `base` with `source` put at `index`, in order; `kind` says how, `dtype` is what each result is rounded to. Indices
/// outside are skipped.
Numbers reference_put(OpKind kind, DType dtype, Numbers base, const Numbers& index, const Numbers& source);

}  // namespace crucible::graph
