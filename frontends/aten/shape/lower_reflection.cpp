// Lowering of paddings that repeat the tensor itself, mirrored or its edge, over the last one to three dimensions, and
// of their gradients.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/axis_index.hpp"
#include "frontends/aten/lower_table.hpp"
#include "frontends/aten/pooling/pool_window.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;

/// Which input each element along one side repeats; `before` may be negative.
Term source_index(Emitter& e, bool mirrored, std::int64_t input, std::int64_t before, std::int64_t output) {
  const auto with = [&](OpKind kind, const Term& x, std::int64_t number) {
    return e.binary(kind, x, Term::integer(number));
  };
  const Term place = with(OpKind::kSubtract, e.coordinate(0, {output}, DType::kI64), before);
  if (!mirrored) return with(OpKind::kMinimum, with(OpKind::kMaximum, place, 0), input - 1);
  // Mirrored at both ends: last - |last - |place||.
  const Expression left = e.unary(OpKind::kAbsolute, place);
  const Expression right = e.unary(OpKind::kAbsolute, with(OpKind::kSubtract, left, input - 1));
  return e.unary(OpKind::kNegate, with(OpKind::kSubtract, right, input - 1));
}

/// Calls visit(dimension, margin in front) for every padded side; the argument lists the last dimension first.
template <class Visit>
void for_each_side(OpCall& c, std::int64_t rank, Visit visit) {
  const Sizes padding = c.integers("padding");
  if (static_cast<std::int64_t>(padding.size()) / 2 > rank)
    return c.emit().fail("margins for more dimensions than there are");
  for (std::size_t i = 0; 2 * i + 1 < padding.size(); ++i) {
    const std::int64_t dim = rank - 1 - static_cast<std::int64_t>(i);
    if (padding[2 * i] != 0 || padding[2 * i + 1] != 0) visit(dim, padding[2 * i]);
  }
}

bool is_mirrored(const OpCall& c) { return c.entry_name().starts_with("aten::reflection"); }

void pad(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const Sizes output = c.result(0).sizes;
  if (output.size() != x.sizes().size()) return e.fail("image and result differ in their number of dimensions");
  std::vector<Term> indices;
  for (std::int64_t d = 0; d < x.rank(); ++d) indices.push_back(e.position(d, output));
  for_each_side(c, x.rank(), [&](std::int64_t dim, std::int64_t before) {
    const auto d = static_cast<std::size_t>(dim);
    indices[d] = laid_along(e, source_index(e, is_mirrored(c), x.size(dim), before, output[d]), dim, x.rank());
  });
  c.set(0, e.take_at(x, indices));
}

void pad_backward(OpCall& c) {
  Emitter& e = c.emit();
  Term g = c.wide("grad_output");
  const Sizes input = c.tensor("self").sizes();
  if (input.size() != g.sizes().size()) return e.fail("image and gradient differ in their number of dimensions");
  for_each_side(c, g.rank(), [&](std::int64_t dim, std::int64_t before) {
    const std::int64_t size = input[static_cast<std::size_t>(dim)];
    g = add_along(e, g, dim, source_index(e, is_mirrored(c), size, before, g.size(dim)), size);
  });
  c.set(0, g);
}

constexpr Entry kEntries[] = {
    {"aten::reflection_pad1d", pad, Complexity::kParts},
    {"aten::reflection_pad1d_backward", pad_backward, Complexity::kParts},
    {"aten::reflection_pad2d", pad, Complexity::kParts},
    {"aten::reflection_pad2d_backward", pad_backward, Complexity::kParts},
    {"aten::reflection_pad3d", pad, Complexity::kParts},
    {"aten::reflection_pad3d_backward", pad_backward, Complexity::kParts},
    {"aten::replication_pad1d", pad, Complexity::kParts},
    {"aten::replication_pad1d_backward", pad_backward, Complexity::kParts},
    {"aten::replication_pad2d", pad, Complexity::kParts},
    {"aten::replication_pad2d_backward", pad_backward, Complexity::kParts},
    {"aten::replication_pad3d", pad, Complexity::kParts},
    {"aten::replication_pad3d_backward", pad_backward, Complexity::kParts},
};

}  // namespace

std::span<const Entry> reflection_entries() { return kEntries; }

}  // namespace crucible::aten
