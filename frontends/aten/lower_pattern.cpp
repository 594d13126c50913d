// Lowering of ops that make tensors of a fixed pattern, and of those that spread rows by counts.
#include <algorithm>

#include "core/graph/view.hpp"
#include "frontends/aten/formulas.hpp"
#include "frontends/aten/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;
using graph::View;

void eye(OpCall& c) {
  Emitter& e = c.emit();
  const Sizes& sizes = c.result(0).sizes;
  c.ignore_numbers();  // the result's sizes say all
  c.set(0, e.expand(e.binary(OpKind::kEqual, e.position(0, sizes), e.position(1, sizes)), sizes));
}

/// From both ends, as the framework does: the first half upwards from start, the second downwards from end.
void linspace(OpCall& c) {
  Emitter& e = c.emit();
  const Sizes& sizes = c.result(0).sizes;
  const DType dtype = is_floating(c.result(0).dtype) ? compute_dtype(c.result(0).dtype) : DType::kF64;
  const std::int64_t steps = c.integer("steps");
  const double start = c.real("start"), end = c.real("end");
  if (steps <= 1) return c.set(0, e.fill(Term::number(start), sizes, dtype));
  double step = (end - start) / static_cast<double>(steps - 1);
  if (dtype == DType::kF32)
    step = (static_cast<float>(end) - static_cast<float>(start)) / static_cast<float>(steps - 1);
  const Term at = e.coordinate(0, sizes, dtype);
  const Term up = e.binary(OpKind::kAdd, e.binary(OpKind::kMultiply, at, Term::number(step)), Term::number(start));
  const Term left = e.binary(OpKind::kSubtract, e.fill(Term::integer(steps - 1), {}, dtype), at);
  const Term down = e.binary(OpKind::kSubtract, e.fill(Term::number(end), {}, dtype),
                             e.binary(OpKind::kMultiply, left, Term::number(step)));
  const Term first = e.binary(OpKind::kLess, e.coordinate(0, sizes, DType::kI64), Term::integer(steps / 2));
  c.set(0, e.select(first, up, down));
}

/// Coordinates of one triangle of a matrix, in row-major order.
template <bool lower>
void triangle_indices(OpCall& c) {
  Emitter& e = c.emit();
  const Sizes plane = {c.integer("row"), c.integer("col")};
  const Term limit = e.binary(OpKind::kAdd, e.position(0, plane), Term::integer(c.integer("offset")));
  const Term inside = e.binary(lower ? OpKind::kLessEqual : OpKind::kGreaterEqual, e.position(1, plane), limit);
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
  const Term repeats = e.cast(c.tensor("repeats"), DType::kI64);
  if (c.has("output_size")) c.integer("output_size");
  const Sizes& sizes = c.result(0).sizes;
  graph::Attributes along;
  along.dims = {0};
  const Term ends = e.emit(OpKind::kScanSum, {repeats}, repeats.sizes(), DType::kI64, along);
  const Term steps = e.put(OpKind::kPutAdd, e.fill(Term::integer(0), sizes, DType::kI64), ends, Term::integer(1));
  c.set(0, e.emit(OpKind::kScanSum, {steps}, sizes, DType::kI64, along));
}

constexpr Entry kEntries[] = {
    {"aten::eye", eye},
    {"aten::eye.m", eye},
    {"aten::linspace", linspace},
    {"aten::tril_indices", triangle_indices<true>},
    {"aten::triu_indices", triangle_indices<false>},
    {"aten::block_diag", block_diag},
    {"aten::repeat_interleave.Tensor", repeat_interleave},
};

}  // namespace

std::span<const Entry> pattern_entries() { return kEntries; }

}  // namespace crucible::aten
