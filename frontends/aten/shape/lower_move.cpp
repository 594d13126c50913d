// Lowering of ops that move elements to fixed places: paddings, repetitions, rolls, flips, writes to views and the
// gradients of views, copies of views.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/graph/view.hpp"
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;
using graph::View;

Term with_view(Term x, View view) {
  x.operand.view = graph::normalized(std::move(view));
  return x;
}

void constant_pad(OpCall& c) {
  Emitter& e = c.emit();
  Term x = c.tensor("self");
  const auto pad = c.integers("pad");
  const Sizes& sizes = c.result(0).sizes;
  View region = View::contiguous(sizes);
  if (pad.size() / 2 > x.sizes().size() || sizes.size() != x.sizes().size()) {
    return e.fail(fmt::format("a margin of {} numbers around a tensor with {} dimensions", pad.size(), x.rank()));
  }
  for (std::size_t i = 0; i < pad.size() / 2; ++i) {
    const std::size_t d = x.sizes().size() - 1 - i;
    const auto dim = static_cast<std::int64_t>(d);
    const std::int64_t before = pad[2 * i], after = pad[2 * i + 1];
    const std::int64_t cut = std::max<std::int64_t>(-before, 0), cut_end = std::max<std::int64_t>(-after, 0);
    const std::int64_t length = std::max<std::int64_t>(0, x.sizes()[d] - cut - cut_end);
    x = narrow(x, dim, std::min(cut, x.sizes()[d]), length);
    region.sizes[d] = length;
    if (length > 0) region.offset += std::max<std::int64_t>(before, 0) * region.strides[d];
  }
  const Term value = c.has("value") ? c.operand("value") : Term::integer(0);
  const Term base = e.fill(value, sizes, x.dtype);
  c.set(0, x.elements() == 0 ? base : updated(e, base, region, x));
}

void repeat(OpCall& c) {
  Emitter& e = c.emit();
  Term x = c.tensor("self");
  const auto times = c.integers("repeats");
  if (static_cast<std::int64_t>(times.size()) < x.rank()) return e.fail("fewer repeats than dimensions");
  while (x.rank() < static_cast<std::int64_t>(times.size())) x = e.unsqueeze(x, 0);
  Sizes apart, wide;
  for (std::size_t d = 0; d < times.size(); ++d) {
    apart.insert(apart.end(), {1, x.sizes()[d]});
    wide.insert(wide.end(), {times[d], x.sizes()[d]});
  }
  c.set(0, e.reshape(e.expand(e.reshape(x, apart), wide), c.result(0).sizes));
}

Term rolled(Emitter& e, const Term& x, std::int64_t dim, std::int64_t shift) {
  if (x.rank() == 0) return x;
  const std::int64_t size = x.size(dim);
  if (size == 0) return x;
  const std::int64_t by = (shift % size + size) % size;
  if (by == 0) return x;
  return e.concat({narrow(x, dim, size - by, by), narrow(x, dim, 0, size - by)}, wrap_dim(dim, x.rank()));
}

void roll(OpCall& c) {
  Emitter& e = c.emit();
  Term x = c.tensor("self");
  const auto shifts = c.integers("shifts"), dims = c.integers("dims");
  if (!dims.empty() && dims.size() != shifts.size()) return e.fail("shifts and dims differ in their number");
  if (dims.empty() && !shifts.empty()) {
    return c.set(0, e.reshape(rolled(e, e.reshape(x, {x.elements()}), 0, shifts[0]), x.sizes()));
  }
  for (std::size_t i = 0; i < dims.size(); ++i) x = rolled(e, x, dims[i], shifts[i]);
  c.set(0, x);
}

Term flipped(Emitter& e, const Term& x, const std::vector<std::int64_t>& dims) {
  std::vector<Term> terms;
  for (std::int64_t d = 0; d < x.rank(); ++d) terms.push_back(e.position(d, x.sizes()));
  for (const auto given : dims) {
    if (x.rank() == 0) return x;
    const auto d = static_cast<std::size_t>(wrap_dim(given, x.rank()));
    terms[d] = e.binary(OpKind::kSubtract, Term::integer(x.sizes()[d] - 1), terms[d]);
  }
  return e.expand(e.take_at(x, terms), x.sizes());
}

void flip(OpCall& c) { c.set(0, flipped(c.emit(), c.tensor("self"), c.integers("dims"))); }

void rot90(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const auto dims = c.integers("dims");
  if (dims.size() != 2) return e.fail("a rotation needs two dimensions");
  switch ((c.integer("k") % 4 + 4) % 4) {
    case 0:
      return c.set(0, x);
    case 1:
      return c.set(0, e.transpose(flipped(e, x, {dims[1]}), dims[0], dims[1]));
    case 2:
      return c.set(0, flipped(e, x, dims));
    default:
      return c.set(0, e.transpose(flipped(e, x, {dims[0]}), dims[0], dims[1]));
  }
}

View selected(View view, std::int64_t dim, std::int64_t index) {
  const auto d = wrap_dim(dim, static_cast<std::int64_t>(view.sizes.size()));
  view.offset += view.strides[static_cast<std::size_t>(d)] * wrap_dim(index, view.sizes[static_cast<std::size_t>(d)]);
  view.sizes.erase(view.sizes.begin() + d);
  view.strides.erase(view.strides.begin() + d);
  return view;
}

View sliced(OpCall& c, View view) {
  const auto d = static_cast<std::size_t>(wrap_dim(c.integer("dim"), static_cast<std::int64_t>(view.sizes.size())));
  const std::int64_t step = c.integer("step");
  if (d >= view.sizes.size() || step < 1) {
    c.emit().fail("arguments dim and step do not fit the tensor");
    return view;
  }
  const std::int64_t size = view.sizes[d];
  const auto place = [&](std::string_view name, std::int64_t otherwise) {
    const std::int64_t given = c.has(name) ? c.integer(name) : otherwise;
    return std::clamp<std::int64_t>(given < 0 ? given + size : given, 0, size);
  };
  const std::int64_t start = place("start", 0), end = std::max(start, place("end", size));
  view.sizes[d] = (end - start) / step + ((end - start) % step != 0 ? 1 : 0);
  if (view.sizes[d] > 0) view.offset += start * view.strides[d];
  if (view.sizes[d] > 1) view.strides[d] *= step;
  return view;
}

View unfolded(View view, std::int64_t dim, std::int64_t size, std::int64_t step) {
  if (view.sizes.empty()) return View{view.offset, {size}, {1}};
  const auto d = static_cast<std::size_t>(wrap_dim(dim, static_cast<std::int64_t>(view.sizes.size())));
  view.sizes.push_back(size);
  view.strides.push_back(view.strides[d]);
  view.sizes[d] = (view.sizes[d] - size) / step + 1;
  if (view.sizes[d] > 1) view.strides[d] *= step;
  return view;
}

/// `src` in the dtype and sizes of `self`, which nothing else is read of.
void copy(OpCall& c) {
  if (c.has("non_blocking")) c.boolean("non_blocking");
  c.set(0, c.emit().expand(c.tensor("src"), c.result(0).sizes));
}

void narrow_copy(OpCall& c) {
  const Expression x = c.tensor("self");
  const auto dim = c.integer("dim");
  const std::int64_t start = c.integer("start"), length = c.integer("length"), size = x.size(dim);
  if (start < -size || start > size || length < 0 || length > size)
    return c.emit().fail("arguments start and length do not fit the dimension");
  c.set(0, narrow(x, dim, start < 0 ? start + size : start, length));
}

/// The part of a tensor that a view op with the arguments of `c` names.
View part_of(OpCall& c, const View& view) {
  const std::string& name = c.full_name();
  const auto rank = static_cast<std::int64_t>(view.sizes.size());
  const auto is = [&](std::string_view prefix) { return name.starts_with(prefix); };
  std::vector<const char*> dims;  // that it reads below, whether the call has them or not
  if (is("aten::select") || is("aten::slice")) dims = {"dim"};
  if (is("aten::diagonal")) dims = {"dim1", "dim2"};
  if (is("aten::unfold")) dims = {"dimension"};
  for (const char* argument : dims) {
    const std::int64_t dim = wrap_dim(c.integer(argument), rank);
    if (dim >= 0 && dim < std::max<std::int64_t>(rank, is("aten::unfold") ? 1 : 0)) continue;
    c.emit().fail(fmt::format("argument {} names dimension {} of {}", argument, dim, rank));
    return view;
  }
  if ((c.has("step") || is("aten::unfold")) && c.integer("step") < 1) {
    c.emit().fail("argument step is not positive");
    return view;
  }
  // The dimension is there, so a number beyond its size is a mistake, and may be one that no arithmetic holds.
  const auto fits = [&](const char* dim, const char* argument, std::int64_t lowest) {
    const std::int64_t size = rank == 0 ? 1 : view.sizes[static_cast<std::size_t>(wrap_dim(c.integer(dim), rank))],
                       given = c.integer(argument);
    const bool inside = given >= lowest * size && given < size + (lowest < 0 ? 0 : 1);
    if (!inside) c.emit().fail(fmt::format("argument {} is {} in a dimension of {}", argument, given, size));
    return inside;
  };
  if (is("aten::select") && !fits("dim", "index", -1)) return view;
  if (is("aten::unfold") && !fits("dimension", "size", 0)) return view;
  if (is("aten::select")) return selected(view, c.integer("dim"), c.integer("index"));
  if (is("aten::slice")) return sliced(c, view);
  if (is("aten::diagonal")) return diagonal_view(view, c.integer("offset"), c.integer("dim1"), c.integer("dim2"));
  if (is("aten::unfold")) return unfolded(view, c.integer("dimension"), c.integer("size"), c.integer("step"));
  const std::int64_t offset = c.has("storage_offset") ? c.integer("storage_offset") : view.offset;
  View view_by_strides{offset, c.integers("size"), c.integers("stride")};
  if (graph::last_index(view_by_strides)) return view_by_strides;
  c.emit().fail("arguments size, stride and storage_offset make no view");
  return view;
}

/// The gradient of a view: zeros, in which the view holds the gradient of its elements.
void view_backward(OpCall& c) {
  Emitter& e = c.emit();
  const Sizes& sizes = c.result(0).sizes;
  const Expression gradient = c.tensor("grad_output");
  c.integers("input_sizes");
  const Expression zeros = e.fill(Term::integer(0), sizes, gradient.dtype);
  if (gradient.elements() == 0) return c.set(0, zeros);
  c.set(0, updated(e, zeros, part_of(c, View::contiguous(sizes)), gradient));
}

/// A copy of the tensor with `src` in place of a view.
void view_scatter(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self"), source = c.tensor("src");
  if (source.elements() == 0) return c.set(0, e.copy(x));
  c.set(0, updated(e, x, part_of(c, View::contiguous(x.sizes())), source));
}

void view_copy(OpCall& c) {
  const Expression x = c.tensor("self");
  c.set(0, with_view(x, part_of(c, x.operand.view)));
}

void diag_embed(OpCall& c) {
  Emitter& e = c.emit();
  const Expression x = c.tensor("self");
  const Sizes& sizes = c.result(0).sizes;
  const View region = diagonal_view(View::contiguous(sizes), c.integer("offset"), c.integer("dim1"), c.integer("dim2"));
  const Term zeros = e.fill(Term::integer(0), sizes, x.dtype);
  c.set(0, x.elements() == 0 ? zeros : updated(e, zeros, region, x));
}

void permute_copy(OpCall& c) { c.set(0, c.emit().permute(c.tensor("self"), c.integers("dims"))); }
void transpose_copy(OpCall& c) { c.set(0, c.emit().transpose(c.tensor("self"), c.integer("dim0"), c.integer("dim1"))); }
void t_copy(OpCall& c) {
  const Expression x = c.tensor("self");
  c.set(0, x.rank() < 2 ? x : c.emit().transpose(x, 0, 1));
}
void expand_copy(OpCall& c) { c.set(0, c.emit().expand(c.tensor("self"), c.result(0).sizes)); }

/// Copies that change sizes and not the order of elements; the result's sizes say all.
void reshape_copy(OpCall& c) {
  c.ignore_numbers();
  c.set(0, c.emit().reshape(c.tensor("self"), c.result(0).sizes));
}

void view_dtype_copy(OpCall& c) {
  c.ignore_numbers();
  c.set(0, c.emit().reshape(c.emit().bitcast(c.tensor("self"), c.result(0).dtype), c.result(0).sizes));
}

/// Copies of neighbouring parts; the results' sizes say where each ends.
void split_copy(OpCall& c) {
  const Expression x = c.tensor("self");
  const auto dim = wrap_dim(c.integer("dim"), x.rank());
  const bool drops = c.full_name().starts_with("aten::unbind");
  if (x.rank() == 0) return c.emit().fail("a tensor without dimensions has no parts");
  if (!c.emit().failure().empty()) return;  // then x need not have the results' dimensions
  std::int64_t start = 0;
  c.ignore_numbers();
  for (std::size_t k = 0; k < c.result_count(); ++k) {
    const std::int64_t length = drops ? 1 : c.result(k).sizes[static_cast<std::size_t>(dim)];
    const Term part = narrow(x, dim, start, length);
    c.set(k, drops ? c.emit().drop(part, {dim}) : part);
    start += length;
  }
}

constexpr Entry kEntries[] = {
    {"aten::constant_pad_nd", constant_pad},
    {"aten::repeat", repeat, Complexity::kParts},
    {"aten::roll", roll, Complexity::kParts},
    {"aten::flip", flip, Complexity::kParts},
    {"aten::rot90", rot90, Complexity::kParts},
    {"aten::diagonal_backward", view_backward, Complexity::kParts},
    {"aten::select_scatter", view_scatter, Complexity::kParts},
    {"aten::slice_scatter", view_scatter, Complexity::kParts},
    {"aten::diagonal_scatter", view_scatter, Complexity::kParts},
    {"aten::as_strided_scatter", view_scatter, Complexity::kParts},
    {"aten::diag_embed", diag_embed, Complexity::kParts},
    {"aten::select_copy.int", view_copy, Complexity::kParts},
    {"aten::slice_copy.Tensor", view_copy, Complexity::kParts},
    {"aten::copy", copy, Complexity::kParts},
    {"aten::narrow_copy", narrow_copy, Complexity::kParts},
    {"aten::diagonal_copy", view_copy, Complexity::kParts},
    {"aten::unfold_copy", view_copy, Complexity::kParts},
    {"aten::as_strided_copy", view_copy, Complexity::kParts},
    {"aten::permute_copy", permute_copy, Complexity::kParts},
    {"aten::transpose_copy.int", transpose_copy, Complexity::kParts},
    {"aten::t_copy", t_copy, Complexity::kParts},
    {"aten::expand_copy", expand_copy, Complexity::kParts},
    {"aten::view_copy", reshape_copy, Complexity::kParts},
    {"aten::view_copy.dtype", view_dtype_copy},
    {"aten::squeeze_copy", reshape_copy, Complexity::kParts},
    {"aten::squeeze_copy.dim", reshape_copy, Complexity::kParts},
    {"aten::squeeze_copy.dims", reshape_copy, Complexity::kParts},
    {"aten::unsqueeze_copy", reshape_copy, Complexity::kParts},
    {"aten::alias_copy", reshape_copy, Complexity::kParts},
    {"aten::split_copy.Tensor", split_copy, Complexity::kParts},
    {"aten::split_with_sizes_copy", split_copy, Complexity::kParts},
    {"aten::unbind_copy.int", split_copy, Complexity::kParts},
};

}  // namespace

std::span<const Entry> move_entries() { return kEntries; }

}  // namespace crucible::aten
