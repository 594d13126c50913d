// Lowering of adaptive pooling, average and maximum, with gradients; of fractional max pooling, whose windows lie where
// recorded samples put them; and of max unpooling.
#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/axis_index.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/pooling/pool_window.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

std::vector<WindowIndex> adaptive(Emitter& e, const Sizes& input, const Sizes& output, std::size_t sides) {
  std::vector<WindowIndex> result;
  for (std::size_t i = 0; i < sides; ++i) {
    result.push_back(adaptive_windows(e, input[input.size() - sides + i], output[output.size() - sides + i]));
  }
  return result;
}

std::vector<std::int64_t> taps_of(std::int64_t rank, std::size_t sides) { return last_dims(rank, sides); }

/// The sum over the windows that lead from x's sizes to `output`.
Expression adaptive_sum(Emitter& e, const Term& x, const Sizes& output, std::size_t sides) {
  const auto dims = last_dims(x.rank(), sides);
  bool regular = true;
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < sides; ++i) {
    const std::int64_t in = x.sizes()[static_cast<std::size_t>(dims[i])];
    const std::int64_t out = output[output.size() - sides + i];
    regular = regular && out > 0 && in % out == 0;
    axes.push_back({in, out, regular ? in / out : 1, regular ? in / out : 1});
  }
  Term seen;
  if (regular) {
    seen = windows(e, x, dims, axes, Term::number(0));
  } else {
    const Gathered g = gather_windows(e, x, dims, adaptive(e, x.sizes(), output, sides));
    seen = g.counted ? e.select(*g.counted, g.elements, Term::number(0)) : g.elements;
  }
  const auto taps = taps_of(seen.rank(), sides);
  return e.drop(e.sum(seen, taps), taps);
}

/// x divided by how many elements each window counts, one side after the other.
Term divided_by_counts(Emitter& e, Term x, const Sizes& input, const Sizes& output, std::size_t sides) {
  const auto dims = last_dims(x.rank(), sides);
  for (std::size_t i = sides; i-- > 0;) {
    Term count = adaptive_counts(e, input[input.size() - sides + i], output[output.size() - sides + i], x.dtype);
    if (is_fixed(count, 1)) continue;
    if (!count.is_number()) count = laid_along(e, count, dims[i], x.rank());
    x = e.binary(OpKind::kDivide, x, count);
  }
  return x;
}

void adaptive_average(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  const std::size_t sides = sides_by_name(c);
  const Sizes output = c.result(0).sizes;
  c.integers("output_size");
  c.set(0, divided_by_counts(e, adaptive_sum(e, x, output, sides), x.sizes(), output, sides));
}

/// An input lies in the windows that adaptive windows from outputs to inputs would name.
void adaptive_average_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_output");
  const Sizes input = c.tensor("self").sizes();
  const std::size_t sides = sides_by_name(c);
  if (g.sizes().size() != input.size()) return e.fail("the gradient has not as many dimensions as self");
  Term shares = divided_by_counts(e, g, input, g.sizes(), sides);
  bool regular = true;
  for (std::size_t i = 1; i <= sides; ++i) {
    const std::int64_t in = input[input.size() - i], out = g.size(-static_cast<std::int64_t>(i));
    regular = regular && out > 0 && in % out == 0;
  }
  if (!regular) return c.set(0, adaptive_sum(e, shares, input, sides));
  const auto first = input.size() - sides;
  Sizes narrow(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(first)), wide = narrow;
  for (std::size_t d = first; d < input.size(); ++d) {
    narrow.push_back(g.sizes()[d]);
    narrow.push_back(1);
    wide.push_back(g.sizes()[d]);
    wide.push_back(input[d] / g.sizes()[d]);
  }
  c.set(0, e.reshape(e.expand(e.reshape(shares, narrow), wide), input));
}

void adaptive_maximum(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const std::size_t sides = sides_by_name(c);
  c.integers("output_size");
  const auto windows = adaptive(e, x.sizes(), c.result(0).sizes, sides);
  const auto result = window_maximum(e, gather_windows(e, x, last_dims(x.rank(), sides), windows), sides);
  c.set(0, result.values);
  c.set(1, result.place);
}

/// [lead, elements] of a tensor whose last `sides` dimensions are one plane.
Sizes flat_planes(const Sizes& sizes, std::size_t sides) {
  std::int64_t plane = 1, lead = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) (d + sides >= sizes.size() ? plane : lead) *= sizes[d];
  return {lead, plane};
}

/// Gradients go to the elements of their plane that the indices name.
void to_places(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.tensor("grad_output"), index = c.tensor("indices");
  const std::size_t sides = sides_by_name(c);
  for (const char* name : {"kernel_size", "output_size", "stride", "padding", "dilation"}) {
    if (c.has(name)) c.integers(name);
  }
  if (c.has("ceil_mode")) c.boolean("ceil_mode");
  const Sizes from = flat_planes(g.sizes(), sides), to = flat_planes(c.result(0).sizes, sides);
  const Sizes source{1, from[0], 1, from[1]};
  e.expect_in(index, 0, to[1] - 1);
  const std::vector<Term> inputs{e.reshape(g, source), e.reshape(index, source)};
  const Expression result = e.emit(OpKind::kMaxPool2dBackward, inputs, {1, to[0], 1, to[1]}, g.dtype);
  c.set(0, e.reshape(result, c.result(0).sizes));
}

void max_unpool(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self"), index = c.tensor("indices");
  const std::size_t sides = sides_by_name(c);
  for (const char* name : {"output_size", "stride", "padding"}) {
    if (c.has(name)) c.integers(name);
  }
  const Sizes from = flat_planes(x.sizes(), sides), to = flat_planes(c.result(0).sizes, sides);
  e.expect_in(index, 0, to[1] - 1);
  const Expression held = e.held_in(e.reshape(index, from), 0, std::max<std::int64_t>(to[1], 1) - 1);
  const Expression place = e.linear_index(to, {e.position(0, from), held});
  const Expression zeros = e.fill(Term::number(0), to, x.dtype);
  c.set(0, e.reshape(e.put(OpKind::kPutSet, zeros, place, e.reshape(x, from)), c.result(0).sizes));
}

/// Windows of fractional pooling along one side: output o starts at int((o + u) alpha) - int(u alpha), the last one at
/// the end, with u the recorded sample of the plane. `sample` is [lead...]; the index [lead..., output, kernel].
WindowIndex fractional_windows(Emitter& e, const Term& sample, std::int64_t input, std::int64_t output,
                               std::int64_t kernel) {
  Sizes sizes = sample.sizes();
  sizes.push_back(output);
  const Expression u = e.unsqueeze(sample, -1);
  const DType dtype = sample.dtype;
  const Term last = Term::integer(input - kernel);
  Term begin;
  if (output > 1) {
    const double alpha = dtype == DType::kF64
                             ? static_cast<double>(input - kernel) / static_cast<double>(output - 1)
                             : static_cast<double>(static_cast<float>(input - kernel) / static_cast<float>(output - 1));
    const auto whole = [&](const Term& x) {
      return e.cast(multiply(e, x, Term::number(alpha)), DType::kI64);  // conversion drops the fraction
    };
    const Expression o = e.position(-1, sizes);
    begin = e.binary(OpKind::kSubtract, whole(e.cast(o, dtype) + u), whole(u));
    begin = choose(o == Term::integer(output - 1), last, begin);
  } else {
    begin = e.fill(last, sizes, DType::kI64);
  }
  Sizes wide = sizes;
  wide.push_back(kernel);
  return {e.unsqueeze(begin, -1) + e.position(-1, wide), std::nullopt};
}

void fractional_maximum(OpCall& c) {
  Emitter& e = c.emit();
  const std::size_t sides = sides_by_name(c);
  Term x = c.tensor("self");
  const bool added = x.rank() == static_cast<std::int64_t>(sides) + 1;
  if (added) x = e.unsqueeze(x, 0);
  const Expression samples =
      c.wide("random_samples");  // [n, c, sides]; of planes the first is for the width
  const Sizes kernel = per_side(c, "kernel_size", sides, 1), output = per_side(c, "output_size", sides, 1);
  std::vector<WindowIndex> list;
  for (std::size_t i = 0; i < sides; ++i) {
    const auto column = static_cast<std::int64_t>(sides == 2 ? 1 - i : i);
    const Expression sample = e.drop(sliced(samples, 2, column, 1), {2});
    list.push_back(fractional_windows(e, sample, x.size(2 + static_cast<std::int64_t>(i)), output[i], kernel[i]));
  }
  const auto result = window_maximum(e, gather_windows(e, x, last_dims(x.rank(), sides), list), sides);
  c.set(0, e.reshape(result.values, c.result(0).sizes));
  c.set(1, e.reshape(result.place, c.result(1).sizes));
}

constexpr Entry kEntries[] = {
    {"aten::_adaptive_avg_pool2d", adaptive_average},
    {"aten::_adaptive_avg_pool2d_backward", adaptive_average_backward},
    {"aten::_adaptive_avg_pool3d", adaptive_average},
    {"aten::_adaptive_avg_pool3d_backward", adaptive_average_backward},
    {"aten::adaptive_max_pool2d", adaptive_maximum},
    {"aten::adaptive_max_pool2d_backward", to_places},
    {"aten::adaptive_max_pool3d", adaptive_maximum},
    {"aten::adaptive_max_pool3d_backward", to_places},
    {"aten::fractional_max_pool2d", fractional_maximum},
    {"aten::fractional_max_pool2d_backward", to_places},
    {"aten::fractional_max_pool3d", fractional_maximum},
    {"aten::fractional_max_pool3d_backward", to_places},
    {"aten::max_pool3d_with_indices_backward", to_places},
    {"aten::max_unpool2d", max_unpool},
    {"aten::max_unpool3d", max_unpool},
};

}  // namespace

std::span<const Entry> adaptive_pool_entries() { return kEntries; }

}  // namespace crucible::aten
