// Sums, products and extrema of many terms, taken in parts: a reduction becomes that of its parts, then that of the
// parts' results, until none is left that is too long. The parts are independent work for the threads of a processor
// and the warps of a GPU, and fuse with what makes the terms. How they are cut depends on the shape alone, so a result
// depends neither on the device nor on the number of its threads (docs/numerics.md, "Named orders").
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/graph/passes.hpp"

namespace crucible::graph {
namespace {

// Of whole tensors, and of rows: terms of a part, by how many parts there would be.
constexpr std::int64_t kLeastTerms = 1024, kMostTerms = 16384, kWantedParts = 4096;
constexpr std::int64_t kWholeTensor = 16384;  // elements from which one result is made of parts
// Rows: as many results as GPUs have warps at work are enough; fewer are cut where rows are long.
constexpr std::int64_t kEnoughRows = 1024, kLongRow = 8192, kLongRowOfSeveral = 4096, kSeveralRows = 16;
// Half of that where all rows together have so many terms that a second launch is the smaller part, and a row lies in
// several runs (a channel of several pictures), each of which is too short for more than a few warps.
constexpr std::int64_t kLongRowOfMuch = 2048, kMuch = std::int64_t{1} << 19, kRuns = 4;
// Columns: neighbouring results lie side by side, 32 to a warp.
constexpr std::int64_t kEnoughColumns = 32768, kTallColumn = 128, kSlab = 64;

/// What is asked of a reduction: its kept elements, its terms for each, and whether the innermost dimension is reduced.
struct Shape {
  std::int64_t results = 1, terms = 1;
  std::int64_t run = 1;  // of the terms those that the last dimensions have, all of them reduced
  bool by_rows = true;
};

Shape shape_of(const View& view, const std::vector<bool>& reduced) {
  Shape shape;
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 1) continue;
    (reduced[d] ? shape.terms : shape.results) *= view.sizes[d];
    shape.by_rows = reduced[d];
    shape.run = reduced[d] ? shape.run * view.sizes[d] : 1;
  }
  return shape;
}

std::int64_t terms_of_a_part(const Shape& shape) {
  return std::clamp(shape.results * (shape.terms / kWantedParts), kLeastTerms, kMostTerms);
}

/// How many terms a part shall have; nothing where the whole is short enough.
std::optional<std::int64_t> wanted_terms(const Shape& shape, SplitFor reader) {
  if (shape.results < 1 || shape.terms < 2) return std::nullopt;
  if (reader == SplitFor::kAnyDevice) {
    return shape.results == 1 && shape.terms >= kWholeTensor ? std::optional(terms_of_a_part(shape)) : std::nullopt;
  }
  if (!shape.by_rows) {
    if (shape.results >= kEnoughColumns || shape.terms < kTallColumn) return std::nullopt;
    const std::int64_t parts =
        std::min(shape.terms / kSlab, std::max<std::int64_t>(2, 4 * kEnoughColumns / shape.results));
    return (shape.terms + parts - 1) / parts;
  }
  const bool is_much = shape.results * shape.terms >= kMuch && shape.terms / shape.run >= kRuns;
  const std::int64_t longest = shape.results < kSeveralRows ? kLongRow : is_much ? kLongRowOfMuch : kLongRowOfSeveral;
  if (shape.results >= kEnoughRows || shape.terms < longest) return std::nullopt;
  return terms_of_a_part(shape);
}

/// Reduced dimension `dim` becomes `parts` times the rest. Reduced dimensions outside of it count parts, those inside
/// belong to one.
struct Cut {
  std::size_t dim = 0;
  std::int64_t parts = 1;
};

/// A part of about `wanted` terms out of whole inner dimensions and a divisor of one; nothing where no divisor comes
/// near, or where all is one part.
std::optional<Cut> choose_cut(const View& view, const std::vector<bool>& reduced, std::int64_t wanted) {
  constexpr std::int64_t kFewer = 8, kMore = 4;  // times the wanted terms that a part may have too few or too many
  std::int64_t inner = 1;
  for (std::size_t d = view.sizes.size(); d-- > 0;) {
    const std::int64_t size = view.sizes[d];
    if (!reduced[d] || size == 1) continue;
    if (inner * size <= wanted) {
      inner *= size;
      continue;
    }
    std::int64_t below = 1, above = 0;
    for (std::int64_t f = 1; f * f <= size; ++f) {
      if (size % f != 0) continue;
      for (const std::int64_t divisor : {f, size / f}) {
        if (inner * divisor <= wanted) {
          below = std::max(below, divisor);
        } else if (inner * divisor <= kMore * wanted && (above == 0 || divisor < above)) {
          above = divisor;
        }
      }
    }
    const std::int64_t part = inner * below * kFewer >= wanted || above == 0 ? below : above;
    if (inner * part * kFewer < wanted) return std::nullopt;
    return Cut{d, size / part};
  }
  return std::nullopt;
}

std::vector<bool> reduced_dims(const Op& op) {
  std::vector<bool> reduced(op.inputs[0].view.sizes.size(), false);
  for (const std::int64_t dim : op.attributes.dims) reduced[static_cast<std::size_t>(dim)] = true;
  return reduced;
}

std::optional<Cut> cut_of(const Op& op, SplitFor reader) {
  if (!is_reduction(op.kind)) return std::nullopt;
  const View& view = op.inputs[0].view;
  const std::vector<bool> reduced = reduced_dims(op);
  const auto wanted = wanted_terms(shape_of(view, reduced), reader);
  if (!wanted) return std::nullopt;
  std::optional<Cut> cut = choose_cut(view, reduced, *wanted);
  if (!cut) return std::nullopt;
  std::int64_t parts = cut->parts;
  for (std::size_t d = 0; d < cut->dim; ++d) parts *= reduced[d] ? view.sizes[d] : 1;
  return parts > 1 ? cut : std::nullopt;
}

/// A dense view of these sizes whose dimensions lie in memory in this order, outermost first; those of size 1 do not
/// move.
View dense(std::vector<std::int64_t> sizes, const std::vector<std::size_t>& order) {
  View view{0, std::move(sizes), {}};
  view.strides.assign(view.sizes.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    if (view.sizes[order[i]] == 1) continue;
    view.strides[order[i]] = stride;
    stride *= view.sizes[order[i]];
  }
  return view;
}

View permuted(const View& view, const std::vector<std::size_t>& order) {
  View result{view.offset, {}, {}};
  for (const std::size_t d : order) {
    result.sizes.push_back(view.sizes[d]);
    result.strides.push_back(view.strides[d]);
  }
  return result;
}

/// Appends the two ops that replace `op`.
void append_split(Program& program, std::vector<Op>& ops, const Op& op, const Cut& cut) {
  const View& view = op.inputs[0].view;
  const std::vector<bool> reduced = reduced_dims(op);
  const DType out = program.values[op.outputs[0].value].dtype;
  const bool adds = op.kind == OpKind::kReduceSum || op.kind == OpKind::kReduceProduct;
  const bool narrow = adds && (out == DType::kF16 || out == DType::kBF16);
  const auto partial = static_cast<ValueId>(program.values.size());
  const std::size_t rest = cut.dim + 1;  // where the terms of one part lie in the cut view
  const auto at = static_cast<std::ptrdiff_t>(cut.dim);

  // Parts of one result lie side by side where its terms did, else those of neighbouring results.
  std::vector<std::size_t> order(view.sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool by_rows = shape_of(view, reduced).by_rows;
  std::ranges::stable_partition(order, [&](std::size_t d) { return reduced[d] != by_rows; });
  std::vector<std::int64_t> joined = view.sizes;
  joined[cut.dim] = cut.parts;
  for (std::size_t d = rest; d < view.sizes.size(); ++d) joined[d] = reduced[d] ? 1 : joined[d];
  const View parts = dense(std::move(joined), order);

  Op first = op;
  View& whole = first.inputs[0].view;
  const std::int64_t size = view.sizes[cut.dim] / cut.parts;
  whole.sizes[cut.dim] = size;
  whole.sizes.insert(whole.sizes.begin() + at, cut.parts);
  whole.strides.insert(whole.strides.begin() + at, view.strides[cut.dim] * size);
  first.attributes.dims = {static_cast<std::int64_t>(rest)};
  for (std::size_t d = rest; d < view.sizes.size(); ++d) {
    if (reduced[d]) first.attributes.dims.push_back(static_cast<std::int64_t>(d) + 1);
  }
  View written = parts;
  written.sizes.insert(written.sizes.begin() + at + 1, 1);
  written.strides.insert(written.strides.begin() + at + 1, 0);
  first.outputs[0] = {.value = partial, .view = std::move(written), .scalar = {}};
  program.values.push_back({.kind = ValueKind::kTemporary,
                            .dtype = narrow ? DType::kF32 : out,
                            .elements = parts.elements(),
                            .name = "",
                            .producer = static_cast<OpId>(ops.size())});
  ops.push_back(std::move(first));

  Op second = op;
  second.inputs[0] = {.value = partial, .view = permuted(parts, order), .scalar = {}};
  second.outputs[0].view = permuted(op.outputs[0].view, order);
  second.attributes.dims.clear();
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (reduced[order[i]]) second.attributes.dims.push_back(static_cast<std::int64_t>(i));
  }
  ops.push_back(std::move(second));
}

/// One round; false when there was nothing to cut.
bool split_once(Program& program, SplitFor reader) {
  const auto count = std::ranges::count_if(program.ops, [&](const Op& op) { return cut_of(op, reader).has_value(); });
  if (count == 0) return false;
  std::vector<Op> ops;
  ops.reserve(program.ops.size() + static_cast<std::size_t>(count));
  std::vector<OpId> new_id(program.ops.size(), kNone);
  const std::size_t old_values = program.values.size();
  for (OpId id = 0; id < program.ops.size(); ++id) {
    Op& op = program.ops[id];
    if (const auto cut = cut_of(op, reader)) {
      append_split(program, ops, op, *cut);
    } else {
      ops.push_back(std::move(op));
    }
    new_id[id] = static_cast<OpId>(ops.size() - 1);
  }
  program.ops = std::move(ops);
  for (std::size_t v = 0; v < old_values; ++v) {
    if (program.values[v].producer != kNone) program.values[v].producer = new_id[program.values[v].producer];
  }
  return true;
}

}  // namespace

bool has_long_reductions(const Program& program, SplitFor reader) {
  return std::ranges::any_of(program.ops, [&](const Op& op) { return cut_of(op, reader).has_value(); });
}

void split_reductions(Program& program, SplitFor reader) {
  while (split_once(program, reader)) {
  }
}

void split_whole_reductions(Program& program) { split_reductions(program, SplitFor::kAnyDevice); }

}  // namespace crucible::graph
