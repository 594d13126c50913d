// Lowering of average pooling over one to three dimensions and its gradient: sums over windows, divided by how many
// elements each window counts.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/pooling/pool_window.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// How many elements the windows along one axis count: one entry per window.
std::vector<std::int64_t> counts(const Axis& a, bool include_margin) {
  std::vector<std::int64_t> result;
  for (std::int64_t o = 0; o < a.output; ++o) {
    std::int64_t begin = o * a.stride - a.padding, end = std::min(begin + a.kernel, a.input + a.padding);
    if (!include_margin) {
      begin = std::max<std::int64_t>(begin, 0);
      end = std::min(end, a.input);
    }
    result.push_back(end - begin);
  }
  return result;
}

/// counts() as i64 elements along dimension `dim` of a tensor with `rank` dimensions.
Expression counts_along(Emitter& e, const Axis& a, bool include_margin, std::int64_t dim, std::int64_t rank) {
  Sizes sizes(static_cast<std::size_t>(rank), 1);
  sizes[static_cast<std::size_t>(dim)] = a.output;
  const auto with = [&](OpKind kind, const Term& x, std::int64_t number) {
    return e.binary(kind, x, Term::integer(number));
  };
  Term begin = with(OpKind::kMultiply, e.coordinate(dim, sizes, DType::kI64), a.stride);
  begin = with(OpKind::kSubtract, begin, a.padding);
  Term end = with(OpKind::kMinimum, with(OpKind::kAdd, begin, a.kernel), a.input + a.padding);
  if (!include_margin) {
    begin = with(OpKind::kMaximum, begin, 0);
    end = with(OpKind::kMinimum, end, a.input);
  }
  return e.binary(OpKind::kSubtract, end, begin);
}

/// What the sum of each window is divided by: a number where that is the same for all, else a tensor that broadcasts.
Term divisor(OpCall& c, const std::vector<Axis>& axes, std::int64_t rank, DType dtype) {
  Emitter& e = c.emit();
  const auto fixed = [&](std::int64_t number) {
    return is_floating(dtype) ? Term::number(static_cast<double>(number)) : Term::integer(number);
  };
  if (c.has("divisor_override")) return fixed(c.integer("divisor_override"));
  const bool include = c.boolean("count_include_pad");
  const auto first = rank - static_cast<std::int64_t>(axes.size());
  std::int64_t number = 1;
  Term product = Term::integer(1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto list = counts(axes[i], include);
    if (std::ranges::all_of(list, [&](auto count) { return count == list.front(); })) {
      number *= list.empty() ? 1 : list.front();
      continue;
    }
    const Expression along = counts_along(e, axes[i], include, first + static_cast<std::int64_t>(i), rank);
    product = product.is_number() ? along : product * along;
  }
  if (product.is_number()) return fixed(number);
  return e.cast(e.binary(OpKind::kMultiply, product, Term::integer(number)), dtype);
}

void average_pool(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.wide("self");
  const auto axes = pool_axes(c, x.sizes(), c.result(0).sizes);
  c.boolean("ceil_mode");
  if (!e.failure().empty()) return;
  const auto dims = last_dims(x.rank(), axes.size());
  std::vector<std::int64_t> taps;
  for (std::size_t i = 0; i < axes.size(); ++i) taps.push_back(x.rank() + static_cast<std::int64_t>(i));
  const Expression sums = e.drop(e.sum(windows(e, x, dims, axes, Term::integer(0)), taps), taps);
  c.set(0, e.binary(is_floating(x.dtype) ? OpKind::kDivide : OpKind::kDivideInteger, sums,
                    divisor(c, axes, x.rank(), x.dtype)));
}

/// Every element of g along `dim` added to all inputs of its window.
Term spread_over_windows(Emitter& e, const Term& g, std::int64_t dim, const Axis& a) {
  if (a.kernel <= a.stride) {  // no two windows meet
    Sizes sizes = g.sizes();
    sizes.push_back(a.kernel);
    return fold_windows(e, e.expand(e.unsqueeze(g, -1), sizes), {dim}, {a});
  }
  const Term far = spread(e, g, dim, a.stride, a.kernel - 1 - a.padding, a.input + a.kernel - 1);
  const Term seen = windows(e, far, {dim}, {{far.size(dim), a.input, a.kernel}}, Term::number(0));
  return e.drop(e.sum(seen, {-1}), {-1});
}

void average_pool_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Expression g = c.wide("grad_output");
  const auto axes = pool_axes(c, c.tensor("self").sizes(), g.sizes());
  c.boolean("ceil_mode");
  if (!e.failure().empty()) return;
  Term result = g / divisor(c, axes, g.rank(), g.dtype);
  const auto dims = last_dims(g.rank(), axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) result = spread_over_windows(e, result, dims[i], axes[i]);
  c.set(0, result);
}

constexpr Entry kEntries[] = {
    {"aten::avg_pool2d", average_pool},
    {"aten::avg_pool2d_backward", average_pool_backward},
    {"aten::avg_pool3d", average_pool},
    {"aten::avg_pool3d_backward", average_pool_backward},
};

}  // namespace

std::span<const Entry> average_pool_entries() { return kEntries; }

}  // namespace crucible::aten
