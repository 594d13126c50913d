// Lowering of views that come as copies of their own, and of conversions that may have had nothing to do.
#include <algorithm>

#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

/// The same elements, in the result's dtype, unless the result is the argument itself.
void convert(OpCall& c) {
  if (!c.aliases(0, "self")) c.set(0, c.tensor("self"));
}

/// A diagonal of the dimensions dim1 and dim2 becomes the last dimension.
void diagonal(OpCall& c) {
  Term x = c.tensor("self");
  auto& view = x.operand.view;
  const auto a = static_cast<std::size_t>(wrap_dim(c.integer("dim1"), x.rank()));
  const auto b = static_cast<std::size_t>(wrap_dim(c.integer("dim2"), x.rank()));
  const auto offset = c.integer("offset");
  const std::int64_t rows = view.sizes[a] + (offset < 0 ? offset : 0),
                     columns = view.sizes[b] - (offset > 0 ? offset : 0);
  const std::int64_t size = std::max<std::int64_t>(0, std::min(rows, columns)),
                     stride = view.strides[a] + view.strides[b];
  if (size > 0) view.offset += offset < 0 ? -offset * view.strides[a] : offset * view.strides[b];
  for (const auto dim : {std::max(a, b), std::min(a, b)}) {
    view.sizes.erase(view.sizes.begin() + static_cast<std::ptrdiff_t>(dim));
    view.strides.erase(view.strides.begin() + static_cast<std::ptrdiff_t>(dim));
  }
  view.sizes.push_back(size);
  view.strides.push_back(stride);
  c.set(0, x);
}

/// Pieces along a dimension: views of the argument, whatever the schema says, or copies.
void split(OpCall& c) {
  Term x = c.tensor("self");
  const auto dim = static_cast<std::size_t>(wrap_dim(c.integer("dim"), x.rank()));
  for (std::size_t k = 0; k < c.result_count(); ++k) {
    x.operand.view.sizes[dim] = c.result(k).sizes[dim];
    if (!c.aliases(k, "self")) c.set(k, x);
    x.operand.view.offset += x.operand.view.sizes[dim] * x.operand.view.strides[dim];
  }
}

constexpr Entry kEntries[] = {
    {"aten::to.dtype_layout", convert},
    {"aten::diagonal_copy", diagonal},
    {"aten::unsafe_split.Tensor", split},
    {"aten::unsafe_split_with_sizes", split},
};

}  // namespace

std::span<const Entry> view_copy_entries() { return kEntries; }

}  // namespace crucible::aten
