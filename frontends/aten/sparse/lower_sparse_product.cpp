// Lowering of matrix products in which one matrix, or one of each batch, is sparse: the rows of the dense one that the
// kept elements meet, each times its element, added up by their rows. What is not kept does not take part, so that an
// infinity beside it leaves no NaN, as in the framework.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/sparse/sparse.hpp"

namespace crucible::aten {
namespace {

/// Index `d` of each kept element.
Expression places_along(Emitter& e, const Sparse& x, std::int64_t d) {
  return e.take_at(x.indices, {Term::integer(d), e.position(0, {x.count()})});
}

/// sparse [batch..., m, k] @ dense [batch..., k, n], with at most one dimension of batches; sums are in f32 at least.
Expression product(Emitter& e, const Sparse& x, const Term& dense) {
  const std::int64_t rank = static_cast<std::int64_t>(x.sizes.size());
  if (rank < 2 || x.indices.size(0) != rank || x.values.rank() != 1 || dense.rank() != rank) {
    e.fail("a product with a sparse tensor whose elements are no numbers, or that is no matrix");
    return {e, dense};
  }
  const std::int64_t m = x.sizes[static_cast<std::size_t>(rank) - 2], k = x.sizes.back(), n = dense.size(-1);
  const std::int64_t batches = rank == 3 ? x.sizes[0] : 1;
  if (rank > 3 || dense.size(-2) != k || (rank == 3 && dense.size(0) != batches)) {
    e.fail("a product of matrices whose sizes do not fit each other");
    return {e, dense};
  }
  Sizes sizes = dense.sizes();
  sizes[sizes.size() - 2] = m;
  const Expression wide = widened(e, dense);
  if (x.count() == 0 || batches * m * n == 0 || k == 0) return e.fill(Term::integer(0), sizes, wide.dtype);
  Expression row = places_along(e, x, rank - 2), column = places_along(e, x, rank - 1);
  if (rank == 3) {
    const Expression batch = places_along(e, x, 0);
    row = batch * Term::integer(m) + row;
    column = batch * Term::integer(k) + column;
  }
  const Expression met = widened(e, e.gather_rows(e.reshape(dense, {batches * k, n}), column));
  const Expression terms = met * e.unsqueeze(widened(e, x.values), 1);
  return e.reshape(e.scatter_add_rows(terms, row, batches * m, -1), sizes);
}

/// The two matrices of `first` and `second`, whichever is sparse.
Expression product_of(OpCall& c, std::string_view first, std::string_view second) {
  Emitter& e = c.emit();
  if (c.is_sparse(first) && c.is_sparse(second)) {
    e.fail("a product of two sparse tensors is not supported: how many elements it keeps depends on the data");
    return {e, Term::number(0)};
  }
  if (c.is_sparse(first)) return product(e, c.sparse(first), c.tensor(second));
  // a @ s is the transpose of s' @ a'.
  Sparse x = c.sparse(second);
  if (!e.failure().empty()) return {e, Term::number(0)};
  if (x.sizes.size() != 2) {
    e.fail("a product of a dense tensor and a sparse one that is no matrix");
    return {e, Term::number(0)};
  }
  return e.transpose(product(e, transposed(e, x, 0, 1), e.transpose(c.tensor(first), 0, 1)), 0, 1);
}

void matrix_product(OpCall& c) { c.set(0, product_of(c, "self", "mat2")); }

void vector_product(OpCall& c) {
  Emitter& e = c.emit();
  const Sparse x = c.sparse("self");
  const Expression vec = c.tensor("vec");
  if (!e.failure().empty()) return;
  c.set(0, e.drop(product(e, x, e.unsqueeze(vec, 1)), {1}));
}

/// beta self + alpha (mat1 @ mat2); of beta 0, self does not take part.
void add_product_of(OpCall& c) {
  Emitter& e = c.emit();
  const Expression sum = product_of(c, "mat1", "mat2");
  const Term alpha = c.has("alpha") ? c.operand("alpha") : Term::integer(1);
  const Term beta = c.has("beta") ? c.operand("beta") : Term::integer(1);
  const Expression self = widened(e, c.tensor("self"));
  if (!e.failure().empty()) return;
  const Expression scaled = is_fixed(alpha, 1) ? sum : multiply(e, sum, alpha);
  if (is_fixed(beta, 0)) return c.set(0, scaled);
  c.set(0, (is_fixed(beta, 1) ? self : multiply(e, self, beta)) + scaled);
}

constexpr Entry kEntries[] = {
    {"aten::mm", matrix_product},
    {"aten::bmm", matrix_product},
    {"aten::mv", vector_product},
    {"aten::addmm", add_product_of},
};

// Ops that no dense tensors know.
constexpr Entry kOwn[] = {
    {"aten::_sparse_addmm", add_product_of},
};

}  // namespace

std::span<const Entry> sparse_product_entries() { return kEntries; }
std::span<const Entry> sparse_product_own_entries() { return kOwn; }

}  // namespace crucible::aten
