// Lowering of sampling an image at places that a grid gives, over two or three dimensions, with gradients for image and
// grid, and of the grids of affine maps. Places are in [-1, 1], the last grid column first: (x, y) or (x, y, z).
#include <algorithm>
#include <cmath>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/axis_index.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/pooling/pool_window.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

enum class Mode { kLinear, kNearest, kCubic };
enum class Margin { kZeros, kBorder, kReflection };

struct Sampling {
  Mode mode = Mode::kLinear;
  Margin margin = Margin::kZeros;
  bool align_corners = false;
};

Sampling sampling_of(OpCall& c) {
  Sampling s;
  if (c.entry_name().starts_with("aten::cudnn")) {
    s.align_corners = true;
    return s;
  }
  s.mode = static_cast<Mode>(std::clamp<std::int64_t>(c.integer("interpolation_mode"), 0, 2));
  s.margin = static_cast<Margin>(std::clamp<std::int64_t>(c.integer("padding_mode"), 0, 2));
  s.align_corners = c.boolean("align_corners");
  return s;
}

Expression with(Emitter& e, OpKind kind, const Term& x, double number) {
  return e.binary(kind, x, Term::number(number));
}

/// A place along one side, and its derivative with respect to the coordinate it came from.
struct Place {
  Term value, slope;
};

/// Pixel coordinates of a normalised coordinate.
Expression unnormalized(Emitter& e, const Sampling& s, const Term& x, std::int64_t size) {
  const auto length = static_cast<double>(size);
  const Expression shifted = with(e, OpKind::kAdd, x, 1);
  if (s.align_corners) return shifted * 0.5 * (length - 1);
  const Expression scaled = shifted * length - 1.0;
  return scaled * 0.5;
}

/// Mirrored at both ends of the side as often as it takes.
Place reflected(Emitter& e, const Sampling& s, const Place& place, std::int64_t size) {
  const double least = s.align_corners ? 0 : -0.5;
  const double span = s.align_corners ? static_cast<double>(size - 1) : static_cast<double>(size);
  if (span <= 0) return {multiply(e, place.value, Term::number(0)), multiply(e, place.slope, Term::number(0))};
  const Expression from = with(e, OpKind::kSubtract, place.value, least);
  const Expression distance = magnitude(from);
  const Expression flips = (distance / span).unary(OpKind::kFloor);
  const Expression extra = distance - flips * span;
  const Expression half = flips * 0.5;
  const Expression even = half.unary(OpKind::kFloor) == half;
  const Expression up = extra + least;
  const Expression down = Term::number(span) - extra + least;
  const Expression back = e.unary(OpKind::kNegate, place.slope);
  const Expression turned = choose(from < 0.0, back, place.slope);
  return {choose(even, up, down), choose(even, turned, -turned)};
}

Place clipped(Emitter& e, const Place& place, std::int64_t size) {
  const auto last = static_cast<double>(size - 1);
  const Expression inside = with(e, OpKind::kGreater, place.value, 0) && with(e, OpKind::kLess, place.value, last);
  const Expression value = smaller(with(e, OpKind::kMaximum, place.value, 0), last);
  return {value, choose(inside, place.slope, 0.0)};
}

/// The margin's rule: where a place outside the image is taken to be.
Place brought_inside(Emitter& e, const Sampling& s, Place place, std::int64_t size) {
  if (s.margin == Margin::kReflection) place = reflected(e, s, place, size);
  return s.margin == Margin::kZeros ? place : clipped(e, place, size);
}

/// To the nearest whole number, halves to the even one.
Expression rounded(Emitter& e, const Term& x) {
  const Expression floor = e.unary(OpKind::kFloor, x);
  const Expression share = x - floor;
  const Expression half = floor * 0.5;
  const Expression odd = half.unary(OpKind::kFloor) != half;
  const Expression tie = (share == 0.5) && odd;
  const Expression up = (share > 0.5) || tie;
  return choose(up, floor + 1.0, floor);
}

/// One of the elements along a side that a sample is made from. All [n, 1, out...].
struct Tap {
  Term index;  // i64, inside the image
  Term valid;  // false where it lies outside
  Term weight;
  Term slope;  // derivative of the weight with respect to the grid's coordinate
};

Tap tap_at(Emitter& e, const Term& whole, std::int64_t size, const Term& weight, const Term& slope) {
  const auto last = static_cast<double>(size - 1);
  const Expression valid = with(e, OpKind::kGreaterEqual, whole, 0) && with(e, OpKind::kLessEqual, whole, last);
  // Clamped before it becomes an integer: a far or undefined place must not leave the image.
  const Expression near = choose(valid, whole, 0.0);
  return {e.cast(near, DType::kI64), valid, weight, slope};
}

constexpr double kCubic = -0.75;

/// Weights of the four neighbours at distance t from the second, and their derivatives.
std::vector<std::pair<Term, Term>> cubic_weights(Emitter& e, const Term& t) {
  const auto polynomial = [&](const Term& x, double a, double b, double c, double d) {
    Term sum = with(e, OpKind::kMultiply, x, a) + b;
    sum = multiply(e, sum, x) + c;
    return multiply(e, sum, x) + d;
  };
  const auto quadratic = [&](const Term& x, double a, double b, double c) {
    const Expression sum = with(e, OpKind::kMultiply, x, a) + b;
    return multiply(e, sum, x) + c;
  };
  const double a = kCubic;
  std::vector<std::pair<Term, Term>> result;
  for (int k = 0; k < 4; ++k) {
    // Distance of neighbour k - 1: t + 1, t, 1 - t, 2 - t; the last two shrink as t grows.
    const Term x = k == 0   ? with(e, OpKind::kAdd, t, 1)
                   : k == 1 ? t
                            : e.binary(OpKind::kSubtract, Term::number(k - 1), t);
    const bool inner = k == 1 || k == 2;
    const Term weight = inner ? polynomial(x, a + 2, -(a + 3), 0, 1) : polynomial(x, a, -5 * a, 8 * a, -4 * a);
    const Term slope = inner ? quadratic(x, 3 * (a + 2), -2 * (a + 3), 0) : quadratic(x, 3 * a, -10 * a, 8 * a);
    result.emplace_back(weight, k < 2 ? slope : e.unary(OpKind::kNegate, slope));
  }
  return result;
}

/// The taps of one side; `coordinate` is the grid's column for it.
std::vector<Tap> side_taps(Emitter& e, const Sampling& s, const Term& coordinate, std::int64_t size) {
  const double factor = s.align_corners ? static_cast<double>(size - 1) / 2 : static_cast<double>(size) / 2;
  const Expression ones = choose(e.unary(OpKind::kIsNan, coordinate), 0.0, coordinate) * 0.0 + 1.0;
  const Expression raw = unnormalized(e, s, coordinate, size);
  const Expression scale = ones * factor;
  if (s.mode == Mode::kCubic) {
    const Expression floor = raw.unary(OpKind::kFloor);
    const auto weights = cubic_weights(e, e.binary(OpKind::kSubtract, raw, floor));
    std::vector<Tap> taps;
    for (int k = 0; k < 4; ++k) {
      const auto& [weight, slope] = weights[static_cast<std::size_t>(k)];
      const Place place = brought_inside(e, s, {with(e, OpKind::kAdd, floor, k - 1), ones}, size);
      taps.push_back(tap_at(e, place.value, size, weight, multiply(e, slope, scale)));
    }
    return taps;
  }
  const Place place = brought_inside(e, s, {raw, scale}, size);
  if (s.mode == Mode::kNearest)
    return {tap_at(e, rounded(e, place.value), size, ones, multiply(e, ones, Term::number(0)))};
  const Expression floor = e.unary(OpKind::kFloor, place.value);
  const Expression next = floor + 1.0;
  return {tap_at(e, floor, size, next - place.value, e.unary(OpKind::kNegate, place.slope)),
          tap_at(e, next, size, place.value - floor, place.slope)};
}

/// All sides of a sampling, first dimension first.
struct Sides {
  std::vector<std::vector<Tap>> taps;
  Sizes result;  // [n, c, out...]
};

Sides sides_of(OpCall& c, const Sampling& s, const Term& x, const Term& grid) {
  Emitter& e = c.emit();
  Sides sides;
  const auto count = static_cast<std::size_t>(x.rank() - 2);
  sides.result = {x.size(0), x.size(1)};
  for (std::size_t i = 0; i < count; ++i) sides.result.push_back(grid.size(1 + static_cast<std::int64_t>(i)));
  for (std::size_t i = 0; i < count; ++i) {
    const auto column = static_cast<std::int64_t>(count - 1 - i);
    const Expression coordinate = e.unsqueeze(e.drop(sliced(grid, -1, column, 1), {-1}), 1);
    sides.taps.push_back(side_taps(e, s, coordinate, x.size(2 + static_cast<std::int64_t>(i))));
  }
  return sides;
}

/// Calls visit(one tap per side) for every combination.
template <class Visit>
void for_each_corner(const Sides& sides, Visit visit) {
  std::vector<std::size_t> at(sides.taps.size(), 0);
  for (;;) {
    std::vector<const Tap*> corner;
    for (std::size_t i = 0; i < at.size(); ++i) corner.push_back(&sides.taps[i][at[i]]);
    visit(corner);
    std::size_t i = at.size();
    while (i > 0 && ++at[i - 1] == sides.taps[i - 1].size()) at[--i] = 0;
    if (i == 0) return;
  }
}

Term all_valid(Emitter& e, const std::vector<const Tap*>& corner) {
  Term valid = corner[0]->valid;
  for (std::size_t i = 1; i < corner.size(); ++i) valid = e.binary(OpKind::kLogicalAnd, valid, corner[i]->valid);
  return valid;
}

/// Batch, channel and the corner's indices.
std::vector<Term> indices_of(Emitter& e, const Sides& sides, const std::vector<const Tap*>& corner) {
  std::vector<Term> indices{e.position(0, sides.result), e.position(1, sides.result)};
  for (const Tap* tap : corner) indices.push_back(tap->index);
  return indices;
}

/// The product of the corner's weights; of side `derived` its slope instead.
Term weight_of(Emitter& e, const std::vector<const Tap*>& corner, std::size_t derived = SIZE_MAX) {
  Term product;
  for (std::size_t i = corner.size(); i-- > 0;) {
    const Term& factor = i == derived ? corner[i]->slope : corner[i]->weight;
    product = i + 1 == corner.size() ? factor : multiply(e, product, factor);
  }
  return product;
}

Expression seen_at(Emitter& e, const Term& x, const Sides& sides, const std::vector<const Tap*>& corner) {
  return e.select(all_valid(e, corner), e.take_at(x, indices_of(e, sides, corner)), Term::number(0));
}

void grid_sample(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide(c.has("input") ? "input" : "self"), grid = c.wide("grid");
  const Sides sides = sides_of(c, sampling_of(c), x, grid);
  Term sum;
  bool empty = true;
  for_each_corner(sides, [&](const std::vector<const Tap*>& corner) {
    const Expression part = multiply(e, seen_at(e, x, sides, corner), weight_of(e, corner));
    sum = empty ? part : sum + part;
    empty = false;
  });
  c.set(0, sum);
}

void grid_sample_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_output");
  const Expression x = c.wide(c.has("input") ? "input" : "self"), grid = c.wide("grid");
  if (c.has("output_mask")) c.booleans("output_mask");
  const Sides sides = sides_of(c, sampling_of(c), x, grid);
  if (c.wants(0)) {
    Term sum = e.fill(Term::number(0), x.sizes(), g.dtype);
    for_each_corner(sides, [&](const std::vector<const Tap*>& corner) {
      const Expression place = e.linear_index(x.sizes(), indices_of(e, sides, corner));
      const Term outside = Term::integer(-1);
      sum = e.put(OpKind::kPutAdd, sum, e.select(all_valid(e, corner), place, outside),
                  multiply(e, g, weight_of(e, corner)));
    });
    c.set(0, sum);
  }
  if (!c.wants(1)) return;
  std::vector<Term> columns;
  for (std::size_t i = sides.taps.size(); i-- > 0;) {  // the last side is the grid's first column
    Term sum;
    bool empty = true;
    for_each_corner(sides, [&](const std::vector<const Tap*>& corner) {
      const Expression part = multiply(e, multiply(e, seen_at(e, x, sides, corner), weight_of(e, corner, i)), g);
      sum = empty ? part : sum + part;
      empty = false;
    });
    columns.push_back(e.unsqueeze(e.drop(e.sum(sum, {1}), {1}), -1));
  }
  c.set(1, e.concat(columns, -1));
}

/// Coordinates of the pixels along one side, [size] in `dtype`: from -1 to 1, or the pixels' centres.
Expression pixel_coordinates(Emitter& e, std::int64_t size, bool align_corners, DType dtype) {
  const auto count = static_cast<double>(size);
  if (size <= 1) return e.fill(Term::number(0), {size}, dtype);
  // As linspace does it: the first half counts from the start, the second from the end.
  const double step = 2 / (count - 1);
  const Expression o = e.coordinate(0, {size}, dtype);
  const Expression rest = Term::number(count - 1) - o;
  const Expression up = o * step - 1.0;
  const Expression down = 1.0 - rest * step;
  const Expression line = choose(o < static_cast<double>(size / 2), up, down);
  return align_corners ? line : line * ((count - 1) / count);
}

/// The places that an affine map of a picture of these sizes is given, last side first, and 1: [1, points, sides + 1].
std::optional<Expression> affine_base(OpCall& c, DType dtype, std::int64_t& count) {
  Emitter& e = c.emit();
  Sizes size;
  bool align_corners = true;
  if (c.has("size")) {
    size = c.integers("size");
    align_corners = c.boolean("align_corners");
  } else {
    for (const char* name : {"N", "C", "H", "W"}) size.push_back(c.integer(name));
  }
  count = static_cast<std::int64_t>(size.size()) - 2;
  if (count < 1) {
    e.fail("argument size has fewer than 3 entries");
    return std::nullopt;
  }
  Sizes plane(size.begin() + 2, size.end());
  std::vector<Term> columns;
  for (std::int64_t i = count; i-- > 0;) {  // the last side is the first column
    const Expression line = pixel_coordinates(e, plane[static_cast<std::size_t>(i)], align_corners, dtype);
    columns.push_back(e.unsqueeze(e.expand(laid_along(e, line, i, count), plane), -1));
  }
  Sizes ones = plane;
  ones.push_back(1);
  columns.push_back(e.fill(Term::number(1), ones, dtype));
  const Expression base = e.concat(columns, -1);
  return e.reshape(base, {1, base.elements() / (count + 1), count + 1});
}

/// theta [n, sides, sides + 1] times (x, y, 1) of every pixel: [n, out..., sides].
void affine_grid(OpCall& c) {
  Emitter& e = c.emit();
  const Expression theta = c.wide("theta");
  std::int64_t count = 0;
  if (const auto points = affine_base(c, theta.dtype, count))
    c.set(0, e.reshape(e.matmul(*points, e.transpose(theta, 1, 2)), c.result(0).sizes));
}

/// The map's gradient: each place times that of the point there.
void affine_grid_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad");
  std::int64_t count = 0;
  const auto points = affine_base(c, g.dtype, count);
  if (!points) return;
  if (g.elements() != g.size(0) * points->size(1) * count) return e.fail("the gradient is not one of these sizes");
  const Expression rows = e.reshape(g, {g.size(0), points->size(1), count});
  c.set(0, e.matmul(e.transpose(rows, 1, 2), *points));
}

constexpr Entry kEntries[] = {
    {"aten::grid_sampler_2d", grid_sample},
    {"aten::grid_sampler_2d_backward", grid_sample_backward},
    {"aten::grid_sampler_3d", grid_sample},
    {"aten::grid_sampler_3d_backward", grid_sample_backward},
    {"aten::_grid_sampler_2d_cpu_fallback", grid_sample},
    {"aten::cudnn_grid_sampler", grid_sample},
    {"aten::cudnn_grid_sampler_backward", grid_sample_backward},
    {"aten::affine_grid_generator", affine_grid},
    {"aten::cudnn_affine_grid_generator", affine_grid},
    {"aten::cudnn_affine_grid_generator_backward", affine_grid_backward},
};

}  // namespace

std::span<const Entry> grid_sample_entries() { return kEntries; }

}  // namespace crucible::aten
