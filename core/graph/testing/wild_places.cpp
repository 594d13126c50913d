// Ops of wild programs that read and write at indices, and those that join tensors: see wild_builder.hpp.
#include <array>

#include "core/graph/testing/wild_builder.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

/// `x` as a matrix [rows, width] of at least one element, or a new one.
Operand as_rows(WildBuilder& b, Operand x) {
  const Sizes sizes = x.view.sizes;
  const std::int64_t width = sizes.empty() ? 1 : sizes.back();
  if (auto view = reshaped(x.view, {x.view.elements() / width, width})) return {x.value, *view, {}};
  return b.outside(ValueKind::kConstant, b.dtype(x), {b.side(), b.side()});
}

}  // namespace

void wild_rows(WildBuilder& b) {
  const Operand rows = as_rows(b, b.filled_tensor());
  const std::int64_t count = rows.view.sizes[0], width = rows.view.sizes[1];
  const DType dtype = b.dtype(rows);
  const std::int64_t choice = b.integer(0, 3);
  Attributes a;
  if (choice == 0) {
    const Sizes places = b.sizes(0, 2);
    Sizes sizes = places;
    sizes.push_back(width);
    b.emit(OpKind::kGatherRows, {rows, b.ids(places, 0, count - 1)}, sizes, dtype);
    return;
  }
  if (choice == 1 && dtype != DType::kBool) {
    const std::int64_t results = b.side();
    if (b.one_in(2)) a.index = b.integer(0, results - 1);
    b.emit(OpKind::kScatterAddRows, {rows, b.ids({count}, 0, results - 1)}, {results, width}, dtype, a);
    return;
  }
  // Pieces of one dtype that agree but along one dimension; one may be empty.
  const auto dim = static_cast<std::size_t>(b.integer(0, 1));
  a.dims = {static_cast<std::int64_t>(dim)};
  Sizes sizes = rows.view.sizes;
  std::vector<Operand> pieces = {rows};
  for (std::int64_t n = b.integer(0, 2); n > 0; --n) {
    Sizes piece = rows.view.sizes;
    piece[dim] = b.integer(0, 3);
    pieces.push_back(b.like(piece, dtype));
    sizes[dim] += piece[dim];
  }
  b.emit(OpKind::kConcat, std::move(pieces), sizes, dtype, a);
}

void wild_places(WildBuilder& b) {
  Operand x = b.filled_tensor();
  const std::int64_t elements = x.view.elements();
  const DType dtype = b.dtype(x);
  if (auto flat = reshaped(x.view, {elements})) {
    x.view = *flat;
  } else {
    x = b.outside(ValueKind::kInput, dtype, {elements});
  }
  const Sizes sizes = b.sizes(0, 2);
  Operand index = b.ids(sizes, -2, elements + 1);  // some outside
  if (b.one_in(3)) index = b.emit(OpKind::kAdd, {index, b.whole(1)}, sizes, b.dtype(index));
  if (b.one_in(3)) {
    b.emit(OpKind::kTake, {x, index}, sizes, dtype);
    return;
  }
  constexpr std::array kKinds = {OpKind::kPutSet, OpKind::kPutMax, OpKind::kPutMin, OpKind::kPutAdd,
                                 OpKind::kPutMultiply};
  OpKind kind = b.one_of(kKinds);
  if (dtype == DType::kBool) kind = OpKind::kPutSet;
  b.emit(kind, {x, index, b.like(sizes, dtype)}, {elements}, dtype);
}

/// The bits of floats that are no NaN - nobody promises those of a computed one - and floats of bits that make none.
void wild_bits(WildBuilder& b) {
  Operand x = b.filled_tensor();
  const std::int64_t elements = x.view.elements();
  const DType from = b.dtype(x);
  const DType to = b.any_dtype();
  const std::int64_t bytes = elements * size_bytes(from), count = bytes / size_bytes(to);
  if (to == from || to == DType::kBool || bytes % size_bytes(to) != 0) return;
  if (auto flat = reshaped(x.view, {elements})) {
    x.view = *flat;
  } else {
    x = b.outside(ValueKind::kInput, from, {elements});
  }
  Attributes a;
  a.dims = {0};
  if (is_floating(from)) {
    const Operand is_nan = b.emit(OpKind::kIsNan, {x}, {elements}, DType::kBool);
    x = b.emit(OpKind::kSelect, {is_nan, WildBuilder::fixed(1), x}, {elements}, from);
  }
  if (is_floating(to)) {  // without the last bit of the exponent there is no largest one
    const std::uint32_t width = size_bytes(to);
    const DType bits = width == 2 ? DType::kI16 : width == 4 ? DType::kI32 : DType::kI64;
    const int bit = to == DType::kF16 ? 10 : to == DType::kBF16 ? 7 : to == DType::kF32 ? 23 : 52;
    if (from != bits) x = b.emit(OpKind::kConcat, {x}, {count}, bits, a);
    x = b.emit(OpKind::kBitAnd, {x, WildBuilder::whole(~(std::int64_t{1} << bit))}, {count}, bits);
  }
  b.emit(OpKind::kConcat, {x}, {count}, to, a);
}

}  // namespace crucible::graph
