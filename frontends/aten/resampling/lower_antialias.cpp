// Lowering of linear and cubic resampling with a filter as wide as the step along the input (antialiasing), with
// gradients: along each side windows of varying place and length, and weights that sum to one.
#include <algorithm>
#include <cmath>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/axis_index.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/pooling/pool_window.hpp"
#include "frontends/aten/resampling/resample_side.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// The filter at distance x: a triangle of width 2, or the cubic of width 4.
Expression filtered(Emitter& e, const Term& x, bool cubic) {
  const Expression distance = e.unary(OpKind::kAbsolute, x);
  const auto polynomial = [&](double a, double b, double c, double d) {
    Term sum = distance * a + b;
    sum = multiply(e, sum, distance) + c;
    return multiply(e, sum, distance) + d;
  };
  const Expression near = distance < 1.0;
  if (!cubic) return choose(near, 1.0 - distance, 0.0);
  constexpr double a = -0.5;
  const Expression outer = choose(distance < 2.0, polynomial(a, -5 * a, 8 * a, -4 * a), 0.0);
  return choose(near, polynomial(a + 2, -(a + 3), 0, 1), outer);
}

/// Windows along one side and the weights of their elements, [output, most elements].
struct Filter {
  WindowIndex window;
  Term weight;
};

Filter filter_of(OpCall& c, const Side& side, DType dtype) {
  Emitter& e = c.emit();
  const bool cubic = c.entry_name().find("cubic") != std::string_view::npos;
  const double scale = scale_of(side, c.boolean("align_corners"), dtype);
  const double half = cubic ? 2 : 1, support = rounded(scale >= 1 ? half * scale : half, dtype);
  const double inverse = scale >= 1 ? rounded(1 / scale, dtype) : 1;
  const auto most = 2 * static_cast<std::int64_t>(std::ceil(support)) + 1;
  const auto whole = [&](const Term& x) { return e.cast(x, DType::kI64); };  // drops the fraction
  const Expression o = e.position(0, {side.output, 1});
  const Expression centre = (e.cast(o, dtype) + 0.5) * scale;
  const Expression low = centre - support + 0.5;
  const Expression high = centre + support + 0.5;
  const Expression begin = e.binary(OpKind::kMaximum, whole(low), Term::integer(0));
  const Expression end = e.binary(OpKind::kMinimum, whole(high), Term::integer(side.input));
  const Expression index = begin + e.position(1, {side.output, most});
  const Expression counted = index < end;
  const Expression from_centre = e.cast(index, dtype) - centre;
  const Expression distance = (from_centre + 0.5) * inverse;
  const Expression raw = choose(counted, filtered(e, distance, cubic), 0.0);
  const Expression total = e.sum(raw, {1});
  const Expression divisor = choose(total == 0.0, 1.0, total);
  const Expression inside = smaller(index, Term::integer(side.input - 1));
  return {{inside, counted}, e.binary(OpKind::kDivide, raw, divisor)};
}

/// [output, elements] as a tensor of `rank` dimensions: along `dim` and along the last one.
Expression over_windows(Emitter& e, const Term& x, std::int64_t dim, std::int64_t rank) {
  Sizes sizes(static_cast<std::size_t>(rank), 1);
  sizes[static_cast<std::size_t>(dim)] = x.size(0);
  sizes.back() = x.size(1);
  return e.reshape(x, sizes);
}

void resample(OpCall& c) {
  Emitter& e = c.emit();
  Term x = c.wide("self");
  if (!is_floating(x.dtype)) return e.fail("resampling integers is not supported");
  const auto sides = sides_of(c, x.sizes(), c.result(0).sizes);
  for (std::size_t i = sides.size(); i-- > 0;) {
    const Filter filter = filter_of(c, sides[i], x.dtype);
    const Gathered g = gather_windows(e, x, {sides[i].dim}, {filter.window});
    const Expression seen = e.select(*g.counted, g.elements, Term::number(0));
    const Expression weight = over_windows(e, filter.weight, sides[i].dim, seen.rank());
    x = e.drop(e.sum(multiply(e, seen, weight), {-1}), {-1});
  }
  c.set(0, x);
}

void resample_backward(OpCall& c) {
  Emitter& e = c.emit();
  Term g = c.wide("grad_output");
  const Sizes input = c.integers("input_size");
  for (const Side& side : sides_of(c, input, g.sizes())) {
    const Filter filter = filter_of(c, side, g.dtype);
    const std::int64_t rank = g.rank() + 1;
    const Expression part = multiply(e, e.unsqueeze(g, -1), over_windows(e, filter.weight, side.dim, rank));
    Sizes sizes = g.sizes();
    sizes[static_cast<std::size_t>(side.dim)] = side.input;
    std::vector<Term> indices;
    for (std::int64_t d = 0; d < g.rank(); ++d) indices.push_back(e.position(d, part.sizes()));
    indices[static_cast<std::size_t>(side.dim)] = over_windows(e, filter.window.index, side.dim, rank);
    const Expression place = e.linear_index(sizes, indices);
    const Expression counted = over_windows(e, *filter.window.counted, side.dim, rank);
    g = e.put(OpKind::kPutAdd, e.fill(Term::number(0), sizes, g.dtype), choose(counted, place, -1), part);
  }
  c.set(0, g);
}

constexpr Entry kEntries[] = {
    {"aten::_upsample_bilinear2d_aa", resample},
    {"aten::_upsample_bilinear2d_aa_backward", resample_backward},
    {"aten::_upsample_bicubic2d_aa", resample},
    {"aten::_upsample_bicubic2d_aa_backward", resample_backward},
};

}  // namespace

std::span<const Entry> antialias_entries() { return kEntries; }

}  // namespace crucible::aten
