// Lowering of max pooling over one to three dimensions, with indices and gradients. The program pools planes; a third
// dimension is pooled after them.
#include <fmt/format.h>

#include "frontends/aten/formulas.hpp"
#include "frontends/aten/lower_table.hpp"

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

void max_pool2d_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Term g = batched(e, c.tensor("grad_output")), index = batched(e, c.tensor("indices"));
  window_attributes(c);
  const Sizes sizes = batched(c.result(0).sizes);
  c.set(0, e.reshape(e.emit(OpKind::kMaxPool2dBackward, {g, index}, sizes, g.dtype), c.result(0).sizes));
}

constexpr Entry kEntries[] = {
    {"aten::max_pool2d_with_indices", max_pool2d},
    {"aten::max_pool2d_with_indices_backward", max_pool2d_backward},
};

}  // namespace

std::span<const Entry> max_pool_entries() { return kEntries; }

}  // namespace crucible::aten
