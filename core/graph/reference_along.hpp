// Ops along one dimension of the reference interpreter: places of extrema, running sums and extrema, sorting. Written
// for clarity: each line of elements is handled by itself.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/program.hpp"
#include "core/graph/reference_numbers.hpp"

namespace crucible::graph {

/// Dense row-major arrays; `values` is empty for kArgMax and kArgMin, whose index has one element per line.
struct AlongResult {
  Numbers values;
  Numbers index;
};

/// `x` has these sizes, row-major. Kinds: kArgMax to kSortDescending.
AlongResult reference_along(OpKind kind, const Numbers& x, const std::vector<std::int64_t>& sizes, std::int64_t dim);

}  // namespace crucible::graph
