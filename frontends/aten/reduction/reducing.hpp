// What lowerings of reductions share: the argument `dim`, kept dimensions, extrema, running totals, sorting, slices.
#pragma once

#include <vector>

#include "frontends/aten/call/op_call.hpp"

namespace crucible::aten {

using Dims = std::vector<std::int64_t>;

Dims all_dims(const Term& x);
/// The argument `dim`: a list, a number, or all dimensions where it is missing or empty.
Dims dims_of(OpCall& c, const Term& x);
/// True when the op has an argument `keepdim` that is true.
bool keeps_dims(OpCall& c);
/// Without the reduced dimensions unless the op keeps them.
Term kept_or_dropped(OpCall& c, const Term& reduced, const Dims& dims);
/// Number of elements that are reduced to one; dimensions of a 0-dim tensor count as 1.
std::int64_t reduced_elements(const Term& x, const Dims& dims);

/// Minimum, maximum or product over `dims`, which stay with size 1; in x's dtype.
Expression reduced(Emitter& e, graph::OpKind kind, const Term& x, const Dims& dims);
/// True where all (any) elements over `dims` are not zero; also for no elements.
Expression all_of(Emitter& e, const Term& x, const Dims& dims);
Expression any_of(Emitter& e, const Term& x, const Dims& dims);

/// Values and where they stood.
struct Placed {
  Term values, index;
};

// Along one dimension; a 0-dim tensor is a line of one element.
Term place_of_extremum(Emitter& e, graph::OpKind kind, const Term& x, std::int64_t dim);  // the dim stays with size 1
Term running_total(Emitter& e, graph::OpKind kind, const Term& x, std::int64_t dim);
Placed running_extremum(Emitter& e, graph::OpKind kind, const Term& x, std::int64_t dim);
Placed sorted(Emitter& e, const Term& x, std::int64_t dim, bool descending);

/// Elements [start, start + length) of a dimension: a view.
Term slice(const Term& x, std::int64_t dim, std::int64_t start, std::int64_t length);
/// The element of each line at `place` (i64, the dim with size 1); the dim stays with size 1.
Term at_place(Emitter& e, const Term& x, const Term& place, std::int64_t dim);

/// -1, 0 or 1; of NaN 0.
Expression sign_of(Emitter& e, const Term& x);

}  // namespace crucible::aten
