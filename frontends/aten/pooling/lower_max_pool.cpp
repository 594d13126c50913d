// Lowering of max pooling over one to three dimensions, with indices and gradients. The program pools planes; a third
// dimension is pooled after them.
#include <fmt/format.h>

#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/axis_index.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/pooling/pool_window.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// A list of two, or one number for both sides.
void pair_of(OpCall& c, std::string_view name, std::int64_t (&pair)[2]) {
  const auto list = c.integers(name);
  if (list.empty() || list.size() > 2) return c.emit().fail(fmt::format("argument {} needs 2 sides", name));
  pair[0] = list.front();
  pair[1] = list.back();
}

graph::Attributes window_attributes(OpCall& c) {
  graph::Attributes a;
  pair_of(c, "kernel_size", a.kernel);
  pair_of(c, "padding", a.padding);
  pair_of(c, "dilation", a.dilation);
  a.stride[0] = a.kernel[0];
  a.stride[1] = a.kernel[1];
  if (!c.integers("stride").empty()) pair_of(c, "stride", a.stride);
  return a;
}

/// [c, h, w] as [1, c, h, w].
Term batched(Emitter& e, const Term& x) { return x.rank() == 3 ? e.unsqueeze(x, 0) : x; }

Sizes batched(Sizes sizes) {
  if (sizes.size() == 3) sizes.insert(sizes.begin(), 1);
  return sizes;
}

void max_pool2d(OpCall& c) {
  Emitter& e = c.emit();
  const Term x = batched(e, c.tensor("self"));
  const auto attributes = window_attributes(c);
  const Sizes sizes = batched(c.result(0).sizes);
  const auto y = e.emit_many(OpKind::kMaxPool2d, {x}, {{sizes, x.dtype}, {sizes, DType::kI64}}, attributes);
  c.set(0, e.reshape(y[0], c.result(0).sizes));
  c.set(1, e.reshape(y[1], c.result(1).sizes));
}

/// Lines as planes of one row: [n, c, l] as [n, c, 1, l]. Without gradients the framework pools them by a kernel of
/// their own.
void max_pool1d(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const Sizes output = c.result(0).sizes;
  const auto axes = pool_axes(c, x.sizes(), output);
  c.boolean("ceil_mode");
  if (!e.failure().empty()) return;
  const std::int64_t lead = x.rank() == 3 ? x.size(0) : 1;
  graph::Attributes window;
  window.kernel[1] = axes[0].kernel;
  window.stride[1] = axes[0].stride;
  window.padding[1] = axes[0].padding;
  window.dilation[1] = axes[0].dilation;
  const Sizes sizes{lead, x.size(-2), 1, output.back()};
  const Expression lines = e.reshape(x, {lead, x.size(-2), 1, x.size(-1)});
  const auto y = e.emit_many(OpKind::kMaxPool2d, {lines}, {{sizes, x.dtype}, {sizes, DType::kI64}}, window);
  c.set(0, e.reshape(y[0], output));
}

void max_pool2d_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Term g = batched(e, c.tensor("grad_output")), index = batched(e, c.tensor("indices"));
  window_attributes(c);
  const Sizes sizes = batched(c.result(0).sizes);
  if (sizes.size() == 4) e.expect_in(index, 0, sizes[2] * sizes[3] - 1);
  c.set(0, e.reshape(e.emit(OpKind::kMaxPool2dBackward, {g, index}, sizes, g.dtype), c.result(0).sizes));
}

/// Planes first, then lines of windows through them: both take the first maximum in the order of the whole volume.
void max_pool3d(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const Sizes output = c.result(0).sizes;
  const auto axes = pool_axes(c, x.sizes(), output);
  c.boolean("ceil_mode");
  if (!e.failure().empty()) return;
  const auto rank = x.rank();
  const std::int64_t lead = rank == 5 ? x.size(0) * x.size(1) : x.size(0);
  const std::int64_t depth = x.size(-3), width = x.size(-1), plane = axes[1].output * axes[2].output;
  graph::Attributes flat, deep;
  for (std::size_t d = 0; d < 2; ++d) {
    flat.kernel[d] = axes[1 + d].kernel;
    flat.stride[d] = axes[1 + d].stride;
    flat.padding[d] = axes[1 + d].padding;
    flat.dilation[d] = axes[1 + d].dilation;
  }
  deep.kernel[0] = axes[0].kernel;
  deep.stride[0] = axes[0].stride;
  deep.padding[0] = axes[0].padding;
  deep.dilation[0] = axes[0].dilation;
  const auto pooled = [&](const Term& from, const Sizes& sizes, const graph::Attributes& attributes) {
    return e.emit_many(OpKind::kMaxPool2d, {from}, {{sizes, x.dtype}, {sizes, DType::kI64}}, attributes);
  };
  const auto planes = pooled(e.reshape(x, {lead, depth, x.size(-2), width}),
                             {lead, depth, axes[1].output, axes[2].output}, flat);
  const auto lines = pooled(e.reshape(planes[0], {lead, 1, depth, plane}), {lead, 1, axes[0].output, plane}, deep);
  // A line's index names the plane of its maximum and the window there; that plane's index names the element.
  const Sizes windows{lead, axes[0].output * plane};
  const Expression line = e.reshape(lines[1], windows);
  const Expression inside = e.take_at(e.reshape(planes[1], {lead, depth * plane}), {e.position(0, windows), line});
  const Term layer = floor_quotient(e, line, plane);
  const Expression index = e.binary(OpKind::kMultiply, layer, Term::integer(x.size(-2) * width)) + inside;
  c.set(0, e.reshape(lines[0], output));
  c.set(1, e.reshape(index, output));
}

constexpr Entry kEntries[] = {
    {"aten::max_pool1d", max_pool1d},
    {"aten::max_pool3d_with_indices", max_pool3d},
    {"aten::max_pool2d_with_indices", max_pool2d},
    {"aten::max_pool2d_with_indices_backward", max_pool2d_backward},
};

}  // namespace

std::span<const Entry> max_pool_entries() { return kEntries; }

}  // namespace crucible::aten
