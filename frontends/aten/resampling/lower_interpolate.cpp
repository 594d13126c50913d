// Lowering of linear and cubic resampling over one to three dimensions, with gradients, side by side: each output along
// a side is a weighted sum of a few inputs, at places and with weights that follow the framework's arithmetic.
#include <algorithm>
#include <cmath>

#include "frontends/aten/algebra/algebra.hpp"
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
Expression place_of(Emitter& e, const Side& side, bool align_corners, bool cubic, DType dtype) {
  const Expression o = e.coordinate(0, {side.output}, dtype);
  const Term scale = Term::number(scale_of(side, align_corners, dtype));
  if (align_corners) return multiply(e, o, scale);
  const Expression centre = multiply(e, o + 0.5, scale);
  const Expression place = centre - 0.5;
  return cubic ? place : larger(place, 0.0);
}

Expression clamped(Emitter& e, const Term& x, std::int64_t most) {
  return smaller(e.binary(OpKind::kMaximum, x, Term::integer(0)), Term::integer(most));
}

Expression between_zero_and_one(Emitter& e, const Term& x) {
  return smaller(e.binary(OpKind::kMaximum, x, Term::number(0)), 1.0);
}

/// Both neighbours of each output, the second with the weight of the distance from the first.
std::vector<Tap> linear_taps(Emitter& e, const Side& side, bool align_corners, DType dtype) {
  const Expression place = place_of(e, side, align_corners, false, dtype);
  const Expression first = clamped(e, e.cast(place.unary(OpKind::kFloor), DType::kI64), side.input - 1);
  const Expression share = between_zero_and_one(e, place - e.cast(first, dtype));
  const Expression second = clamped(e, first + 1, side.input - 1);
  return {{first, e.binary(OpKind::kSubtract, Term::number(1), share)}, {second, share}};
}

/// a x + b with the numbers of the cubic polynomials.
Expression line(Emitter& e, const Term& x, double factor, double summand) {
  return multiply(e, x, Term::number(factor)) + Term::number(summand);
}

constexpr double kCubic = -0.75;

/// The polynomial of the two inner neighbours, and that of the two outer ones.
Expression inner_weight(Emitter& e, const Term& x) {
  return multiply(e, multiply(e, line(e, x, kCubic + 2, -(kCubic + 3)), x), x) + 1.0;
}

Term outer_weight(Emitter& e, const Term& x) {
  const Expression two = line(e, x, kCubic, -5 * kCubic);
  const Expression one = multiply(e, two, x) + 8 * kCubic;
  return multiply(e, one, x) - 4 * kCubic;
}

std::vector<Tap> cubic_taps(Emitter& e, const Side& side, bool align_corners, DType dtype) {
  const Expression place = place_of(e, side, align_corners, true, dtype);
  const Expression whole = e.cast(place.unary(OpKind::kFloor), DType::kI64);
  const Expression first = smaller(whole, Term::integer(side.input - 1));
  const Expression t = between_zero_and_one(e, place - e.cast(first, dtype));
  const Expression rest = 1.0 - t;
  const auto index = [&](std::int64_t shift) {
    return clamped(e, first + Term::integer(shift), side.input - 1);
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
  Term x = c.wide("self");
  if (!is_floating(x.dtype)) return e.fail("resampling integers is not supported");
  const auto sides = sides_of(c, x.sizes(), c.result(0).sizes);
  for (std::size_t i = sides.size(); i-- > 0;) {
    const Side& side = sides[i];
    c.boolean("align_corners");
    if (is_kept(c, side)) continue;
    Term sum;
    bool empty = true;
    for (const Tap& tap : taps_of(c, side, x.dtype)) {
      const Expression part =
          multiply(e, take_along(e, x, side.dim, tap.index), laid_along(e, tap.weight, side.dim, x.rank()));
      sum = empty ? part : sum + part;
      empty = false;
    }
    x = sum;
  }
  c.set(0, x);
}

void interpolate_image_backward(OpCall& c) {
  Emitter& e = c.emit();
  Term g = c.wide("grad_output");
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
      const Expression part = multiply(e, g, laid_along(e, tap.weight, side.dim, g.rank()));
      const Expression added = add_along(e, part, side.dim, tap.index, side.input);
      sum = empty ? added : sum + added;
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
