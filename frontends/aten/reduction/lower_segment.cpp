// Lowering of reductions over segments of one dimension, whose lengths or ends are data, and of their gradients. Which
// segment an element belongs to is a running count of beginnings; a segment is then a place that many elements are put
// to.
#include <limits>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/reduction/reducing.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The tensor as [outer, length, inner], its segments as [outer, count, inner].
struct Segments {
  std::int64_t outer = 1, length = 0, inner = 1, count = 0;
  Term place;    // [outer, length, inner]: where the element's segment stands among [outer, count, inner]; -1 for no
                 // segment
  Term lengths;  // [outer, count, 1], i64
  Sizes elements() const { return {outer, length, inner}; }
  Sizes totals() const { return {outer, count, inner}; }
};

/// Where segments begin, and where the last one ends: [outer, count + 1].
Expression bounds_of(Emitter& e, OpCall& c, std::int64_t outer) {
  const bool by_offsets = c.has("offsets");
  const Expression given = e.cast(c.tensor(by_offsets ? "offsets" : "lengths"), DType::kI64);
  const Expression rows = e.reshape(given, {outer, outer == 0 ? 0 : given.elements() / outer});
  if (by_offsets) return rows;
  const Expression start = e.fill(Term::integer(0), {outer, 1}, DType::kI64);
  return rows.size(1) == 0 ? start : e.concat({start, running_total(e, OpKind::kScanSum, rows, 1)}, 1);
}

Segments segments_of(OpCall& c, const Sizes& sizes) {
  Emitter& e = c.emit();
  Segments s;
  const auto axis = wrap_dim(c.integer("axis"), static_cast<std::int64_t>(sizes.size()));
  if (c.has("unsafe")) c.boolean("unsafe");
  if (axis < 0 || axis >= static_cast<std::int64_t>(sizes.size())) {
    e.fail("argument axis names no dimension");
    return s;
  }
  const auto middle = sizes.begin() + axis;
  s.outer = graph::View::contiguous({sizes.begin(), middle}).elements();
  s.length = *middle;
  s.inner = graph::View::contiguous({middle + 1, sizes.end()}).elements();
  if (c.has("offsets") == c.has("lengths") || c.has("indices")) {
    e.fail("segments are not given by lengths or offsets alone");
    return s;
  }
  const Expression bounds(e, bounds_of(e, c, s.outer));
  s.count = bounds.size(1) - 1;
  if (s.count < 0) {
    e.fail("argument offsets is empty");
    return s;
  }
  const Expression starts(e, slice(bounds, 1, 0, s.count)), ends(e, slice(bounds, 1, 1, s.count));
  s.lengths = e.unsqueeze(ends - starts, -1);
  // One more column takes the beginnings that lie behind all elements.
  const Expression column = larger(smaller(bounds, s.length), 0);
  const Expression row(e, e.position(0, {s.outer, 1}));
  const Expression steps = e.put(OpKind::kPutAdd, e.fill(Term::integer(0), {s.outer, s.length + 1}, DType::kI64),
                                 row * (s.length + 1) + column, Term::integer(1));
  const Expression segment(e, e.unsqueeze(slice(running_total(e, OpKind::kScanSum, steps, 1), 1, 0, s.length), -1));
  const Expression number = segment - 1;
  const Expression linear(
      e, e.linear_index(s.totals(), {e.position(0, s.elements()), number, e.position(2, s.elements())}));
  const Expression is_inside = (number >= 0) && (number < s.count);
  s.place = e.expand(choose(is_inside, linear, -1), s.elements());
  return s;
}

struct Reduction {
  OpKind put;
  double start;
  bool is_mean = false;
};

Reduction reduction_of(OpCall& c) {
  const std::string how = c.text("reduce");
  if (how == "max") return {OpKind::kPutMax, -kInfinity};
  if (how == "min") return {OpKind::kPutMin, kInfinity};
  if (how == "prod") return {OpKind::kPutMultiply, 1};
  if (how != "sum" && how != "mean") c.emit().fail("argument reduce is none of sum, mean, max, min and prod");
  return {OpKind::kPutAdd, 0, how == "mean"};
}

/// Each segment's elements joined, beginning with `initial`.
void segment_reduce(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("data");
  const Reduction how = reduction_of(c);
  const Segments s = segments_of(c, x.sizes());
  if (!e.failure().empty()) return;
  const Term initial = c.has("initial") ? c.operand("initial") : Term::number(how.start);
  const Expression joined = e.put(how.put, e.fill(initial, s.totals(), x.dtype), s.place, e.reshape(x, s.elements()));
  const Sizes& sizes = c.result(0).sizes;
  if (!how.is_mean) return c.set(0, e.reshape(joined, sizes));
  const Expression total(e, joined), count(e, s.lengths), quotient = total / larger(count, 1).cast(x.dtype);
  const Expression of_nothing(e, c.has("initial") ? joined : e.fill(Term::number(kNan), {}, x.dtype));
  c.set(0, e.reshape(choose(count > 0, quotient, of_nothing), sizes));
}

/// Of each segment what its elements find there; 0 for those in no segment.
Expression found(const Segments& s, const Expression& of_segments) {
  return {of_segments.emitter(), of_segments.emitter().take(of_segments, s.place)};
}

/// For each element the sum of `x` over its segment.
Expression summed(const Segments& s, const Expression& x) {
  Emitter& e = x.emitter();
  return found(s, {e, e.put(OpKind::kPutAdd, e.fill(Term::integer(0), s.totals(), x.dtype), s.place, x)});
}

/// Elements that are the extremum, or NaN, share the gradient; a negative one is not divided, as the framework has it.
Expression extremum_gradient(const Segments& s, const Expression& x, const Expression& result, const Expression& g) {
  const Expression chosen = is_nan(x) || (x == found(s, result));
  const Expression often = larger(summed(s, chosen.cast(x.dtype)), 1.0), whole = found(s, g);
  return choose(chosen, choose(whole > 0, whole / often, whole), 0.0);
}

/// The gradient times all other elements: the product over the element where that can be divided, else the product
/// without it, which hangs on what else is 0 or NaN.
Expression product_gradient(const Segments& s, const Expression& x, const Expression& result, const Expression& g,
                            const Term& initial) {
  Emitter& e = x.emitter();
  const DType dtype = x.dtype;
  const Expression is_zero = x == 0, nan = is_nan(x), apart = is_zero || nan;
  const Expression others =
      e.put(OpKind::kPutMultiply, e.fill(initial, s.totals(), dtype), s.place, choose(apart, 1.0, x));
  const Expression zeros = summed(s, is_zero.cast(dtype)) - is_zero.cast(dtype),
                   nans = summed(s, nan.cast(dtype)) - nan.cast(dtype);
  const Expression rest = found(s, {e, others}) * choose(nans > 0, kNan, choose(zeros > 0, 0.0, 1.0));
  const Expression whole = found(s, g);
  return choose(apart, whole * rest, whole * found(s, result) / x);
}

void segment_reduce_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression data = c.tensor("data");
  const Reduction how = reduction_of(c);
  const Segments s = segments_of(c, data.sizes());
  if (!e.failure().empty()) return;
  const Expression x(e, e.reshape(widened(e, data), s.elements())),
      g(e, e.reshape(c.wide("grad"), s.totals()));
  const Expression result(e, e.reshape(c.wide("output"), s.totals()));
  const Term initial = c.has("initial") ? c.operand("initial") : Term::number(how.start);
  const auto gradient = [&] {
    if (how.put == OpKind::kPutMultiply) return product_gradient(s, x, result, g, initial);
    if (how.put != OpKind::kPutAdd) return extremum_gradient(s, x, result, g);
    return found(s, how.is_mean ? g / Expression(e, s.lengths).cast(x.dtype) : g);
  };
  c.set(0, e.reshape(gradient(), data.sizes()));
}

constexpr Entry kEntries[] = {
    {"aten::segment_reduce", segment_reduce},
    {"aten::_segment_reduce_backward", segment_reduce_backward},
};

}  // namespace

std::span<const Entry> segment_entries() { return kEntries; }

}  // namespace crucible::aten
