// Lowering of ops on sparse tensors: what a gradient of an embedding meets on its way through an optimizer, and what
// adjacency matrices go through around their products (lower_sparse_product.cpp).
// find_entry() takes these where an argument or a result is sparse; what is not here is refused for sparse tensors.
#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"
#include "frontends/aten/reduction/runs.hpp"
#include "frontends/aten/sparse/sparse.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// The result's parts are those of the argument, or the arguments themselves.
void alias(OpCall& c) { c.ignore_numbers(); }

void from_parts(OpCall& c) {
  c.ignore_numbers();  // the result says it all
  c.set_sparse(0, {c.tensor("indices"), c.tensor("values")});
}

Expression dense_of(Emitter& e, const Sparse& x) {
  return added(e, e.fill(Term::integer(0), x.sizes, x.values.dtype), x, Term::integer(1));
}

/// Each place once, in row-major order, with the sum of its values.
Sparse once_each(Emitter& e, const Sparse& x, std::int64_t count) {
  const Runs runs = runs_of(e, row_numbers(e, x), true);
  const Expression first = e.unsqueeze(first_of_runs(e, runs, count), 0);
  const Term indices = e.take_at(x.indices, {e.position(0, {x.indices.size(0), count}), first});
  const Expression rows = e.reshape(widened(e, x.values), {x.count(), x.width()});
  Sizes sizes = x.values.sizes();
  sizes[0] = count;
  return {e.expand(indices, {x.indices.size(0), count}),
          e.reshape(e.scatter_add_rows(rows, run_of_each(e, runs), count, -1), sizes), x.sizes};
}

/// The places of both, one after the other. Where the framework kept fewer, it has joined those that are in both.
void add_sparse(OpCall& c) {
  Emitter& e = c.emit();
  const Sparse x = c.sparse("self"), y = c.sparse("other");
  const Term alpha = c.has("alpha") ? c.operand("alpha") : Term::integer(1);
  if (!e.failure().empty()) return;
  if (x.sizes != y.sizes || x.indices.size(0) != y.indices.size(0))
    return e.fail("a sum of sparse tensors of different sizes");
  const Expression scaled = is_fixed(alpha, 1) ? widened(e, y.values) : multiply(e, widened(e, y.values), alpha);
  const Sparse both = {e.concat({x.indices, y.indices}, 1),
                       e.concat({e.cast(x.values, c.result(0).dtype), e.cast(scaled, c.result(0).dtype)}, 0), x.sizes};
  const std::int64_t count = c.sparse_count(0);
  c.set_sparse(0, count == both.count() ? both : once_each(e, both, count));
}

/// A sparse tensor added to a dense one.
void add(OpCall& c) {
  Emitter& e = c.emit();
  if (c.is_sparse("self")) return add_sparse(c);
  const Sparse other = c.sparse("other");
  const Term self = c.tensor("self"), alpha = c.has("alpha") ? c.operand("alpha") : Term::integer(1);
  if (!e.failure().empty()) return;
  if (self.sizes() != other.sizes) return e.fail("a sparse tensor is added to one of other sizes");
  c.set(0, added(e, self, other, alpha));
}

void to_dense(OpCall& c) {
  Emitter& e = c.emit();
  const Sparse x = c.sparse("self");
  if (!e.failure().empty()) return;
  if (c.has("masked_grad")) c.boolean("masked_grad");
  c.set(0, dense_of(e, x));
}

/// The elements of a tensor that broadcasts to x, where x has some: in the sizes of x's values.
Expression values_at(Emitter& e, const Term& tensor, const Sparse& x) {
  const Expression whole = e.expand(tensor, x.sizes);
  std::vector<Term> indices;
  const std::int64_t named = x.indices.size(0);
  for (std::int64_t d = 0; d < whole.rank(); ++d) {
    Sizes one(x.values.sizes().size(), 1);
    one[0] = x.count();
    indices.push_back(d < named ? e.reshape(slice(x.indices, 0, d, 1), one)
                                : e.position(d - named + 1, x.values.sizes()));
  }
  return e.expand(e.take_at(whole, indices), x.values.sizes());
}

/// How many places there are is what the recording says.
void coalesce(OpCall& c) {
  Emitter& e = c.emit();
  const Sparse x = c.sparse("self");
  if (e.failure().empty()) c.set_sparse(0, once_each(e, x, c.sparse_count(0)));
}

/// Sums over dimensions: those that the indices name leave fewer places, each once.
void sum_over(OpCall& c) {
  Emitter& e = c.emit();
  Sparse x = c.sparse("self");
  if (!e.failure().empty()) return;
  const std::int64_t rank = static_cast<std::int64_t>(x.sizes.size()), named = x.indices.size(0);
  std::vector<Term> rows;
  std::vector<std::int64_t> along;
  Sizes sizes;
  const auto dims = c.integers("dim");
  for (std::int64_t d = 0; d < rank; ++d) {
    const bool is_summed = std::ranges::any_of(dims, [&](std::int64_t dim) { return wrap_dim(dim, rank) == d; });
    if (is_summed && d >= named) along.push_back(d - named + 1);
    if (is_summed) continue;
    sizes.push_back(x.sizes[static_cast<std::size_t>(d)]);
    if (d < named) rows.push_back(slice(x.indices, 0, d, 1));
  }
  Expression values = widened(e, x.values);
  if (!along.empty()) values = e.drop(e.sum(values, along), along);
  if (rows.empty()) return c.set(0, e.drop(e.sum(values, {0}), {0}));
  const Sparse left = {e.concat(rows, 0), values, sizes};
  const std::int64_t count = c.sparse_count(0);
  c.set_sparse(0, static_cast<std::int64_t>(rows.size()) == named && count == left.count() ? left
                                                                                         : once_each(e, left, count));
}

/// Its gradient: each place, once, gets what the gradient has where it was added to.
void sum_over_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Sparse given = c.sparse("self");
  const std::int64_t count = c.sparse_count(0);
  if (!e.failure().empty()) return;
  const Sparse x = count == given.count() ? given : once_each(e, given, count);
  const std::int64_t rank = static_cast<std::int64_t>(x.sizes.size()), named = x.indices.size(0);
  const Expression gradient = c.is_sparse("grad") ? dense_of(e, c.sparse("grad")) : c.tensor("grad");
  const auto dims = c.integers("dim");
  std::vector<Term> indices;
  const Sizes& sizes = x.values.sizes();
  for (std::int64_t d = 0; d < rank; ++d) {
    if (std::ranges::any_of(dims, [&](std::int64_t dim) { return wrap_dim(dim, rank) == d; })) continue;
    if (d >= named) {
      indices.push_back(e.position(d - named + 1, sizes));
      continue;
    }
    Sizes one(sizes.size(), 1);
    one[0] = x.count();
    indices.push_back(e.reshape(slice(x.indices, 0, d, 1), one));
  }
  c.set_sparse(0, {x.indices, e.expand(e.take_at(gradient, indices), sizes), x.sizes});
}

void transpose(OpCall& c) {
  Emitter& e = c.emit();
  const bool names = c.has("dim0");
  const Sparse x = c.sparse("self");
  if (!e.failure().empty()) return;
  const std::int64_t rank = static_cast<std::int64_t>(x.sizes.size());
  if (!names && rank < 2) return c.set_sparse(0, x);
  c.set_sparse(0, transposed(e, x, names ? c.integer("dim0") : 0, names ? c.integer("dim1") : 1));
}

/// Elements that are not 0, or rows that are not all 0, in row-major order; as many as were recorded.
void to_sparse(OpCall& c) {
  Emitter& e = c.emit();
  c.ignore_numbers();  // the result says it all
  if (c.is_sparse("self")) {
    const Sparse x = c.sparse("self");
    if (!e.failure().empty()) return;
    if (x.count() != c.sparse_count(0)) return e.fail("a sparse tensor becomes one with another number of elements");
    return c.set_sparse(0, x);
  }
  const Expression x = c.tensor("self");
  const std::int64_t count = c.sparse_count(0), named = c.sparse_dims(0), rank = x.rank();
  if (!e.failure().empty()) return;
  if (named < 0 || named > rank) return e.fail("a sparse tensor of more dimensions than its own");
  const bool by_columns = c.is_by_columns(0);
  const Expression seen = by_columns ? e.transpose(x, 0, 1) : x;
  std::vector<std::int64_t> rest;
  for (std::int64_t d = named; d < rank; ++d) rest.push_back(d);
  Expression mask = seen != 0;
  if (!rest.empty()) mask = e.drop(e.max(e.cast(mask, DType::kI32), rest), rest) != 0;
  const std::vector<Term> places = true_coordinates(e, mask, count);
  std::vector<Term> rows, indices;
  Sizes sizes = {count};
  for (std::int64_t d = 0; d < rank; ++d)
    if (d >= named) sizes.push_back(seen.size(d));
  for (std::int64_t d = 0; d < rank; ++d) {
    Sizes one(sizes.size(), 1);
    one[0] = count;
    const auto at = static_cast<std::size_t>(d);
    indices.push_back(d < named ? e.reshape(places[at], one) : e.position(d - named + 1, sizes));
    if (d < named) rows.push_back(e.unsqueeze(places[at], 0));
  }
  if (by_columns) std::swap(rows.front(), rows.back());
  c.set_sparse(0, {e.concat(rows, 0), e.expand(e.take_at(seen, indices), sizes), x.sizes()});
}

/// What stands in a tensor where the mask has elements.
void sparse_mask(OpCall& c) {
  Emitter& e = c.emit();
  const Sparse mask = c.sparse("mask");
  const Expression self = c.is_sparse("self") ? dense_of(e, c.sparse("self")) : c.tensor("self");
  if (!e.failure().empty()) return;
  if (self.sizes() != mask.sizes || mask.width() == 0) return e.fail("a mask of other sizes, or of nothing");
  const Expression rows =
      e.gather_rows(e.reshape(self, {self.elements() / mask.width(), mask.width()}), row_numbers(e, mask));
  c.set_sparse(0, {mask.indices, e.reshape(rows, mask.values.sizes()), mask.sizes});
}

/// The same places, each value times a number or what a dense tensor has there.
void multiply_values(OpCall& c) {
  Emitter& e = c.emit();
  const bool is_first = c.is_sparse("self");
  if (is_first && c.is_sparse("other"))
    return e.fail("a product of two sparse tensors is not supported: which elements it keeps depends on the data");
  const Sparse x = c.sparse(is_first ? "self" : "other");
  const Expression factor = c.operand(is_first ? "other" : "self");
  if (!e.failure().empty()) return;
  if (c.sparse_count(0) != x.count()) return e.fail("a product that keeps other elements than its sparse factor");
  if (factor.is_number() || factor.elements() == 1) {
    const Term number = factor.is_number() ? factor : e.reshape(factor, {});
    return c.set_sparse(0, {x.indices, multiply(e, widened(e, x.values), number), x.sizes});
  }
  c.set_sparse(0, {x.indices, multiply(e, widened(e, x.values), values_at(e, factor, x)), x.sizes});
}

template <graph::OpKind kind>
void each_value(OpCall& c) {
  Emitter& e = c.emit();
  const Sparse x = c.sparse("self");
  if (!e.failure().empty()) return;
  if (c.sparse_count(0) != x.count()) return e.fail("a function of a sparse tensor that has joined places of it");
  c.set_sparse(0, {x.indices, e.unary(kind, widened(e, x.values)), x.sizes});
}

void divide_values(OpCall& c) {
  Emitter& e = c.emit();
  const Sparse x = c.sparse("self");
  const Expression by = c.operand("other");
  if (!e.failure().empty()) return;
  if (!by.is_number() && by.elements() != 1) return e.fail("a quotient of a sparse tensor and another one");
  const Term number = by.is_number() ? by : e.reshape(by, {});
  c.set_sparse(0, {x.indices, divide(e, widened(e, x.values), number), x.sizes});
}

/// The same in memory of its own, or in another dtype.
void copy(OpCall& c) {
  const Sparse x = c.sparse("self");
  if (c.emit().failure().empty()) c.set_sparse(0, x);
}

void from_compressed(OpCall& c) {
  Emitter& e = c.emit();
  c.ignore_numbers();  // the result says it all
  const Term places =
      listed_places(e, c.tensor("compressed_indices"), c.tensor("plain_indices"), c.is_by_columns(0));
  c.set_sparse(0, {places, c.tensor("values"), c.result(0).sizes});
}

constexpr Entry kEntries[] = {
    {"aten::detach", alias},
    {"aten::add.Tensor", add},
    {"aten::mul.Tensor", multiply_values},
    {"aten::mul.Scalar", multiply_values},
    {"aten::div.Tensor", divide_values},
    {"aten::div.Scalar", divide_values},
    {"aten::neg", each_value<OpKind::kNegate>},
    {"aten::abs", each_value<OpKind::kAbsolute>},
    {"aten::sqrt", each_value<OpKind::kSqrt>},
    {"aten::tanh", each_value<OpKind::kTanh>},
    {"aten::clone", copy},
    {"aten::_to_copy", copy},
    {"aten::t", transpose},
    {"aten::transpose.int", transpose},
};

// Ops that no dense tensors know.
constexpr Entry kOwn[] = {
    {"aten::_sparse_coo_tensor_with_dims_and_tensors", from_parts},
    {"aten::_indices", alias},
    {"aten::_values", alias},
    {"aten::indices", alias},
    {"aten::values", alias},
    {"aten::_coalesce", coalesce},
    {"aten::sparse_mask", sparse_mask},
    {"aten::_to_dense", to_dense},
    {"aten::_to_sparse", to_sparse},
    {"aten::_to_sparse.sparse_dim", to_sparse},
    {"aten::_to_sparse_csr", to_sparse},
    {"aten::_to_sparse_csc", to_sparse},
    {"aten::_sparse_sum.dim", sum_over},
    {"aten::_sparse_sum_backward", sum_over_backward},
    {"aten::sparse_compressed_tensor.comp_plain_value_size", from_compressed},
    {"aten::crow_indices", alias},
    {"aten::col_indices", alias},
    {"aten::ccol_indices", alias},
    {"aten::row_indices", alias},
};

}  // namespace

std::span<const Entry> sparse_entries() { return kEntries; }
std::span<const Entry> sparse_own_entries() { return kOwn; }

}  // namespace crucible::aten
