// Lowering of views that are views by behaviour and not by schema, and of conversions that may have had nothing to do.
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

/// The same elements, in the result's dtype, unless the result is the argument itself.
void convert(OpCall& c) {
  if (!c.aliases(0, "self")) c.set(0, c.tensor("self"));
}

/// Pieces along a dimension: views of the argument, whatever the schema says, or copies.
void split(OpCall& c) {
  Term x = c.tensor("self");
  const auto dim = static_cast<std::size_t>(wrap_dim(c.integer("dim"), x.rank()));
  if (x.rank() == 0) return c.emit().fail("a tensor without dimensions has no parts");
  for (std::size_t k = 0; k < c.result_count(); ++k) {
    x.operand.view.sizes[dim] = c.result(k).sizes[dim];
    if (!c.aliases(k, "self")) c.set(k, x);
    x.operand.view.offset += x.operand.view.sizes[dim] * x.operand.view.strides[dim];
  }
}

constexpr Entry kEntries[] = {
    {"aten::to.dtype_layout", convert},
    {"aten::unsafe_split.Tensor", split},
    {"aten::unsafe_split_with_sizes", split},
};

}  // namespace

std::span<const Entry> view_copy_entries() { return kEntries; }

}  // namespace crucible::aten
