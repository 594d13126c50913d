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

Expression row_numbers(Emitter& e, const Sparse& x) {
  std::vector<Term> indices;
  for (std::int64_t d = 0; d < x.indices.size(0); ++d) indices.push_back(e.drop(slice(x.indices, 0, d, 1), {0}));
  const Expression number = e.linear_index(x.rows(), indices);
  return number.is_number() ? e.fill(number, {x.count()}, DType::kI64) : e.expand(number, {x.count()});
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
