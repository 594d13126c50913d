// Sparse tensors as places and values: see sparse.hpp.
#include "frontends/aten/sparse/sparse.hpp"

#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {

using graph::OpKind;

bool touches_sparse(const Alignment& alignment, const trace::Op& op) {
  if (alignment.sparse.empty()) return false;
  const auto is_sparse = [&](trace::TensorId id) { return alignment.sparse.contains(id); };
  return std::ranges::any_of(tensors_in(op.args), is_sparse) || std::ranges::any_of(tensors_in(op.outputs), is_sparse);
}

Expression listed_places(Emitter& e, const Term& begins, const Term& across, bool by_columns) {
  const Sizes sizes = {across.size(0)};
  // A step up where each row but the first one begins; several where rows between have no elements.
  const Term later = slice(begins, 0, 1, begins.size(0) - 1);
  const Expression zeros = e.fill(Term::integer(0), sizes, DType::kI64);
  const Expression steps = e.put(OpKind::kPutAdd, zeros, later, Term::integer(1));
  const Term along = e.unsqueeze(running_total(e, OpKind::kScanSum, steps, 0), 0);
  const Term other = e.unsqueeze(e.cast(across, DType::kI64), 0);
  return by_columns ? e.concat({other, along}, 0) : e.concat({along, other}, 0);
}

Expression beginnings(Emitter& e, const Term& along, std::int64_t count) {
  const Expression row = e.cast(along, DType::kI64);
  const Expression zeros = e.fill(Term::integer(0), {count + 1}, DType::kI64);
  const Expression lengths = e.put(OpKind::kPutAdd, zeros, row + 1, Term::integer(1));
  return {e, running_total(e, OpKind::kScanSum, lengths, 0)};
}

Expression row_numbers(Emitter& e, const Sparse& x) {
  std::vector<Term> indices;
  for (std::int64_t d = 0; d < x.indices.size(0); ++d) indices.push_back(e.drop(slice(x.indices, 0, d, 1), {0}));
  const Expression number = e.linear_index(x.rows(), indices);
  return number.is_number() ? e.fill(number, {x.count()}, DType::kI64) : e.expand(number, {x.count()});
}

Sparse transposed(Emitter& e, const Sparse& x, std::int64_t first, std::int64_t second) {
  const auto rank = static_cast<std::int64_t>(x.sizes.size()), named = x.indices.size(0);
  const auto a = std::min(wrap_dim(first, rank), wrap_dim(second, rank)),
             b = std::max(wrap_dim(first, rank), wrap_dim(second, rank));
  if (a < 0 || b >= named) {
    e.fail("a dimension of a sparse tensor that is kept whole is exchanged");
    return x;
  }
  Sparse result = x;
  std::swap(result.sizes[static_cast<std::size_t>(a)], result.sizes[static_cast<std::size_t>(b)]);
  if (a == b) return result;
  std::vector<Term> rows;
  for (std::int64_t d = 0; d < named; ++d) rows.push_back(slice(x.indices, 0, d == a ? b : d == b ? a : d, 1));
  result.indices = e.concat(rows, 0);
  return result;
}

Expression added(Emitter& e, const Term& base, const Sparse& x, const Term& factor) {
  const Sizes sizes = {x.count(), x.width()};
  Term values = e.reshape(x.values, sizes);
  if (!is_fixed(factor, 1)) values = multiply(e, widened(e, values), factor);
  const Expression row = e.unsqueeze(row_numbers(e, x), 1) * Term::integer(x.width());
  const Expression place = row + e.position(1, sizes);
  return e.put(OpKind::kPutAdd, base, place, values);
}

}  // namespace crucible::aten
