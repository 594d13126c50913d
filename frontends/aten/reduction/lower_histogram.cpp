// Lowering of counting into bins: of whole numbers, of equal widths, and between edges along several dimensions.
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr std::int64_t kMostBins = std::numeric_limits<std::int32_t>::max();

/// Adds up `weights` [n] by bin [n]; bin `count` is no bin.
Expression counted(Emitter& e, const Term& weights, const Term& bins, std::int64_t count) {
  const Expression rows = e.reshape(weights, {weights.elements(), 1});
  const Expression sums = e.scatter_add_rows(rows, e.reshape(bins, {bins.elements()}), count + 1, count);
  return e.reshape(slice(sums, 0, 0, count), {count});
}

/// Bins of equal width between min and max, which belongs to the last; equal ends stand for those of the data.
void equal_widths(OpCall& c) {
  Emitter& e = c.emit();
  const Expression given = c.tensor("self");
  const Expression x = widened(e, e.reshape(given, {given.elements()}));
  const std::int64_t bins = c.integer("bins");
  if (bins < 1 || bins > kMostBins) return e.fail("argument bins is not positive, or too large");
  Term low = e.fill(Term::number(c.real("min")), {}, x.dtype), high = e.fill(Term::number(c.real("max")), {}, x.dtype);
  if (c.real("min") == c.real("max") && x.elements() > 0) {
    low = e.drop(reduced(e, OpKind::kReduceMin, x, {0}), {0});
    high = e.drop(reduced(e, OpKind::kReduceMax, x, {0}), {0});
  }
  const Expression same = e.binary(OpKind::kEqual, low, high), one = e.fill(Term::number(1), {}, x.dtype);
  low = choose(same, low - one, low);
  high = choose(same, high + one, high);
  const Expression scaled = multiply(e, x - low, Term::number(static_cast<double>(bins)));
  Term bin = e.cast(scaled / e.binary(OpKind::kSubtract, high, low), DType::kI64);
  bin = e.binary(OpKind::kMinimum, bin, Term::integer(bins - 1));
  const Expression inside = (x >= low) && (x <= high);
  bin = choose(inside, bin, e.fill(Term::integer(bins), {}, DType::kI64));
  c.set(0, counted(e, e.fill(Term::number(1), x.sizes(), x.dtype), bin, bins));
}

/// The number of bins is the recorded one: it depends on the data.
void bin_count(OpCall& c) {
  Emitter& e = c.emit();
  const Expression bins = e.cast(c.tensor("self"), DType::kI64);
  const DType dtype = c.result(0).dtype;
  if (c.result(0).sizes.empty() || bins.rank() != 1) return e.fail("what is counted, and the counts, are lists");
  const std::int64_t count = c.result(0).sizes[0];
  if (bins.elements() > 0 && count > (c.has("minlength") ? c.integer("minlength") : 0)) {
    e.expect_count(count - 1, [&] { return e.drop(reduced(e, OpKind::kReduceMax, bins, {0}), {0}); });
  } else if (bins.elements() > 0) {
    e.expect_at_most(count - 1, bins);
  }
  const Expression weights =
      c.has("weights") ? e.cast(c.tensor("weights"), dtype) : e.fill(Term::integer(1), bins.sizes(), dtype);
  c.set(0, counted(e, weights, bins, count));
}

/// The edges of the bins along one dimension, rising.
using Edges = std::vector<Term>;

/// `counts` bins of equal width along each dimension of `points` [n, dimensions], from the argument `range` or over all
/// points.
Edges even_edges(OpCall& c, const Term& points, const std::vector<std::int64_t>& counts) {
  Emitter& e = c.emit();
  Edges edges;
  const std::vector<Term> range = c.has("range") ? c.operands("range") : std::vector<Term>{};
  if (!range.empty() && range.size() != 2 * counts.size()) {
    e.fail("argument range has not two numbers for each dimension");
    return edges;
  }
  for (std::size_t d = 0; d < counts.size(); ++d) {
    if (counts[d] < 1 || counts[d] >= kMostBins) {
      e.fail("argument bins is not positive, or too large");
      return edges;
    }
    const auto end = [&](std::size_t k) {
      if (!range.empty()) return Expression(e, e.fill(range[2 * d + k], {}, points.dtype));
      if (points.size(0) == 0)
        return Expression(e, e.fill(Term::integer(static_cast<std::int64_t>(k)), {}, points.dtype));
      const Expression column = e.drop(slice(points, 1, static_cast<std::int64_t>(d), 1), {1});
      return Expression(e, e.drop(reduced(e, k == 0 ? OpKind::kReduceMin : OpKind::kReduceMax, column, {0}), {0}));
    };
    const Expression low = end(0), high = end(1), same = low == high;
    edges.push_back(evenly_spaced(e, choose(same, low - 0.5, low), choose(same, high + 0.5, high), counts[d] + 1));
  }
  return edges;
}

/// How often points lie between edges, the last bin with both of its own; points outside and NaN do not count.
Term histogram(OpCall& c, const Term& points, const Edges& edges) {
  Emitter& e = c.emit();
  Sizes sizes;
  std::vector<Term> places;
  Expression inside(e, e.fill(Term::integer(1), {points.size(0)}, DType::kBool));
  for (std::size_t d = 0; d < edges.size(); ++d) {
    const std::int64_t count = edges[d].size(0);
    if (edges[d].rank() != 1 || count < 2) {
      e.fail("fewer than two edges of bins");
      return points;
    }
    const Expression row = e.cast(edges[d], points.dtype);
    const Expression column(e, slice(points, 1, static_cast<std::int64_t>(d), 1));
    const Expression reached = (column >= row).cast(DType::kI64);
    const Expression place(e, e.drop(e.sum(reached, {1}), {1}));
    const Expression x(e, e.drop(column, {1}));
    inside = inside && (x >= e.drop(slice(row, 0, 0, 1), {0})) && (x <= e.drop(slice(row, 0, count - 1, 1), {0}));
    places.push_back(larger(smaller(place - 1, count - 2), 0));
    sizes.push_back(count - 1);
  }
  const std::int64_t bins = graph::View::contiguous(sizes).elements();
  if (bins >= kMostBins) e.fail("too many bins");
  const Expression place = e.expand(choose(inside, e.linear_index(sizes, places), bins), {points.size(0)});
  const Expression weights = c.has("weight") ? e.reshape(e.cast(c.tensor("weight"), points.dtype), {points.size(0)})
                                             : e.fill(Term::number(1), {points.size(0)}, points.dtype);
  if (!e.failure().empty()) return points;
  const Expression hits(e, e.reshape(counted(e, weights, place, bins), sizes));
  if (!c.boolean("density")) return hits;
  Expression density = hits / e.sum(hits, all_dims(hits));
  for (std::size_t d = 0; d < edges.size(); ++d) {
    const Expression row = e.cast(edges[d], points.dtype);
    const std::int64_t count = row.size(0) - 1;
    Sizes along(sizes.size(), 1);
    along[d] = count;
    density = density / e.reshape(e.binary(OpKind::kSubtract, slice(row, 0, 1, count), slice(row, 0, 0, count)), along);
  }
  return density;
}

/// [n, dimensions]: the last dimension of the argument, or one for all elements.
Term points_of(OpCall& c, bool of_elements) {
  Emitter& e = c.emit();
  const Expression given = c.tensor("self");
  const std::int64_t width = of_elements ? 1 : given.size(-1);
  if (width == 0) e.fail("points without dimensions");
  return e.reshape(given, {width == 0 ? 0 : given.elements() / width, width});
}

void histogram_of_count(OpCall& c) {
  const Term points = points_of(c, true);
  const Edges edges = even_edges(c, points, {c.integer("bins")});
  if (!c.emit().failure().empty()) return;
  c.set(0, histogram(c, points, edges));
  c.set(1, edges[0]);
}

void histogram_of_edges(OpCall& c) {
  const Term points = points_of(c, true), edges = c.tensor("bins");
  c.set(0, histogram(c, points, {edges}));
  c.set(1, edges);
}

/// One entry for each dimension of the points.
bool fit(Emitter& e, const Term& points, std::size_t bins) {
  const bool agree = static_cast<std::size_t>(points.size(1)) == bins;
  if (!agree) e.fail("argument bins has not one entry for each dimension of the points");
  return agree;
}

void edges_of_counts(OpCall& c) {
  const Term points = points_of(c, false);
  const auto counts = c.integers("bins");
  if (!fit(c.emit(), points, counts.size())) return;
  if (c.has("density")) c.boolean("density");
  const Edges edges = even_edges(c, points, counts);
  for (std::size_t d = 0; d < edges.size(); ++d) c.set(d, edges[d]);
}

void points_by_counts(OpCall& c) {
  const Term points = points_of(c, false);
  const auto counts = c.integers("bins");
  if (!fit(c.emit(), points, counts.size())) return;
  const Edges edges = even_edges(c, points, counts);
  if (c.emit().failure().empty()) c.set(0, histogram(c, points, edges));
}

void points_by_edges(OpCall& c) {
  const Term points = points_of(c, false);
  const Edges edges = c.tensors("bins");
  if (fit(c.emit(), points, edges.size())) c.set(0, histogram(c, points, edges));
}

constexpr Entry kEntries[] = {
    {"aten::histc", equal_widths},
    {"aten::bincount", bin_count},
    {"aten::histogram.bin_ct", histogram_of_count},
    {"aten::histogram.bins_tensor", histogram_of_edges},
    {"aten::_histogramdd_bin_edges", edges_of_counts},
    {"aten::_histogramdd_from_bin_cts", points_by_counts},
    {"aten::_histogramdd_from_bin_tensors", points_by_edges},
};

}  // namespace

std::span<const Entry> histogram_entries() { return kEntries; }

}  // namespace crucible::aten
