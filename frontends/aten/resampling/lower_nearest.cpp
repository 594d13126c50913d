// Lowering of nearest-neighbour resampling over one to three dimensions and its gradient. Whole factors are views;
// other patterns look elements up by an index that follows the framework's rounding.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/axis_index.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/pooling/pool_window.hpp"
#include "frontends/aten/resampling/resample_axis.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

bool is_exact(const OpCall& c) { return c.entry_name().find("exact") != std::string_view::npos; }

struct Side {
  std::int64_t dim = 0, input = 0, output = 0;
  std::optional<double> factor;
  std::vector<std::int64_t> sources;
};

/// The sides of the op; sizes are those of the small and of the resampled tensor.
std::vector<Side> sides_of(OpCall& c, const Sizes& input, const Sizes& output) {
  const std::size_t count = sides_by_name(c);
  c.integers("output_size");
  const bool exact = is_exact(c);
  const auto factors = given_factors(c, count);
  if (input.size() != count + 2 || output.size() != count + 2) {
    c.emit().fail("the sizes of image and result do not fit the operator");
    return {};
  }
  // Beyond that neighbouring pixels have the same number in f32, in which the framework counts them.
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 24;
  if (std::ranges::max(output) > kMostPixels) {
    c.emit().fail(fmt::format("a side of the result is longer than {} elements", kMostPixels));
    return {};
  }
  std::vector<Side> sides;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t d = input.size() - count + i;
    Side side{static_cast<std::int64_t>(d), input[d], output[d], factors[i], {}};
    side.sources = nearest_sources(side.input, side.output, side.factor, exact);
    sides.push_back(std::move(side));
  }
  return sides;
}

/// nearest_sources() as arithmetic on coordinates, with the same roundings: [output].
Expression source_index(Emitter& e, const Side& side, bool exact) {
  const Term scale = Term::number(static_cast<double>(nearest_scale(side.input, side.output, side.factor)));
  Term place;
  if (exact) {
    const Expression centre = e.coordinate(0, {side.output}, DType::kF64) + 0.5;
    place = e.cast(centre * scale, DType::kF32);
  } else {
    place = e.coordinate(0, {side.output}, DType::kF32) * scale;
  }
  const Expression whole = e.cast(e.unary(OpKind::kFloor, place), DType::kI64);
  return smaller(whole, Term::integer(side.input - 1));
}

void nearest(OpCall& c) {
  Emitter& e = c.emit();
  Term x = c.tensor("self");
  const Sizes output = c.result(0).sizes;
  for (const Side& side : sides_of(c, x.sizes(), output)) {
    if (const auto step = stepping(side.sources)) {
      x = sliced(x, side.dim, step->offset, side.output, step->step);
    } else if (const auto times = repetition(side.sources, side.input)) {
      Term wide = e.unsqueeze(x, side.dim + 1);
      Sizes sizes = wide.sizes();
      sizes[static_cast<std::size_t>(side.dim) + 1] = *times;
      wide = e.expand(wide, sizes);
      sizes.erase(sizes.begin() + side.dim);
      sizes[static_cast<std::size_t>(side.dim)] = side.output;
      x = e.reshape(wide, sizes);
    } else {
      x = take_along(e, x, side.dim, source_index(e, side, is_exact(c)));
    }
  }
  c.set(0, x);
}

void nearest_backward(OpCall& c) {
  Emitter& e = c.emit();
  Term g = c.wide("grad_output");
  const Sizes input = c.integers("input_size");
  for (const Side& side : sides_of(c, input, g.sizes())) {
    if (const auto step = stepping(side.sources)) {
      g = spread(e, g, side.dim, step->step, step->offset, side.input);
    } else if (const auto times = repetition(side.sources, side.input)) {
      Sizes sizes = g.sizes();
      sizes[static_cast<std::size_t>(side.dim)] = side.input;
      sizes.insert(sizes.begin() + side.dim + 1, *times);
      g = e.drop(e.sum(e.reshape(g, sizes), {side.dim + 1}), {side.dim + 1});
    } else {
      g = add_along(e, g, side.dim, source_index(e, side, is_exact(c)), side.input);
    }
  }
  c.set(0, g);
}

constexpr Entry kEntries[] = {
    {"aten::upsample_nearest1d", nearest},
    {"aten::upsample_nearest1d_backward", nearest_backward},
    {"aten::upsample_nearest2d", nearest},
    {"aten::upsample_nearest2d_backward", nearest_backward},
    {"aten::upsample_nearest3d", nearest},
    {"aten::upsample_nearest3d_backward", nearest_backward},
    {"aten::_upsample_nearest_exact1d", nearest},
    {"aten::_upsample_nearest_exact1d_backward", nearest_backward},
    {"aten::_upsample_nearest_exact2d", nearest},
    {"aten::_upsample_nearest_exact2d_backward", nearest_backward},
    {"aten::_upsample_nearest_exact3d", nearest},
    {"aten::_upsample_nearest_exact3d_backward", nearest_backward},
};

}  // namespace

std::span<const Entry> nearest_entries() { return kEntries; }

}  // namespace crucible::aten
