// Lowering of ops that make tensors of a fixed pattern, and of those that spread rows by counts.
#include <algorithm>
#include <limits>

#include "core/graph/view.hpp"
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;
using graph::View;

void eye(OpCall& c) {
  Emitter& e = c.emit();
  const Sizes& sizes = c.result(0).sizes;
  c.ignore_numbers();  // the result's sizes say all
  c.set(0, e.expand(e.position(0, sizes) == e.position(1, sizes), sizes));
}

Expression numbers_between(OpCall& c, DType dtype) {
  Emitter& e = c.emit();
  const std::int64_t steps = c.integer("steps");
  const auto end_point = [&](const char* name) {
    const Expression x = c.operand(name);
    const Expression end(e, x.is_number() ? e.fill(x, {}, dtype) : e.reshape(e.cast(x, dtype), {}));
    // A range of integers runs between integers.
    return is_floating(x.dtype) && !is_floating(c.result(0).dtype) ? end.unary(OpKind::kTruncate) : end;
  };
  return {e, evenly_spaced(e, end_point("start"), end_point("end"), steps)};
}

/// What ranges are computed in: integers in f64.
DType range_dtype(OpCall& c) { return is_floating(c.result(0).dtype) ? compute_dtype(c.result(0).dtype) : DType::kF64; }

void linspace(OpCall& c) { c.set(0, numbers_between(c, range_dtype(c))); }

/// base to the powers of a linspace.
void logspace(OpCall& c) {
  Emitter& e = c.emit();
  const DType dtype = range_dtype(c);
  const Expression power = numbers_between(c, dtype);
  const double base = c.has("base") ? c.real("base") : 10.0;
  c.set(0, Expression(e, e.fill(Term::number(base), {}, dtype)).binary(OpKind::kPower, power));
}

/// Tensors padded with zeros to a multiple of `num_chunks` along a dimension, what follows that flattened, side by
/// side.
void chunk_cat(OpCall& c) {
  Emitter& e = c.emit();
  const std::int64_t dim = c.integer("dim"), chunks = c.integer("num_chunks");
  std::vector<Term> pieces;
  for (const Term& given : c.tensors("tensors")) {
    const auto d = wrap_dim(dim, given.rank());
    if (chunks < 1 || chunks > std::numeric_limits<std::int32_t>::max() || d < 0 || d >= given.rank())
      return e.fail("arguments dim and num_chunks do not fit the tensors");
    Term x = e.cast(given, c.result(0).dtype);
    const std::int64_t length = x.size(d), padded = (length + chunks - 1) / chunks * chunks;
    if (padded > length) {
      Sizes rest = x.sizes();
      rest[static_cast<std::size_t>(d)] = padded - length;
      x = e.concat({x, e.fill(Term::integer(0), rest, x.dtype)}, d);
    }
    Sizes sizes(x.sizes().begin(), x.sizes().begin() + d);
    std::int64_t before = 1;
    for (const auto size : sizes) before *= size;
    sizes.insert(sizes.end(), {chunks, x.elements() / std::max<std::int64_t>(1, before * chunks)});
    pieces.push_back(e.reshape(x, sizes));
  }
  if (pieces.empty()) return e.fail("a concatenation of nothing");
  c.set(0, e.concat(pieces, pieces.front().rank() - 1));
}

/// Whether each element is among the tested ones; found by comparing it with all.
void is_in(OpCall& c) {
  Emitter& e = c.emit();
  const bool invert = c.has("invert") && c.boolean("invert");
  if (c.has("assume_unique")) c.boolean("assume_unique");
  const Expression x = c.operand(c.has("elements") ? "elements" : "element");
  const Expression tested = c.operand(c.has("test_elements") ? "test_elements" : "test_element");
  const DType common = promote({x, tested});
  const Expression column = x.is_number() ? e.fill(x, {1}, common) : e.unsqueeze(e.cast(x, common), -1);
  const Expression row =
      tested.is_number() ? e.fill(tested, {1}, common) : e.reshape(e.cast(tested, common), {tested.elements()});
  const Expression same = e.cast(column == row, DType::kI64);
  const Expression count(e, e.reshape(e.sum(same, {-1}), c.result(0).sizes));
  c.set(0, invert ? count == 0 : count > 0);
}

/// Coordinates of one triangle of a matrix, in row-major order.
template <bool lower>
void triangle_indices(OpCall& c) {
  Emitter& e = c.emit();
  const Sizes plane = {c.integer("row"), c.integer("col")};
  const Expression limit = e.position(0, plane) + Term::integer(c.integer("offset"));
  const Expression inside = e.binary(lower ? OpKind::kLessEqual : OpKind::kGreaterEqual, e.position(1, plane), limit);
  std::vector<Term> rows;
  for (const Term& row : true_coordinates(e, e.expand(inside, plane), c.result(0).sizes[1])) {
    rows.push_back(e.unsqueeze(row, 0));
  }
  c.set(0, e.concat(rows, 0));
}

void block_diag(OpCall& c) {
  Emitter& e = c.emit();
  const Sizes& sizes = c.result(0).sizes;
  Term matrix = e.fill(Term::integer(0), sizes, c.result(0).dtype);
  std::int64_t row = 0, column = 0;
  for (const Term& piece : c.tensors("tensors")) {
    const Sizes block = {piece.rank() == 2 ? piece.size(0) : 1, piece.rank() == 0 ? 1 : piece.size(-1)};
    View region = View::contiguous(sizes);
    region.sizes = block;
    if (piece.elements() > 0) {
      region.offset = row * region.strides[0] + column * region.strides[1];
      matrix = updated(e, matrix, region, e.reshape(piece, block));
    }
    row += block[0];
    column += block[1];
  }
  c.set(0, matrix);
}

/// Each index as often as `repeats` says: one step up where the next one begins.
void repeat_interleave(OpCall& c) {
  Emitter& e = c.emit();
  const Expression repeats = e.cast(c.tensor("repeats"), DType::kI64);
  if (c.has("output_size")) c.integer("output_size");
  const Sizes& sizes = c.result(0).sizes;
  if (sizes.empty() || repeats.rank() != 1) return e.fail("repeats and what they repeat are lists");
  graph::Attributes along;
  along.dims = {0};
  const Expression ends = e.emit(OpKind::kScanSum, {repeats}, repeats.sizes(), DType::kI64, along);
  e.expect_count(sizes[0], [&] { return e.drop(e.sum(repeats, {0}), {0}); });
  const Expression steps = e.put(OpKind::kPutAdd, e.fill(Term::integer(0), sizes, DType::kI64), ends, Term::integer(1));
  c.set(0, e.emit(OpKind::kScanSum, {steps}, sizes, DType::kI64, along));
}

constexpr Entry kEntries[] = {
    {"aten::eye", eye},
    {"aten::eye.m", eye},
    {"aten::linspace", linspace, Complexity::kParts},
    {"aten::linspace.Tensor_Tensor", linspace, Complexity::kParts},
    {"aten::linspace.Tensor_Scalar", linspace, Complexity::kParts},
    {"aten::linspace.Scalar_Tensor", linspace, Complexity::kParts},
    {"aten::logspace", logspace},
    {"aten::logspace.Tensor_Tensor", logspace},
    {"aten::logspace.Tensor_Scalar", logspace},
    {"aten::logspace.Scalar_Tensor", logspace},
    {"aten::_chunk_cat", chunk_cat, Complexity::kParts},
    {"aten::isin.Tensor_Tensor", is_in},
    {"aten::isin.Tensor_Scalar", is_in},
    {"aten::isin.Scalar_Tensor", is_in},
    {"aten::tril_indices", triangle_indices<true>},
    {"aten::triu_indices", triangle_indices<false>},
    {"aten::block_diag", block_diag, Complexity::kParts},
    {"aten::repeat_interleave.Tensor", repeat_interleave},
};

}  // namespace

std::span<const Entry> pattern_entries() { return kEntries; }

}  // namespace crucible::aten
