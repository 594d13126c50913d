// Lowering of ops on sparse tensors: what a gradient of an embedding meets on its way through an optimizer.
// find_entry() takes these where an argument or a result is sparse; what is not here is refused for sparse tensors.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
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

/// A sparse tensor added to a dense one.
void add(OpCall& c) {
  Emitter& e = c.emit();
  if (c.is_sparse("self"))
    return e.fail("a sum of sparse tensors is not supported: how many elements it keeps depends on the data");
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
  c.set(0, added(e, e.fill(Term::integer(0), x.sizes, x.values.dtype), x, Term::integer(1)));
}

/// Each place once, in row-major order, with the sum of its values. How many there are is what the recording says.
void coalesce(OpCall& c) {
  Emitter& e = c.emit();
  const Sparse x = c.sparse("self");
  if (!e.failure().empty()) return;
  const std::int64_t count = c.sparse_count(0);
  const Runs runs = runs_of(e, row_numbers(e, x), true);
  const Expression first = e.unsqueeze(first_of_runs(e, runs, count), 0);
  const Term indices = e.take_at(x.indices, {e.position(0, {x.indices.size(0), count}), first});
  const Expression rows = e.reshape(widened(e, x.values), {x.count(), x.width()});
  Sizes sizes = x.values.sizes();
  sizes[0] = count;
  c.set_sparse(0, {e.expand(indices, {x.indices.size(0), count}),
                   e.reshape(e.scatter_add_rows(rows, run_of_each(e, runs), count, -1), sizes)});
}

/// What stands in a dense tensor where the mask has elements.
void sparse_mask(OpCall& c) {
  Emitter& e = c.emit();
  const Sparse mask = c.sparse("mask");
  const Expression self = c.tensor("self");
  if (!e.failure().empty()) return;
  if (self.sizes() != mask.sizes || mask.width() == 0) return e.fail("a mask of other sizes, or of nothing");
  const Expression rows =
      e.gather_rows(e.reshape(self, {self.elements() / mask.width(), mask.width()}), row_numbers(e, mask));
  c.set_sparse(0, {mask.indices, e.reshape(rows, mask.values.sizes())});
}

/// The same places, each value times a number.
void multiply_by_number(OpCall& c) {
  Emitter& e = c.emit();
  const Sparse x = c.sparse("self");
  if (!e.failure().empty()) return;
  const Expression factor = c.operand("other");
  if (!factor.is_number() && factor.elements() != 1)
    return e.fail("a product of a sparse tensor and another one is not supported");
  c.set_sparse(0, {x.indices, multiply(e, widened(e, x.values), factor.is_number() ? factor : e.reshape(factor, {}))});
}

constexpr Entry kEntries[] = {
    {"aten::detach", alias},
    {"aten::add.Tensor", add},
    {"aten::mul.Tensor", multiply_by_number},
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
};

}  // namespace

std::span<const Entry> sparse_entries() { return kEntries; }
std::span<const Entry> sparse_own_entries() { return kOwn; }

}  // namespace crucible::aten
