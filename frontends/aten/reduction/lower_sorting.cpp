// Lowering of running totals and extrema, sorting, and order statistics.
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

template <OpKind kind>
void total_so_far(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = e.cast(c.tensor("self"), compute_dtype(c.result(0).dtype));
  c.set(0, running_total(e, kind, x, c.integer("dim")));
}

template <OpKind kind>
void extremum_so_far(OpCall& c) {
  const Placed found = running_extremum(c.emit(), kind, c.tensor("self"), c.integer("dim"));
  c.set(0, found.values);
  c.set(1, found.index);
}

void sort(OpCall& c) {
  const Placed all = sorted(c.emit(), c.tensor("self"), c.integer("dim"), c.boolean("descending"));
  c.set(0, all.values);
  c.set(1, all.index);
}

/// Sorted whether or not that is asked for; of equal elements the first ones.
void top_k(OpCall& c) {
  const std::int64_t dim = c.integer("dim"), k = c.integer("k");
  const Placed all = sorted(c.emit(), c.tensor("self"), dim, c.boolean("largest"));
  c.set(0, slice(all.values, dim, 0, k));
  c.set(1, slice(all.index, dim, 0, k));
}

/// The element at `rank` (0 the smallest) of each line.
void kth_value(OpCall& c) {
  const std::int64_t dim = c.integer("dim"), rank = c.integer("k") - 1;
  const Placed all = sorted(c.emit(), c.tensor("self"), dim, false);
  c.set(0, kept_or_dropped(c, slice(all.values, dim, rank, 1), {dim}));
  c.set(1, kept_or_dropped(c, slice(all.index, dim, rank, 1), {dim}));
}

/// The lower of two middle elements; the first NaN where there is one.
Placed median_of(Emitter& e, const Term& x, std::int64_t dim) {
  const std::int64_t middle = x.rank() == 0 ? 0 : (x.size(dim) - 1) / 2;
  const Placed all = sorted(e, x, dim, false);
  Placed found{slice(all.values, dim, middle, 1), slice(all.index, dim, middle, 1)};
  if (!is_floating(x.dtype)) return found;
  const Expression top = e.max(x, {dim}), nan = is_nan(top);
  return {choose(nan, top, found.values),
          choose(nan, place_of_extremum(e, OpKind::kArgMax, x, dim), found.index)};
}

/// The lower of two middle elements of those that are not NaN; NaN where there is none.
Placed nan_median_of(Emitter& e, const Term& x, std::int64_t dim) {
  if (!is_floating(x.dtype) || x.rank() == 0) return median_of(e, x, dim);
  const Placed all = sorted(e, x, dim, false);
  const Expression missing = e.sum(e.cast(e.unary(OpKind::kIsNan, x), DType::kI64), {dim});
  // Floor of (count - 1) / 2 in f64, which holds every count exactly; of nothing the first.
  const Expression last = Term::integer(x.size(dim) - 1) - missing;
  const Expression half = e.cast(last, DType::kF64) * 0.5;
  const Expression middle = e.cast(larger(half, 0.0).unary(OpKind::kFloor), DType::kI64);
  return {at_place(e, all.values, middle, dim), at_place(e, all.index, middle, dim)};
}

template <Placed (*statistic)(Emitter&, const Term&, std::int64_t)>
void of_all(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  if (x.elements() == 0) return c.set(0, e.fill(Term::number(std::numeric_limits<double>::quiet_NaN()), {}, x.dtype));
  c.set(0, e.reshape(statistic(e, e.reshape(x, {x.elements()}), 0).values, {}));
}

template <Placed (*statistic)(Emitter&, const Term&, std::int64_t)>
void of_lines(OpCall& c) {
  const std::int64_t dim = c.integer("dim");
  const Placed found = statistic(c.emit(), c.tensor("self"), dim);
  c.set(0, kept_or_dropped(c, found.values, {dim}));
  c.set(1, kept_or_dropped(c, found.index, {dim}));
}

/// The element that occurs most often, the smallest of several; the last of them in sorted order.
Placed mode_of(Emitter& e, const Term& x, std::int64_t dim) {
  const Placed all = sorted(e, x, dim, false);
  if (x.rank() == 0) return all;
  const std::int64_t length = x.size(dim);
  const Expression here = e.coordinate(dim, x.sizes(), DType::kI64);
  // Where a run of equal elements begins: at 0, and where an element differs from the one before it.
  std::vector<Term> starts{e.fill(Term::integer(0), slice(x, dim, 0, 1).sizes(), DType::kI64)};
  if (length > 1) {
    const Expression differs =
        e.binary(OpKind::kNotEqual, slice(all.values, dim, 1, length - 1), slice(all.values, dim, 0, length - 1));
    starts.push_back(e.select(differs, slice(here, dim, 1, length - 1), e.fill(Term::integer(0), {}, DType::kI64)));
  }
  const Term start = running_extremum(e, OpKind::kScanMax, e.concat(starts, dim), dim).values;
  const Term place = place_of_extremum(e, OpKind::kArgMax, here - start, dim);
  return {at_place(e, all.values, place, dim), at_place(e, all.index, place, dim)};
}

/// How many boundaries are below each value, or not above it with `right`; all of them for NaN.
void count_below(OpCall& c, const Term& boundaries, const Term& values, bool right) {
  Emitter& e = c.emit();
  const DType common = promote({boundaries, values});
  const Expression column = values.is_number() ? e.fill(values, {1}, common) : e.unsqueeze(e.cast(values, common), -1);
  // [..., 1, m] beside [..., n, 1]; a single row of boundaries is for all values.
  const Term row = boundaries.rank() == 1 ? boundaries : e.unsqueeze(boundaries, -2);
  const Expression above = e.binary(right ? OpKind::kGreater : OpKind::kGreaterEqual, e.cast(row, common), column);
  const Expression below = e.cast(!above, DType::kI64);
  const Expression count = e.drop(e.sum(below, {-1}), {-1});
  c.set(0, values.is_number() ? count : e.reshape(count, values.sizes()));
}

/// The boundaries in the order that the argument `sorter` gives to each row, or as they are.
Term sorted_sequence(OpCall& c) {
  Emitter& e = c.emit();
  const Expression given = c.tensor("sorted_sequence");
  if (!c.has("sorter")) return given;
  const Expression order = c.tensor("sorter");
  if (order.sizes() != given.sizes() || order.rank() == 0) {
    e.fail("argument sorter has not the sizes of the boundaries");
    return given;
  }
  std::vector<Term> place;
  for (std::int64_t d = 0; d + 1 < given.rank(); ++d) place.push_back(e.position(d, given.sizes()));
  place.push_back(order);
  return e.take_at(given, place);
}

void search_sorted(OpCall& c) {
  const bool right = c.boolean("right") || c.text("side") == "right";
  const bool scalar = c.entry_name() == "aten::searchsorted.Scalar";
  count_below(c, sorted_sequence(c), scalar ? c.operand("self") : c.tensor("self"), right);
}

void bucketize(OpCall& c) {
  const bool scalar = c.entry_name() == "aten::bucketize.Scalar";
  count_below(c, c.tensor("boundaries"), scalar ? c.operand("self") : c.tensor("self"), c.boolean("right"));
}

constexpr Entry kEntries[] = {
    {"aten::cumsum", total_so_far<OpKind::kScanSum>, Complexity::kParts},
    {"aten::cumprod", total_so_far<OpKind::kScanProduct>},
    {"aten::cummax", extremum_so_far<OpKind::kScanMax>},
    {"aten::cummin", extremum_so_far<OpKind::kScanMin>},
    {"aten::sort", sort},
    {"aten::sort.stable", sort},
    {"aten::topk", top_k},
    {"aten::kthvalue", kth_value},
    {"aten::median", of_all<median_of>},
    {"aten::median.dim", of_lines<median_of>},
    {"aten::nanmedian", of_all<nan_median_of>},
    {"aten::nanmedian.dim", of_lines<nan_median_of>},
    {"aten::mode", of_lines<mode_of>},
    {"aten::searchsorted.Tensor", search_sorted},
    {"aten::searchsorted.Scalar", search_sorted},
    {"aten::bucketize.Tensor", bucketize},
    {"aten::bucketize.Scalar", bucketize},
};

}  // namespace

std::span<const Entry> sorting_entries() { return kEntries; }

}  // namespace crucible::aten
