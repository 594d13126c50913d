// Lowering of fake quantization: numbers rounded to the grid that integers with a scale and a zero point would have,
// and the observer that moves the grid after the extrema of what it sees. As the framework's kernels for CPUs compute
// it: the reciprocal of the scale in f32, the grid's parameters in f64.
#include <cmath>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

Expression nearest(const Expression& x) { return x.unary(OpKind::kRound); }
Expression as(const Expression& x, DType dtype) { return x.cast(dtype); }

struct Grid {
  Expression scale, zero_point;  // f32, and of whole numbers or f32
  std::int64_t least, most;
  /// Numbers beyond i64 are the least one, as the kernel for channels makes them; else the end that they are near to.
  bool through_integers = false;
};

struct Quantized {
  Expression output, mask;
};

/// The whole number of each element on the grid, before it is held inside.
Expression whole_numbers(const Expression& x, const Grid& grid) {
  const Expression number = nearest(x * (1.0 / grid.scale)) + as(grid.zero_point, x.dtype);
  return grid.through_integers ? choose(magnitude(number) < 0x1p63, number, -0x1p63) : number;
}

/// Of NaN, the least one. The product is one of f32, whatever x is.
Expression on_grid(const Expression& whole, const Grid& grid) {
  const auto least = static_cast<double>(grid.least), most = static_cast<double>(grid.most);
  const Expression held = choose(is_nan(whole), least, smaller(larger(whole, least), most));
  return as(held - as(grid.zero_point, whole.dtype), DType::kF32) * as(grid.scale, DType::kF32);
}

Quantized quantized(const Expression& x, const Grid& grid) {
  const Expression whole = whole_numbers(x, grid);
  return {on_grid(whole, grid), whole >= static_cast<double>(grid.least) && whole <= static_cast<double>(grid.most)};
}

/// A number or a tensor with one element, as a tensor without dimensions.
Expression scalar(OpCall& c, std::string_view name, DType dtype) {
  Emitter& e = c.emit();
  const Expression given = c.operand(name);
  return {e, given.is_number() ? e.fill(given, {}, dtype) : e.reshape(e.cast(given, dtype), {})};
}

/// One number for each element along `axis`, beside a tensor of `rank`.
Expression along(Emitter& e, const Term& x, std::int64_t axis, std::int64_t rank) {
  Sizes sizes(static_cast<std::size_t>(rank), 1);
  if (axis < 0 || axis >= rank) {
    e.fail("argument axis names no dimension");
    return {e, x};
  }
  sizes[static_cast<std::size_t>(axis)] = x.elements();
  return e.reshape(x, sizes);
}

void set(OpCall& c, const Quantized& q) {
  c.set(0, q.output);
  c.set(1, q.mask);
}

void per_tensor(OpCall& c) {
  const Expression x = c.wide("self");
  const Grid grid{scalar(c, "scale", DType::kF32), scalar(c, "zero_point", DType::kI64), c.integer("quant_min"),
                  c.integer("quant_max")};
  if (!c.has("fake_quant_enabled")) return set(c, quantized(x, grid));
  const Expression is_on = scalar(c, "fake_quant_enabled", DType::kI64) != 0;
  const Quantized q = quantized(x, grid);
  set(c, {choose(is_on, q.output, x), q.mask || !is_on});
}

void per_channel(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  const std::int64_t axis = c.integer("axis");
  set(c, quantized(x, {along(e, c.tensor("scale"), axis, x.rank()), along(e, c.tensor("zero_point"), axis, x.rank()),
                       c.integer("quant_min"), c.integer("quant_max"), true}));
}

constexpr double kSmallestScale = 6.1e-5F;

/// The grid that spans from `lowest` to `highest`, f32, and contains 0. Symmetric: 0 is its middle.
Grid grid_of(Emitter& e, Expression lowest, Expression highest, std::int64_t least, std::int64_t most, bool symmetric) {
  const auto f32 = [](const Expression& x) { return as(x, DType::kF32); };
  const auto f64 = [](const Expression& x) { return as(x, DType::kF64); };
  if (symmetric) {
    const auto down = static_cast<double>(-((most - least) / 2 + 1)), up = static_cast<double>((most - least) / 2);
    const Expression crosses = lowest < 0 && highest > 0;
    const Expression step = f64(larger(magnitude(lowest / down), magnitude(highest / up)));
    lowest = choose(crosses, f32(step * down), lowest);
    highest = choose(crosses, f32(step * up), highest);
  }
  lowest = smaller(lowest, 0.0);
  highest = larger(highest, 0.0);
  const auto count = static_cast<double>(most - least);
  Expression scale = (f64(highest) - f64(lowest)) / count;
  const Expression given = f32(scale);
  // Of a scale whose reciprocal is no number, 0.1; of another small one, one that is larger, and the span with it.
  scale = choose(given == 0 || magnitude(1.0 / given) == HUGE_VAL, 0.1, scale);
  const Expression is_small = scale < kSmallestScale;
  const Expression amplifier = kSmallestScale / f32(scale);
  const auto span = static_cast<double>(static_cast<float>(kSmallestScale) * static_cast<float>(most - least));
  const Expression from = choose(lowest == 0, lowest, choose(highest == 0, -span, lowest * amplifier));
  const Expression to = choose(lowest == 0, span, choose(highest == 0, highest, highest * amplifier));
  lowest = choose(is_small, from, lowest);
  highest = choose(is_small, to, highest);
  scale = choose(is_small, kSmallestScale, scale);
  const Expression below = f64(lowest) / scale, above = f64(highest) / scale;
  const auto size = [](std::int64_t number) { return std::abs(static_cast<double>(number)); };
  Expression zero = choose(magnitude(below) + size(least) < magnitude(above) + size(most),
                           static_cast<double>(least) - below, static_cast<double>(most) - above);
  if (symmetric) zero = choose(lowest < 0 && highest > 0, static_cast<double>(least + most) / 2, zero);
  zero = nearest(smaller(larger(zero, static_cast<double>(least)), static_cast<double>(most)));
  return {f32(scale), e.cast(zero, DType::kI64), least, most};
}

/// The observer's extrema follow those of the tensor, or of each of its rows along `ch_axis`; data says whether it
/// observes and whether it quantizes.
void observed(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  const bool is_per_row = c.has("per_row_fake_quant") && c.boolean("per_row_fake_quant");
  const bool is_symmetric = c.has("symmetric_quant") && c.boolean("symmetric_quant");
  const std::int64_t axis = wrap_dim(c.integer("ch_axis"), x.rank());
  if (x.elements() == 0 || (is_per_row && (axis < 0 || axis >= x.rank())))
    return e.fail("an observer of nothing, or of a dimension that is not there");
  std::vector<std::int64_t> rest;
  for (std::int64_t d = 0; d < x.rank(); ++d)
    if (!is_per_row || d != axis) rest.push_back(d);
  const Expression before_min = c.tensor("running_min"), before_max = c.tensor("running_max");
  if (before_min.elements() != (is_per_row ? x.size(axis) : 1) || before_max.sizes() != before_min.sizes())
    return e.fail("an observer with another number of extrema than the tensor has rows");
  const auto row = [&](const Expression& extremum) -> Expression {
    return e.reshape(e.cast(extremum, DType::kF32), before_min.sizes());
  };
  const Expression observes = scalar(c, "observer_on", DType::kI64) != 0;
  const Expression share(e, e.fill(Term::number(c.real("averaging_const")), {}, DType::kF32));
  const auto moved = [&](const Expression& before, const Expression& now) {
    const Expression next = choose(magnitude(before) == HUGE_VAL, now, before + share * (now - before));
    return choose(observes, next, before);
  };
  const Expression lowest = moved(before_min, row(-e.max(-x, rest))), highest = moved(before_max, row(e.max(x, rest)));
  c.write("running_min", lowest);
  c.write("running_max", highest);
  const Expression quantizes = scalar(c, "fake_quant_on", DType::kI64) != 0;
  const Grid grid = grid_of(e, lowest, highest, c.integer("quant_min"), c.integer("quant_max"), is_symmetric);
  const Expression scale = c.tensor("scale"), zero_point = c.tensor("zero_point");
  c.write("scale", choose(quantizes, e.reshape(grid.scale, scale.sizes()), scale));
  const Expression zero = e.cast(e.reshape(grid.zero_point, zero_point.sizes()), zero_point.dtype);
  c.write("zero_point", choose(quantizes, zero, zero_point));
  const auto spread = [&](const Expression& term) -> Expression {
    return is_per_row ? along(e, term, axis, x.rank()) : e.reshape(term, {});
  };
  const Quantized q = quantized(x, {spread(grid.scale), spread(grid.zero_point), grid.least, grid.most});
  set(c, {choose(quantizes, q.output, x), q.mask || !quantizes});
}

constexpr Entry kEntries[] = {
    {"aten::fake_quantize_per_tensor_affine_cachemask", per_tensor},
    {"aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", per_tensor},
    {"aten::fake_quantize_per_channel_affine_cachemask", per_channel},
    {"aten::_fused_moving_avg_obs_fq_helper", observed},
};

}  // namespace

std::span<const Entry> fake_quantize_entries() { return kEntries; }

}  // namespace crucible::aten
