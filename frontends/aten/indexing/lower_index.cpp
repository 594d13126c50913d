// Lowering of x[tensors] and of assignments to it, of elements by row-major place, and of what masks choose.
#include <fmt/format.h>

#include <algorithm>

#include "core/graph/view.hpp"
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

std::optional<std::size_t> only_index(const std::vector<std::optional<Term>>& indices) {
  std::optional<std::size_t> only;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    if (only) return std::nullopt;
    only = i;
  }
  return only;
}

/// x as rows along its first dimension, where that takes no copy and rows are worth it.
std::optional<Term> as_rows(Emitter& e, const Term& x) {
  if (x.rank() < 2 || x.elements() == 0) return std::nullopt;
  const Sizes sizes = {x.size(0), x.elements() / x.size(0)};
  if (sizes[1] < 2 || !graph::reshaped(x.operand.view, sizes)) return std::nullopt;
  return e.reshape(x, sizes);
}

void index(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const auto indices = c.optional_tensors("indices");
  const auto only = only_index(indices);
  if (only && *only == 0 && !is_mask(*indices[0])) {
    if (const auto rows = as_rows(e, x)) {
      const Expression ids = e.wrapped(*indices[0], x.size(0));
      return c.set(0, e.reshape(e.gather_rows(*rows, ids), c.result(0).sizes));
    }
  }
  const Sizes& recorded = c.result(0).sizes;
  const IndexPlan plan =
      plan_index(e, x, indices, [&](std::size_t d, std::size_t) { return d < recorded.size() ? recorded[d] : 0; });
  if (!e.failure().empty()) return;
  for (const Term& count : plan.mask_counts) {
    const auto at = static_cast<std::size_t>(plan.mask_dim);
    if (at < recorded.size()) e.expect_count(recorded[at], [&] { return count; });
  }
  c.set(0, e.expand(e.take_at(x, plan.terms), plan.sizes));
}

bool is_zeros(Emitter& e, const Term& x) {
  if (x.is_number()) return false;
  const graph::OpId producer = e.program().values[x.operand.value].producer;
  if (producer == graph::kNone || e.program().ops[producer].kind != OpKind::kFill) return false;
  const graph::Scalar& scalar = e.program().ops[producer].inputs[0].scalar;
  return scalar.slot == graph::kNone && scalar.real == 0 && scalar.integer == 0;
}

/// Where the mask is true, the values in order: element (..., m, ...) of x gets element (..., count of true before m,
/// ...) of the values.
Term put_masked(Emitter& e, const Term& x, const Term& mask, std::size_t dim, const Term& values, bool accumulate) {
  const auto covered = static_cast<std::size_t>(mask.rank());
  if (dim + covered > x.sizes().size()) {
    e.fail("the mask has more dimensions than the tensor");
    return x;
  }
  const auto after = x.sizes().size() - dim - covered;
  if (static_cast<std::size_t>(values.rank()) > after + 1 + dim) {
    e.fail("the values have more dimensions than what they are put into");
    return x;
  }
  Sizes shape = mask.sizes();
  shape.insert(shape.end(), after, 1);
  const Expression truth = e.reshape(e.cast(mask, DType::kBool), shape);
  // One index for each dimension of the values, aligned from the right.
  const auto rank = static_cast<std::size_t>(values.rank());
  std::vector<Term> terms;
  for (std::size_t v = 0; v < rank; ++v) {
    const std::size_t from_end = rank - 1 - v;
    if (values.sizes()[v] == 1) {
      terms.push_back(Term::integer(0));
    } else if (from_end < after) {
      terms.push_back(e.position(static_cast<std::int64_t>(x.sizes().size() - 1 - from_end), x.sizes()));
    } else if (from_end == after) {
      e.expect_count(values.sizes()[v], [&] { return true_count(e, mask); });
      const Expression count = e.reshape(running_count(e, mask), shape);
      terms.push_back(e.binary(OpKind::kSubtract, count, Term::integer(1)));
    } else {
      const std::size_t to = dim - (from_end - after);
      terms.push_back(e.position(static_cast<std::int64_t>(to), x.sizes()));
    }
  }
  const Expression chosen = e.take_at(e.cast(values, x.dtype), terms);
  if (!accumulate) return e.expand(choose(truth, chosen, x), x.sizes());
  const Expression added = e.binary(x.dtype == DType::kBool ? OpKind::kLogicalOr : OpKind::kAdd, x, chosen);
  return e.expand(choose(truth, added, x), x.sizes());
}

/// How many elements masks among several indices hold, where another index or the values have one for each; nothing
/// where all others are the same for all of them. `dimension`: where they stand in x[indices], which has `rank`.
std::optional<std::int64_t> count_beside_masks(const std::vector<std::optional<Term>>& indices, const Term& values,
                                               std::size_t dimension, std::size_t rank) {
  for (const auto& index : indices) {
    if (index && !is_mask(*index) && index->rank() > 0 && index->size(-1) != 1) return index->size(-1);
  }
  const auto from_end = static_cast<std::int64_t>(rank - dimension);
  if (from_end > values.rank() || values.size(-from_end) == 1) return std::nullopt;
  return values.size(-from_end);
}

/// No mask holds more.
std::int64_t most_of_masks(const std::vector<std::optional<Term>>& indices) {
  std::int64_t most = 0;
  for (const auto& index : indices) {
    if (index && is_mask(*index)) most = std::max(most, index->elements());
  }
  return most;
}

/// How many elements masks name together, each of which holds as many, or one for all.
Expression count_of_all(Emitter& e, const std::vector<Term>& counts) {
  Expression all(e, counts.front());
  for (std::size_t i = 1; i < counts.size(); ++i) {
    all = choose(all == 0 || Expression(e, counts[i]) == 0, 0, larger(all, counts[i]));
  }
  return all;
}

void index_put(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self"), values = c.tensor("values");
  const auto indices = c.optional_tensors("indices");
  const bool accumulate = c.has("accumulate") && c.boolean("accumulate");
  const auto only = only_index(indices);
  if (only && is_mask(*indices[*only])) return c.set(0, put_masked(e, x, *indices[*only], *only, values, accumulate));
  const bool wide = x.dtype == DType::kF32 || x.dtype == DType::kF64;
  if (only && *only == 0 && accumulate && wide && x.rank() >= 2 && x.elements() > 0 && is_zeros(e, x)) {
    const Expression ids = e.wrapped(*indices[0], x.size(0));
    const std::int64_t count = ids.elements(), width = x.elements() / x.size(0);
    Sizes full = ids.sizes();
    full.insert(full.end(), x.sizes().begin() + 1, x.sizes().end());
    const Expression rows = e.reshape(e.expand(values, full), {count, width});
    return c.set(0, e.reshape(e.scatter_add_rows(rows, e.reshape(ids, {count}), x.size(0), -1), x.sizes()));
  }
  // What an assignment returns does not say how many elements its masks hold; what stands beside them may.
  std::optional<std::int64_t> known;
  const IndexPlan plan = plan_index(e, x, indices, [&](std::size_t dimension, std::size_t rank) {
    known = count_beside_masks(indices, values, dimension, rank);
    return known.value_or(most_of_masks(indices));
  });
  if (!e.failure().empty()) return;
  Expression place = e.linear_index(x.sizes(), plan.terms);
  if (!known && !plan.mask_counts.empty()) {
    place = choose(e.position(plan.mask_dim, plan.sizes) < count_of_all(e, plan.mask_counts), place, -1);
  }
  const Expression source = e.expand(e.cast(values, x.dtype), plan.sizes);
  const Expression where = place.is_number() ? e.fill(place, plan.sizes, DType::kI64) : e.expand(place, plan.sizes);
  c.set(0, e.put(accumulate ? OpKind::kPutAdd : OpKind::kPutSet, x, where, source));
}

/// x[indices] where the mask is true, else a number; indices there may lie outside.
void masked_index(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self"), mask = e.cast(c.tensor("mask"), DType::kBool), fill = c.operand("fill");
  const IndexPlan plan =
      plan_index(e, x, c.optional_tensors("indices"), [](std::size_t, std::size_t) { return std::int64_t{0}; }, true);
  if (!e.failure().empty()) return;
  const Expression found = e.expand(e.take_at(x, plan.terms), plan.sizes);
  c.set(0, choose(mask, found, e.fill(fill, {}, x.dtype)));
}

/// Values are added to x at the indices where the mask is true.
void masked_index_put(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self"), mask = e.cast(c.tensor("mask"), DType::kBool);
  const IndexPlan plan =
      plan_index(e, x, c.optional_tensors("indices"), [](std::size_t, std::size_t) { return std::int64_t{0}; }, true);
  if (!e.failure().empty()) return;
  const Expression place = choose(mask, e.linear_index(x.sizes(), plan.terms), -1);
  const Expression source = e.expand(e.cast(c.tensor("values"), x.dtype), plan.sizes);
  c.set(0, e.put(OpKind::kPutAdd, x, e.expand(place, plan.sizes), source));
}

void take(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  c.set(0, e.take(x, e.wrapped(c.tensor("index"), x.elements())));
}

void put(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self"), places = c.tensor("index");
  const Expression source = e.reshape(c.tensor("source"), places.sizes());
  const bool accumulate = c.boolean("accumulate");
  c.set(0, e.put(accumulate ? OpKind::kPutAdd : OpKind::kPutSet, x, e.wrapped(places, x.elements()), source));
}

/// The place of each true element of the mask among them, -1 for the others.
Expression order_of(Emitter& e, const Term& mask) {
  return e.select(mask, running_count(e, mask) - 1, Term::integer(-1));
}

void masked_select(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self"), mask = c.tensor("mask");
  const auto sizes = graph::broadcast_sizes(x.sizes(), mask.sizes());
  if (!sizes) return e.fail("tensor and mask do not broadcast");
  const Expression base = e.fill(Term::integer(0), c.result(0).sizes, x.dtype);
  e.expect_count(base.elements(), [&] { return true_count(e, e.expand(mask, *sizes)); });
  c.set(0, e.put(OpKind::kPutSet, base, order_of(e, e.expand(mask, *sizes)), e.expand(x, *sizes)));
}

void masked_scatter(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self"), given = c.tensor("mask");
  const auto sizes = graph::broadcast_sizes(x.sizes(), given.sizes());
  if (!sizes) return e.fail("tensor and mask do not broadcast");
  const Expression mask = e.expand(given, *sizes);
  c.set(0, choose(mask, e.take(c.tensor("source"), order_of(e, mask)), e.expand(x, *sizes)));
}

void masked_scatter_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression gradient = c.tensor("grad_output"), mask = e.expand(c.tensor("mask"), gradient.sizes());
  c.integers("sizes");
  const Expression base = e.fill(Term::integer(0), c.result(0).sizes, gradient.dtype);
  c.set(0, e.put(OpKind::kPutSet, base, order_of(e, mask), gradient));
}

void nonzero(OpCall& c) {
  Emitter& e = c.emit();
  const Sizes& sizes = c.result(0).sizes;
  if (sizes.empty()) return e.fail("the places of elements are a list of lists");
  std::int64_t filler = 0;
  if (c.has("size")) {
    c.integer("size");
    filler = c.integer("fill_value");
  }
  const Expression x = c.tensor("self");
  std::vector<Term> columns;
  const Expression mask = x != 0;
  if (!c.has("size")) e.expect_count(sizes[0], [&] { return true_count(e, mask); });
  for (const Term& column : true_coordinates(e, mask, sizes[0], filler)) columns.push_back(e.unsqueeze(column, 1));
  c.set(0, columns.empty() ? e.fill(Term::integer(0), sizes, DType::kI64) : e.concat(columns, 1));
}

constexpr Entry kEntries[] = {
    {"aten::_unsafe_masked_index", masked_index},
    {"aten::_unsafe_masked_index_put_accumulate", masked_index_put, Complexity::kParts},
    {"aten::index.Tensor", index, Complexity::kParts},
    {"aten::_unsafe_index.Tensor", index, Complexity::kParts},
    {"aten::index_put", index_put, Complexity::kParts},
    {"aten::_index_put_impl_", index_put, Complexity::kParts},
    {"aten::_unsafe_index_put", index_put, Complexity::kParts},
    {"aten::take", take, Complexity::kParts},
    {"aten::put", put, Complexity::kParts},
    {"aten::masked_select", masked_select, Complexity::kParts},
    {"aten::masked_scatter", masked_scatter, Complexity::kParts},
    {"aten::masked_scatter_backward", masked_scatter_backward, Complexity::kParts},
    {"aten::nonzero", nonzero, Complexity::kMagnitude},
    {"aten::nonzero_static", nonzero, Complexity::kMagnitude},
};

}  // namespace

std::span<const Entry> index_entries() { return kEntries; }

}  // namespace crucible::aten
