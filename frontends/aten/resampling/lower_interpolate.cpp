// Lowering of linear and cubic resampling over one to three dimensions, with gradients, side by side: each output along a
// side is a weighted sum of a few inputs, at places and with weights that follow the framework's arithmetic.
#include <algorithm>
#include <cmath>

#include "frontends/aten/algebra/formulas.hpp"
#include "frontends/aten/indexing/axis_index.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/pooling/pool_window.hpp"
#include "frontends/aten/resampling/resample_axis.hpp"
#include "frontends/aten/resampling/resample_side.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// What an output along one side is made from: inputs and weights, each [output].
struct Tap {
  Term index, weight;
};

/// Where each output lies on the input, [output] in `dtype`.
Term place_of(Emitter& e, const Side& side, bool align_corners, bool cubic, DType dtype) {
  const Term o = e.coordinate(0, {side.output}, dtype);
  const Term scale = Term::number(scale_of(side, align_corners, dtype));
  if (align_corners) return multiply(e, o, scale);
  const Term centre = multiply(e, e.binary(OpKind::kAdd, o, Term::number(0.5)), scale);
  const Term place = e.binary(OpKind::kSubtract, centre, Term::number(0.5));
  return cubic ? place : e.binary(OpKind::kMaximum, place, Term::number(0));
}

Term clamped(Emitter& e, const Term& x, std::int64_t most) {
  return e.binary(OpKind::kMinimum, e.binary(OpKind::kMaximum, x, Term::integer(0)), Term::integer(most));
}

Term between_zero_and_one(Emitter& e, const Term& x) {
  return e.binary(OpKind::kMinimum, e.binary(OpKind::kMaximum, x, Term::number(0)), Term::number(1));
}

/// Both neighbours of each output, the second with the weight of the distance from the first.
std::vector<Tap> linear_taps(Emitter& e, const Side& side, bool align_corners, DType dtype) {
  const Term place = place_of(e, side, align_corners, false, dtype);
  const Term first = clamped(e, e.cast(e.unary(OpKind::kFloor, place), DType::kI64), side.input - 1);
  const Term share = between_zero_and_one(e, e.binary(OpKind::kSubtract, place, e.cast(first, dtype)));
  const Term second = clamped(e, e.binary(OpKind::kAdd, first, Term::integer(1)), side.input - 1);
  return {{first, e.binary(OpKind::kSubtract, Term::number(1), share)}, {second, share}};
}

/// a x + b with the numbers of the cubic polynomials.
Term line(Emitter& e, const Term& x, double factor, double summand) {
  return e.binary(OpKind::kAdd, multiply(e, x, Term::number(factor)), Term::number(summand));
}

constexpr double kCubic = -0.75;

/// The polynomial of the two inner neighbours, and that of the two outer ones.
Term inner_weight(Emitter& e, const Term& x) {
  return e.binary(OpKind::kAdd, multiply(e, multiply(e, line(e, x, kCubic + 2, -(kCubic + 3)), x), x), Term::number(1));
}

Term outer_weight(Emitter& e, const Term& x) {
  const Term two = line(e, x, kCubic, -5 * kCubic);
  const Term one = e.binary(OpKind::kAdd, multiply(e, two, x), Term::number(8 * kCubic));
  return e.binary(OpKind::kSubtract, multiply(e, one, x), Term::number(4 * kCubic));
}

std::vector<Tap> cubic_taps(Emitter& e, const Side& side, bool align_corners, DType dtype) {
  const Term place = place_of(e, side, align_corners, true, dtype);
  const Term whole = e.cast(e.unary(OpKind::kFloor, place), DType::kI64);
  const Term first = e.binary(OpKind::kMinimum, whole, Term::integer(side.input - 1));
  const Term t = between_zero_and_one(e, e.binary(OpKind::kSubtract, place, e.cast(first, dtype)));
  const Term rest = e.binary(OpKind::kSubtract, Term::number(1), t);
  const auto index = [&](std::int64_t shift) {
    return clamped(e, e.binary(OpKind::kAdd, first, Term::integer(shift)), side.input - 1);
  };
  return {{index(-1), outer_weight(e, e.binary(OpKind::kAdd, t, Term::number(1)))},
          {index(0), inner_weight(e, t)},
          {index(1), inner_weight(e, rest)},
          {index(2), outer_weight(e, e.binary(OpKind::kAdd, rest, Term::number(1)))}};
}

std::vector<Tap> taps_of(OpCall& c, const Side& side, DType dtype) {
  const bool align_corners = c.boolean("align_corners");
  const bool cubic = c.entry_name().find("cubic") != std::string_view::npos;
  return cubic ? cubic_taps(c.emit(), side, align_corners, dtype) : linear_taps(c.emit(), side, align_corners, dtype);
}

/// Nothing happens along a side of the same length, except that cubic weights of a shifted grid may.
bool is_kept(OpCall& c, const Side& side) {
  const bool cubic = c.entry_name().find("cubic") != std::string_view::npos;
  return side.input == side.output && !cubic;
}

void interpolate_image(OpCall& c) {
  Emitter& e = c.emit();
  Term x = widened(e, c.tensor("self"));
  if (!is_floating(x.dtype)) return e.fail("resampling integers is not supported");
  const auto sides = sides_of(c, x.sizes(), c.result(0).sizes);
  for (std::size_t i = sides.size(); i-- > 0;) {
    const Side& side = sides[i];
    c.boolean("align_corners");
    if (is_kept(c, side)) continue;
    Term sum;
    bool empty = true;
    for (const Tap& tap : taps_of(c, side, x.dtype)) {
      const Term part = multiply(e, take_along(e, x, side.dim, tap.index), laid_along(e, tap.weight, side.dim, x.rank()));
      sum = empty ? part : e.binary(OpKind::kAdd, sum, part);
      empty = false;
    }
    x = sum;
  }
  c.set(0, x);
}

void interpolate_image_backward(OpCall& c) {
  Emitter& e = c.emit();
  Term g = widened(e, c.tensor("grad_output"));
  const Sizes input = c.integers("input_size");
  const bool cubic = c.entry_name().find("cubic") != std::string_view::npos;
  const auto sides = sides_of(c, input, g.sizes());
  bool same = true;
  for (const Side& side : sides) same = same && side.input == side.output;
  c.boolean("align_corners");
  if (same && cubic) return c.set(0, g);  // the framework's gradient copies here
  for (const Side& side : sides) {
    if (is_kept(c, side)) continue;
    Term sum;
    bool empty = true;
    for (const Tap& tap : taps_of(c, side, g.dtype)) {
      const Term part = multiply(e, g, laid_along(e, tap.weight, side.dim, g.rank()));
      const Term added = add_along(e, part, side.dim, tap.index, side.input);
      sum = empty ? added : e.binary(OpKind::kAdd, sum, added);
      empty = false;
    }
    g = sum;
  }
  c.set(0, g);
}

constexpr Entry kEntries[] = {
    {"aten::upsample_linear1d", interpolate_image},
    {"aten::upsample_linear1d_backward", interpolate_image_backward},
    {"aten::upsample_bilinear2d", interpolate_image},
    {"aten::upsample_bilinear2d_backward", interpolate_image_backward},
    {"aten::upsample_trilinear3d", interpolate_image},
    {"aten::upsample_trilinear3d_backward", interpolate_image_backward},
    {"aten::upsample_bicubic2d", interpolate_image},
    {"aten::upsample_bicubic2d_backward", interpolate_image_backward},
};

}  // namespace

std::span<const Entry> interpolate_entries() { return kEntries; }

}  // namespace crucible::aten
