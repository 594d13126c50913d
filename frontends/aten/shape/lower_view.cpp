// Lowering of views and copies. A view costs nothing: the recorded result already says which elements of its storage it
// names. Copies of whole buffers cost nothing either, because values are never written again.
#include "core/graph/view.hpp"
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

/// Every result must be a view of the argument. Where it lies is in the results; numbers of the op do not matter.
void alias(OpCall& c) {
  c.ignore_numbers();
  for (std::size_t k = 0; k < c.result_count(); ++k) {
    if (!c.aliases(k, "self")) return c.emit().fail("the result of a view op has a storage of its own");
  }
}

/// The tensor is another view of other memory from now on: which one, its readers show.
void set_storage(OpCall& c) { c.ignore_numbers(); }

/// A reshape that the framework may have done by copying.
void reshape(OpCall& c) {
  if (c.aliases(0, "self")) return;
  c.set(0, c.emit().reshape(c.tensor("self"), c.result(0).sizes));
}

/// The same elements in a storage of their own, perhaps in another dtype or layout.
void clone(OpCall& c) {
  if (c.aliases(0, "self")) return;  // a conversion that had nothing to do
  c.set(0, c.tensor("self"));
}

void copy_in_place(OpCall& c) {
  const Expression source = c.operand("src");
  c.set(0, source);
}

void cat(OpCall& c) {
  std::vector<Term> pieces;
  for (const Term& piece : c.tensors("tensors")) {
    const bool legacy_empty = piece.rank() == 1 && piece.size(0) == 0 && c.result(0).sizes.size() != 1;
    if (!legacy_empty) pieces.push_back(piece);
  }
  if (pieces.empty()) return c.emit().fail("a concatenation of nothing");
  c.set(0, c.emit().concat(pieces, wrap_dim(c.integer("dim"), pieces.front().rank())));
}

void stack(OpCall& c) {
  std::vector<Term> pieces;
  const auto dim = c.integer("dim");
  for (const Term& piece : c.tensors("tensors")) pieces.push_back(c.emit().unsqueeze(piece, dim));
  if (pieces.empty()) return c.emit().fail("a stack of nothing");
  c.set(0, c.emit().concat(pieces, wrap_dim(dim, pieces.front().rank())));
}

/// Zeros in which a view of the result holds the gradient.
void scatter_view(OpCall& c, const graph::View& region) {
  Emitter& e = c.emit();
  const Expression gradient = c.tensor("grad_output");
  const auto elements = graph::View::contiguous(c.result(0).sizes).elements();
  const Expression base = e.fill(Term::integer(0), {elements}, gradient.dtype);
  graph::Attributes attributes;
  attributes.region = region;
  const Expression source = e.reshape(gradient, region.sizes);
  const Expression flat = e.emit(graph::OpKind::kUpdate, {base, source}, {elements}, gradient.dtype, attributes);
  c.set(0, e.reshape(flat, c.result(0).sizes));
}

/// The gradient of a view along `dim` whose start differs between iterations; `drops`: the view has not that dimension.
void moving_backward(OpCall& c, std::int64_t dim, const Term& start, std::int64_t step, bool drops) {
  Emitter& e = c.emit();
  const Sizes& sizes = c.result(0).sizes;
  Term gradient = c.tensor("grad_output");
  if (drops) gradient = e.unsqueeze(gradient, dim);
  std::vector<Term> indices;
  for (std::int64_t d = 0; d < gradient.rank(); ++d) indices.push_back(e.position(d, gradient.sizes()));
  Term& along = indices[static_cast<std::size_t>(dim)];
  const Expression first = e.fill(e.wrapped(start, sizes[static_cast<std::size_t>(dim)]), {}, DType::kI64);
  along = e.binary(graph::OpKind::kMultiply, along, Term::integer(step)) + first;
  const Expression zeros = e.fill(Term::integer(0), sizes, gradient.dtype);
  const Expression place = e.expand(e.linear_index(sizes, indices), gradient.sizes());
  c.set(0, e.put(graph::OpKind::kPutSet, zeros, place, gradient));
}

void select_backward(OpCall& c) {
  graph::View region = graph::View::contiguous(c.result(0).sizes);
  const auto rank = static_cast<std::int64_t>(region.sizes.size());
  const auto dim = wrap_dim(c.integer("dim"), rank);
  if (dim < 0 || dim >= rank || c.tensor("grad_output").rank() != rank - 1) {
    return c.emit().fail("argument dim, the gradient and the result do not fit each other");
  }
  const auto at = region.sizes.begin() + dim;
  const Expression given = c.operand("index");
  if (given.operand.scalar.slot != graph::kNone) return moving_backward(c, dim, given, 1, true);
  const std::int64_t index = given.operand.scalar.integer;
  if (index < -*at || index >= *at) return c.emit().fail("argument index is outside of the dimension");
  region.offset += region.strides[static_cast<std::size_t>(dim)] * (index < 0 ? index + *at : index);
  region.sizes.erase(at);
  region.strides.erase(region.strides.begin() + dim);
  scatter_view(c, region);
}

void slice_backward(OpCall& c) {
  graph::View region = graph::View::contiguous(c.result(0).sizes);
  const auto dim = static_cast<std::size_t>(wrap_dim(c.integer("dim"), static_cast<std::int64_t>(region.sizes.size())));
  if (dim >= region.sizes.size() || c.tensor("grad_output").sizes().size() != region.sizes.size() ||
      c.integer("step") < 1) {
    return c.emit().fail("arguments dim and step, the gradient and the result do not fit each other");
  }
  const auto step = c.integer("step"), size = region.sizes[dim];
  const Expression given = c.operand("start");
  if (given.operand.scalar.slot != graph::kNone) {
    c.operand("end");
    return moving_backward(c, static_cast<std::int64_t>(dim), given, step, false);
  }
  const std::int64_t start = given.operand.scalar.integer;
  const auto first = start < 0 ? start + size : start;
  region.offset += region.strides[dim] * std::min(std::max<std::int64_t>(first, 0), size);
  region.sizes = c.tensor("grad_output").sizes();
  if (region.sizes[dim] > 1 && step > size)
    return c.emit().fail("argument step is larger than the dimension, of which the gradient has more than one part");
  if (region.sizes[dim] > 1) region.strides[dim] *= step;
  scatter_view(c, region);
}

constexpr Entry kAliases[] = {
    {"aten::t", alias},
    {"aten::transpose.int", alias},
    {"aten::permute", alias},
    {"aten::expand", alias},
    {"aten::detach", alias},
    {"aten::alias", alias},
    {"aten::select.int", alias},
    {"aten::slice.Tensor", alias},
    {"aten::split.Tensor", alias},
    {"aten::split_with_sizes", alias},
    {"aten::unbind.int", alias},
    {"aten::squeeze", alias},
    {"aten::squeeze.dim", alias},
    {"aten::squeeze.dims", alias},
    {"aten::unsqueeze", alias},
    {"aten::as_strided", alias},
    {"aten::resize_", alias},
    {"aten::resize_as_", alias},
    {"aten::diagonal", alias},
    {"aten::unfold", alias},
    {"aten::lift_fresh", alias},
    {"aten::view_as_real", alias},  // a complex number lies in memory as its two parts
    {"aten::view_as_complex", alias},
    {"aten::view.dtype", alias},  // readers see the dtype
    {"aten::set_", set_storage},
    {"aten::set_.source_Storage", set_storage},
    {"aten::set_.source_Storage_storage_offset", set_storage},
    {"aten::set_.source_Tensor", set_storage},
    {"aten::_conj", alias},  // readers see that the tensor is a lazy view
    {"aten::_neg_view", alias},
};

constexpr Entry kEntries[] = {
    {"aten::view", reshape},
    {"aten::_unsafe_view", reshape},
    {"aten::_reshape_alias", reshape},
    {"aten::clone", clone},
    {"aten::_to_copy", clone},
    {"aten::lift_fresh_copy", clone},
    {"aten::detach_copy", clone, Complexity::kParts},
    {"aten::copy_", copy_in_place},
    {"aten::cat", cat, Complexity::kParts},
    {"aten::stack", stack, Complexity::kParts},
    {"aten::select_backward", select_backward, Complexity::kParts},
    {"aten::slice_backward", slice_backward, Complexity::kParts},
};

}  // namespace

std::span<const Entry> alias_entries() { return kAliases; }
std::span<const Entry> view_entries() { return kEntries; }

}  // namespace crucible::aten
