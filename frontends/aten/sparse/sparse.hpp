// Sparse tensors in lowering functions: the places of the elements that are kept, and what stands there. A program
// knows neither sparse tensors nor their sizes: the parts are tensors like others, as many places as were recorded.
#pragma once

#include "frontends/aten/call/op_call.hpp"

namespace crucible::aten {

/// `indices` is [sparse dimensions, n], `values` [n, the other dimensions ...]; several may name one place, which has
/// their sum.
struct Sparse {
  Term indices, values;
  Sizes sizes = {};  // of the whole

  std::int64_t count() const { return indices.size(1); }
  /// How many rows of values the whole would have, and the elements of one.
  Sizes rows() const { return {sizes.begin(), sizes.begin() + indices.size(0)}; }
  std::int64_t width() const {
    return graph::View::contiguous({sizes.begin() + indices.size(0), sizes.end()}).elements();
  }
};

/// The places [2, n] of a matrix whose rows (or columns) lie one after the other: `begins` says where each does,
/// `across` the column (row) of each element.
Expression listed_places(Emitter& e, const Term& begins, const Term& across, bool by_columns);
/// Where each of `count` rows begins, and where the last one ends, in a list of elements ordered by their rows `along`.
Expression beginnings(Emitter& e, const Term& along, std::int64_t count);

/// Whether an argument or a result of the op is a sparse tensor.
bool touches_sparse(const Alignment& alignment, const trace::Op& op);

/// The number of the row that each place names: i64 [n].
Expression row_numbers(Emitter& e, const Sparse& x);
/// Two dimensions that the indices name exchanged.
Sparse transposed(Emitter& e, const Sparse& x, std::int64_t first, std::int64_t second);
/// `base` [x.sizes] with all values, times `factor`, added where they belong, one after the other.
Expression added(Emitter& e, const Term& base, const Sparse& x, const Term& factor);

}  // namespace crucible::aten
