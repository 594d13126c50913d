// Lowering of ops that look up rows by index.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

void embedding(OpCall& c) {
  c.integer("padding_idx");  // matters to the gradient only
  const Expression table = c.tensor("weight"), ids = c.tensor("indices");
  c.emit().expect_in(ids, 0, table.size(0) - 1);
  c.set(0, c.emit().gather_rows(table, ids));
}

void embedding_dense_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression ids = c.tensor("indices"), g = c.tensor("grad_output");
  Term rows = e.reshape(widened(e, g), {ids.elements(), g.size(-1)});
  e.expect_in(ids, 0, c.integer("num_weights") - 1);
  if (c.boolean("scale_grad_by_freq")) {
    const Expression row = e.reshape(ids, {ids.elements()});
    const Expression zeros = e.fill(Term::integer(0), {c.integer("num_weights")}, DType::kI64);
    const Expression often = e.take(e.put(OpKind::kPutAdd, zeros, row, Term::integer(1)), row);
    const Expression scale = e.cast(often, rows.dtype).unary(OpKind::kReciprocal);
    rows = rows * e.unsqueeze(scale, 1);
  }
  const auto padding = c.integer("padding_idx");
  c.set(0, e.scatter_add_rows(rows, e.reshape(ids, {ids.elements()}), c.integer("num_weights"), padding));
}

void index_select(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self"), ids = c.tensor("index");
  const auto dim = wrap_dim(c.integer("dim"), x.rank());
  e.expect_in(ids, 0, (x.rank() == 0 ? 1 : x.size(dim)) - 1);
  if (x.rank() == 0) return c.set(0, x);
  // Rows are everything else: bring the dimension to the front, look rows up, bring it back.
  const Expression front = e.transpose(x, 0, dim);
  const auto width = x.size(dim) == 0 ? 0 : x.elements() / x.size(dim);
  const Expression rows = e.gather_rows(e.reshape(front, {x.size(dim), width}), e.reshape(ids, {ids.elements()}));
  Sizes sizes = front.sizes();
  sizes[0] = ids.elements();
  c.set(0, e.transpose(e.reshape(rows, sizes), 0, dim));
}

/// Rows that an index names and whose norm is above max_norm are scaled down to it. A row that is named twice is
/// written twice, with the same numbers.
void embedding_renorm(OpCall& c) {
  Emitter& e = c.emit();
  const Expression table = c.tensor("self"), given = c.tensor("indices");
  const Expression ids = e.reshape(given, {given.elements(), 1});
  if (table.rank() != 2) return e.fail("argument self is no table of rows");
  if (given.elements() == 0) return c.set(0, table);
  e.expect_in(given, 0, table.size(0) - 1);
  const Expression rows = widened(e, e.gather_rows(table, e.reshape(ids, {ids.elements()})));
  // The framework compares and divides doubles.
  const Expression norms = e.cast(e.cast(vector_norm(e, rows, c.real("norm_type"), {1}), table.dtype), DType::kF64);
  const Expression most = e.fill(Term::number(c.real("max_norm")), {}, DType::kF64);
  const Expression factor = most / (norms + 1e-7);
  const Expression scaled = e.cast(multiply(e, rows, e.cast(factor, rows.dtype)), table.dtype);
  const Expression kept = choose(norms > most, scaled, e.cast(rows, table.dtype));
  const Expression place =
      e.linear_index(table.sizes(), {e.held_in(ids, 0, table.size(0) - 1), e.position(1, table.sizes())});
  c.set(0, e.put(OpKind::kPutSet, table, e.expand(place, rows.sizes()), kept));
}

constexpr Entry kEntries[] = {
    {"aten::embedding", embedding, Complexity::kParts},
    {"aten::embedding_renorm", embedding_renorm},
    {"aten::embedding_dense_backward", embedding_dense_backward, Complexity::kParts},
    {"aten::index_select", index_select, Complexity::kParts},
};

}  // namespace

std::span<const Entry> indexing_entries() { return kEntries; }

}  // namespace crucible::aten
