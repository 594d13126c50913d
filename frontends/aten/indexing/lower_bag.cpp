// Lowering of bags of embeddings and of products over groups of rows: which group a row belongs to comes from data.
#include <cmath>

#include "core/graph/view.hpp"
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/algebra/rounding.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;
using graph::View;

enum Mode : std::int64_t { kSum = 0, kMean = 1, kMax = 2 };

/// The first `count` of a row; a tensor that is no row stays as it is and is refused by what reads it.
Term first_of(const Term& row, std::int64_t count) {
  if (row.rank() != 1 || row.elements() < count) return row;
  Term part = row;
  part.operand.view.sizes[0] = count;
  return part;
}

/// How many of the ascending `bounds` are at most each of the numbers 0 .. count: i64 [count].
Expression bounds_passed(Emitter& e, const Term& bounds, std::int64_t count) {
  const std::int64_t groups = bounds.elements();
  const Expression place = e.position(0, {count, groups});
  const Expression passed = place >= e.reshape(bounds, {1, groups});
  return e.drop(e.sum(e.cast(e.expand(passed, {count, groups}), DType::kI64), {1}), {1});
}

/// What every op on bags starts from.
struct Bags {
  Term ids;         // i64 [n]
  Term bag;         // of each id: i64 [n]
  Term is_counted;  // of each id: bool [n], false for padding
  std::int64_t count = 0;
  std::int64_t padding = -1;
};

Bags read_bags(OpCall& c, std::int64_t count) {
  Emitter& e = c.emit();
  Bags bags;
  bags.count = count;
  bags.ids = e.cast(c.tensor("indices"), DType::kI64);
  bags.padding = c.has("padding_idx") ? c.integer("padding_idx") : -1;
  if (c.has("offsets")) {
    const Term offsets = first_of(c.tensor("offsets"), count);
    e.expect_in(offsets, 0, bags.ids.elements());
    const Expression passed = bounds_passed(e, offsets, bags.ids.elements());
    bags.bag = e.binary(OpKind::kSubtract, passed, Term::integer(1));
  } else {  // the dense gradient alone is called with the bags themselves
    bags.bag = e.cast(c.tensor("offset2bag"), DType::kI64);
  }
  bags.is_counted = e.binary(OpKind::kNotEqual, bags.ids, Term::integer(bags.padding));
  return bags;
}

/// Ids of a bag that are not padding: i64 [bags].
Expression members(Emitter& e, const Bags& bags) {
  const Expression zeros = e.fill(Term::integer(0), {bags.count}, DType::kI64);
  return e.put(OpKind::kPutAdd, zeros, bags.bag, e.cast(bags.is_counted, DType::kI64));
}

/// A row's number repeated over the columns, -1 where it does not count: places in a [rows, width] tensor.
Expression places(Emitter& e, const Term& row, const Term& counts, std::int64_t width) {
  const Sizes sizes = {row.elements(), width};
  const Expression place = e.linear_index({1, width}, {Term::integer(0), e.position(1, sizes)});
  const Expression start = e.unsqueeze(row, 1) * Term::integer(width);
  return e.expand(choose(e.unsqueeze(counts, 1), start + place, -1), sizes);
}

void embedding_bag(OpCall& c) {
  Emitter& e = c.emit();
  const Expression weight = c.tensor("weight");
  const std::int64_t mode = c.integer("mode"), width = weight.size(1);
  const Bags bags = read_bags(c, c.result(0).sizes[0]);
  e.expect_in(bags.ids, 0, weight.size(0) - 1);
  const Expression rows = widened(e, e.gather_rows(weight, bags.ids));
  const DType dtype = rows.dtype;
  const Sizes sizes = {bags.count, width};
  const Expression place = places(e, bags.bag, bags.is_counted, width);
  const Expression count = members(e, bags);
  const Expression is_empty = e.unsqueeze(count == 0, 1);
  if (c.wants(1) && c.result(1).sizes == bags.bag.sizes()) c.set(1, bags.bag);
  if (c.wants(1) && c.result(1).sizes != bags.bag.sizes()) c.set(1, Term::integer(0));
  if (mode == kMax) {
    const Expression lowest = e.fill(Term::number(-HUGE_VAL), sizes, dtype);
    const Expression most = e.put(OpKind::kPutMax, lowest, place, rows);
    c.set(0, choose(is_empty, 0, most));
    c.set(2, count);
    // The first id of the bag that has the largest element.
    const Sizes full = {bags.ids.elements(), width};
    const Expression mine = e.reshape(e.take(most, place), full);
    const Expression is_most = (rows == mine) || is_nan(rows);
    const Expression none = e.fill(Term::integer(bags.ids.elements()), sizes, DType::kI64);
    const Expression first =
        e.put(OpKind::kPutMin, none, choose(is_most, place, -1), e.expand(e.position(0, full), full));
    if (c.wants(3) && c.result(3).sizes == sizes) c.set(3, e.take(bags.ids, first));
    return;
  }
  Term scaled = rows;
  if (c.has("per_sample_weights")) {
    scaled = rows * e.unsqueeze(c.wide("per_sample_weights"), 1);
  }
  Term total = e.put(OpKind::kPutAdd, e.fill(Term::integer(0), sizes, dtype), place, scaled);
  if (mode == kMean) {
    const Expression divisor = e.unsqueeze(e.cast(larger(count, 1), dtype), 1);
    total = total / divisor;
  }
  c.set(0, total);
  c.set(2, count);
  if (c.wants(3)) c.set(3, Term::integer(0));
}

void embedding_bag_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.tensor("grad");
  const std::int64_t mode = c.integer("mode"), rows = c.integer("num_weights"), width = g.size(1);
  if (c.has("sparse") && c.boolean("sparse")) return e.fail("sparse gradients of embeddings are not supported");
  const Bags bags = read_bags(c, g.size(0));
  const Expression gradient = widened(e, g);
  const Sizes sizes = {rows, width};
  if (mode == kMax) {
    const Expression count = members(e, bags), chosen = e.cast(c.tensor("maximum_indices"), DType::kI64);
    const Expression is_full = e.unsqueeze(count > 0, 1);
    const Expression place = e.linear_index(sizes, {chosen, e.position(1, g.sizes())});
    const Expression zeros = e.fill(Term::integer(0), sizes, gradient.dtype);
    return c.set(0, e.put(OpKind::kPutAdd, zeros, choose(is_full, place, -1), gradient));
  }
  Term each = e.gather_rows(gradient, bags.bag);
  if (c.has("per_sample_weights")) {
    each = each * e.unsqueeze(c.wide("per_sample_weights"), 1);
  }
  if (c.boolean("scale_grad_by_freq")) {
    const Expression zeros = e.fill(Term::integer(0), {rows}, DType::kI64);
    const Expression often = e.take(e.put(OpKind::kPutAdd, zeros, bags.ids, Term::integer(1)), bags.ids);
    each = each / e.unsqueeze(e.cast(often, gradient.dtype), 1);
  }
  if (mode == kMean) {
    const Expression count = e.take(larger(members(e, bags), 1), bags.bag);
    each = each / e.unsqueeze(e.cast(count, gradient.dtype), 1);
  }
  c.set(0, e.scatter_add_rows(each, bags.ids, rows, bags.padding));
}

/// The gradient of each id's weight: its row times the gradient of its bag.
void weights_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad"), weight = c.wide("weight");
  c.integer("mode");  // sum: the framework allows weights for nothing else
  const Bags bags = read_bags(c, g.size(0));
  const Expression products = e.gather_rows(g, bags.bag) * e.gather_rows(weight, bags.ids);
  c.set(0, e.select(bags.is_counted, e.drop(e.sum(products, {1}), {1}), Term::integer(0)));
}

/// Whether each of `count` positions belongs to each of the groups that end at `ends`: bool [groups, count].
Expression belongs(Emitter& e, const Term& ends, std::int64_t count) {
  const std::int64_t groups = ends.elements();
  const Expression group = e.unsqueeze(bounds_passed(e, ends, count), 0);
  return e.expand(group == e.position(0, {groups, count}), {groups, count});
}

/// A product for each group. Rows (or columns, or terms of the sums) that are not the group's are masked on both
/// sides: what stands there may be anything.
void grouped_mm(OpCall& c) {
  Emitter& e = c.emit();
  const Expression a = c.tensor("self"), b = c.tensor("mat2");
  if (c.has("bias")) return e.fail("a grouped product with a bias is not supported");
  if (a.rank() == 3 && b.rank() == 3) return c.set(0, e.matmul(a, b));
  const Expression ends = c.tensor("offs");
  const std::int64_t groups = ends.elements();
  const Expression wide_a = a.rank() == 2 ? e.expand(a, {groups, a.size(0), a.size(1)}) : a;
  const Expression wide_b = b.rank() == 2 ? e.expand(b, {groups, b.size(0), b.size(1)}) : b;
  const Term zero = Term::integer(0);
  if (a.rank() == 2 && b.rank() == 2) {  // the groups divide the sums
    const Expression mine = belongs(e, ends, a.size(1));
    return c.set(0, e.matmul(choose(e.unsqueeze(mine, 1), wide_a, zero), choose(e.unsqueeze(mine, 2), wide_b, zero)));
  }
  const bool divides_rows = a.rank() == 2;
  const Expression mine = belongs(e, ends, divides_rows ? a.size(0) : b.size(1));
  const Term products = unrounded(e, e.matmul(wide_a, wide_b));
  const Expression kept = choose(e.unsqueeze(mine, divides_rows ? 2 : 1), products, zero);
  c.set(0, e.drop(e.sum(kept, {0}), {0}));
}

constexpr Entry kEntries[] = {
    {"aten::_embedding_bag", embedding_bag},
    {"aten::_embedding_bag_forward_only", embedding_bag},
    {"aten::_embedding_bag_backward", embedding_bag_backward},
    {"aten::_embedding_bag_dense_backward", embedding_bag_backward},
    {"aten::_embedding_bag_per_sample_weights_backward", weights_backward},
    {"aten::_grouped_mm", grouped_mm},
};

}  // namespace

std::span<const Entry> bag_entries() { return kEntries; }

}  // namespace crucible::aten
