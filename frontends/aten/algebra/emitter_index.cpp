// Reads and writes at places that data decides, the arithmetic of their indices, and bits of another dtype: see
// emitter.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "core/graph/view.hpp"
#include "frontends/aten/algebra/emitter.hpp"

namespace crucible::aten {

using graph::OpKind;
using graph::View;

namespace {

bool is_zero(const Term& index) {
  const graph::Scalar& scalar = index.operand.scalar;
  return index.is_number() && scalar.slot == graph::kNone && scalar.is_integer && scalar.integer == 0;
}

Term sum(Emitter& e, const Term& a, const Term& b) {
  if (is_zero(a)) return b;
  return is_zero(b) ? a : e.binary(OpKind::kAdd, a, b);
}

/// offset + the sum of indices times strides, as a tensor or a number.
Term weighted(Emitter& e, std::int64_t offset, const std::vector<Term>& indices,
              const std::vector<std::int64_t>& strides) {
  Term total = Term::integer(0);
  if (indices.size() > strides.size()) {
    e.fail(fmt::format("{} indices for a tensor with {} dimensions", indices.size(), strides.size()));
    return total;
  }
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (strides[d] == 0 || is_zero(indices[d])) continue;
    const Term index = e.cast(indices[d], DType::kI64);
    total = sum(e, total, strides[d] == 1 ? index : e.binary(OpKind::kMultiply, index, Term::integer(strides[d])));
  }
  return sum(e, total, Term::integer(offset));
}

Sizes common_sizes(Emitter& e, const std::vector<Term>& terms) {
  Sizes sizes;
  for (const Term& term : terms) {
    if (term.is_number()) continue;
    auto both = graph::broadcast_sizes(sizes, term.sizes());
    if (!both) {
      e.fail(fmt::format("indices of sizes [{}] and [{}] do not broadcast", fmt::join(sizes, ", "),
                         fmt::join(term.sizes(), ", ")));
      return sizes;
    }
    sizes = *both;
  }
  return sizes;
}

bool is_index(const Term& term) { return term.dtype == DType::kI64 || term.dtype == DType::kI32; }

}  // namespace

Expression Emitter::take(const Term& x, const Term& place) {
  const Term index = place.is_number() ? fill(place, {}, DType::kI64)
                     : is_index(place) ? place
                                       : cast(place, DType::kI64);
  return emit(OpKind::kTake, {reshape(x, {x.elements()}), index}, index.sizes(), x.dtype);
}

Expression Emitter::bitcast(const Term& x, DType dtype) {
  Term flat = reshape(x, {x.elements()});
  if (dtype == x.dtype) return in(flat);
  if (dtype == DType::kBool) return cast(bitcast(flat, DType::kU8), dtype);
  const std::int64_t from = size_bytes(x.dtype), to = size_bytes(dtype);
  if (from == 0 || to == 0) {
    fail(fmt::format("bits of {} are not read as {}", name(x.dtype), name(dtype)));
    return in(x);
  }
  const std::int64_t count = x.elements() * from / to;
  if (to > from) flat.operand.view.sizes[0] = count * (to / from);
  flat.operand.view = graph::normalized(std::move(flat.operand.view));
  graph::Attributes attributes;
  attributes.dims = {0};
  return emit(OpKind::kConcat, {flat}, {count}, dtype, attributes);
}

Expression Emitter::take_at(const Term& x, const std::vector<Term>& indices) {
  const Sizes sizes = common_sizes(*this, indices);
  if (x.is_number()) return fill(x, sizes, x.dtype);
  const View& view = x.operand.view;
  if (indices.size() != view.sizes.size()) {
    fail(fmt::format("{} indices for a tensor with {} dimensions", indices.size(), view.sizes.size()));
    return in(x);
  }
  if (View::contiguous(sizes).elements() == 0) return fill(Term::integer(0), sizes, x.dtype);
  Term buffer = x;
  buffer.operand.view = View::contiguous({program_.values[x.operand.value].elements});
  Term index = weighted(*this, view.offset, indices, view.strides);
  index = index.is_number() ? fill(index, sizes, DType::kI64) : expand(index, sizes);
  return take(buffer, index);
}

Expression Emitter::put(OpKind kind, const Term& base, const Term& place, const Term& source) {
  const bool truth = base.dtype == DType::kBool;
  if (truth && kind == OpKind::kPutAdd) kind = OpKind::kPutMax;
  if (truth && kind == OpKind::kPutMultiply) kind = OpKind::kPutMin;
  const Sizes sizes = common_sizes(*this, {place, source});
  const Term value =
      source.is_number() ? expand(fill(source, {}, base.dtype), sizes) : expand(cast(source, base.dtype), sizes);
  Term index = place.is_number() ? fill(place, sizes, DType::kI64) : place;
  if (!is_index(index)) index = cast(index, DType::kI64);
  const std::int64_t elements = base.elements();
  const Term flat = emit(kind, {reshape(base, {elements}), expand(index, sizes), value}, {elements}, base.dtype);
  return reshape(flat, base.sizes());
}

Expression Emitter::linear_index(const Sizes& sizes, const std::vector<Term>& indices) {
  return in(weighted(*this, 0, indices, View::contiguous(sizes).strides));
}

void Emitter::expect_in(const Term& index, std::int64_t low, std::int64_t high, std::optional<std::int64_t> except) {
  bounds_.expect({index, {low, high}, except, source_});
}

Expression Emitter::held_in(const Term& index, std::int64_t low, std::int64_t high) {
  const Term wide = index.is_number() ? index : cast(index, DType::kI64);
  if (const auto proven = proven_interval(program_, wide.operand); proven && proven->low >= low && proven->high <= high)
    return in(wide);
  return binary(OpKind::kMaximum, binary(OpKind::kMinimum, wide, Term::integer(high)), Term::integer(low));
}

Expression Emitter::wrapped(const Term& index, std::int64_t size) {
  expect_in(index, -size, size - 1);
  return wrapped_where_asked(index, size);
}

Expression Emitter::wrapped_where_asked(const Term& index, std::int64_t size) {
  if (index.is_number()) {
    if (index.operand.scalar.slot == graph::kNone) {
      const std::int64_t fixed = index.operand.scalar.integer;
      return in(Term::integer(fixed < 0 ? fixed + size : fixed));
    }
    auto values = number_values(index);
    for (graph::Number& value : values) value = value.integer() < 0 ? value.integer() + size : value.integer();
    return slot("wrapped index", std::move(values));
  }
  const Term wide = held_in(index, -size, std::max<std::int64_t>(size, 1) - 1);
  const Term is_negative = binary(OpKind::kLess, wide, Term::integer(0));
  return select(is_negative, binary(OpKind::kAdd, wide, Term::integer(size)), wide);
}

Expression Emitter::is_inside(const Term& index, std::int64_t size) {
  return binary(OpKind::kLogicalAnd, binary(OpKind::kGreaterEqual, index, Term::integer(0)),
                binary(OpKind::kLess, index, Term::integer(size)));
}

Expression Emitter::position(std::int64_t dim, const Sizes& sizes) {
  const auto at = static_cast<std::size_t>(wrap_dim(dim, static_cast<std::int64_t>(sizes.size())));
  if (at >= sizes.size()) {
    fail(fmt::format("dimension {} of a tensor with {}", dim, sizes.size()));
    return in(Term::integer(0));
  }
  Sizes ones(sizes.size(), 1);
  ones[at] = sizes[at];
  return reshape(coordinate(0, {sizes[at]}, DType::kI64), ones);
}

}  // namespace crucible::aten
