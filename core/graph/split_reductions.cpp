// The pass split_reductions: the sum, product or extremum of a large tensor becomes that of parts, then that of the
// parts' results. The parts are independent work for threads and fuse with what makes the tensor; a part's size depends
// on the shape alone, so the result does not depend on the number of threads.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "core/graph/passes.hpp"

namespace crucible::graph {
namespace {

constexpr std::int64_t kLeastElements = 32768, kPartElements = 16384;

bool reduces_all(const Op& op) {
  if (!is_reduction(op.kind)) return false;
  const Operand& out = op.outputs[0];
  return out.view.elements() == 1 && op.inputs[0].view.elements() >= kLeastElements;
}

/// The first dimension larger than 1, and into how many parts it is cut so that parts come close to kPartElements.
std::optional<std::pair<std::size_t, std::int64_t>> choose_cut(const View& view) {
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 1) continue;
    const std::int64_t wanted = view.elements() / kPartElements;
    std::int64_t best = 0;
    for (std::int64_t parts = 2; parts <= view.sizes[d] && parts <= 4 * wanted; ++parts) {
      if (view.sizes[d] % parts == 0 && (best == 0 || std::abs(parts - wanted) < std::abs(best - wanted))) best = parts;
    }
    if (best == 0 || best * 4 < wanted) return std::nullopt;
    return std::pair{d, best};
  }
  return std::nullopt;
}

/// Appends the two ops that replace `op`.
void append_split(Program& program, std::vector<Op>& ops, const Op& op, std::size_t dim, std::int64_t parts) {
  const View& view = op.inputs[0].view;
  const DType out = program.values[op.outputs[0].value].dtype;
  const bool adds = op.kind == OpKind::kReduceSum || op.kind == OpKind::kReduceProduct;
  const bool narrow = adds && (out == DType::kF16 || out == DType::kBF16);
  const auto partial = static_cast<ValueId>(program.values.size());
  program.values.push_back({.kind = ValueKind::kTemporary,
                            .dtype = narrow ? DType::kF32 : out,
                            .elements = parts,
                            .name = "",
                            .producer = static_cast<OpId>(ops.size())});
  Op first = op;
  View& cut = first.inputs[0].view;
  const auto at = static_cast<std::ptrdiff_t>(dim);
  cut.sizes[dim] = view.sizes[dim] / parts;
  cut.sizes.insert(cut.sizes.begin() + at, parts);
  cut.strides.insert(cut.strides.begin() + at, view.strides[dim] * cut.sizes[dim + 1]);
  first.attributes.dims.clear();
  View kept{0, std::vector<std::int64_t>(cut.sizes.size(), 1), std::vector<std::int64_t>(cut.sizes.size(), 0)};
  for (std::size_t d = 0; d < cut.sizes.size(); ++d) {
    if (d != dim) first.attributes.dims.push_back(static_cast<std::int64_t>(d));
  }
  kept.sizes[dim] = parts;
  kept.strides[dim] = 1;
  first.outputs[0] = {.value = partial, .view = kept, .scalar = {}};
  ops.push_back(std::move(first));

  Op second = op;
  second.inputs[0] = {.value = partial, .view = op.outputs[0].view, .scalar = {}};
  View& parts_view = second.inputs[0].view;
  parts_view.offset = 0;
  std::ranges::fill(parts_view.strides, 0);
  parts_view.sizes[dim] = parts;
  parts_view.strides[dim] = 1;
  ops.push_back(std::move(second));
}

}  // namespace

void split_reductions(Program& program) {
  const auto is_split = [](const Op& op) { return reduces_all(op) && choose_cut(op.inputs[0].view).has_value(); };
  const auto count = std::ranges::count_if(program.ops, is_split);
  if (count == 0) return;
  std::vector<Op> ops;
  ops.reserve(program.ops.size() + static_cast<std::size_t>(count));
  std::vector<OpId> new_id(program.ops.size(), kNone);
  const std::size_t old_values = program.values.size();
  for (OpId id = 0; id < program.ops.size(); ++id) {
    Op& op = program.ops[id];
    if (reduces_all(op)) {
      if (const auto cut = choose_cut(op.inputs[0].view)) {
        append_split(program, ops, op, cut->first, cut->second);
        new_id[id] = static_cast<OpId>(ops.size() - 1);
        continue;
      }
    }
    ops.push_back(std::move(op));
    new_id[id] = static_cast<OpId>(ops.size() - 1);
  }
  program.ops = std::move(ops);
  for (std::size_t v = 0; v < old_values; ++v) {
    if (program.values[v].producer != kNone) program.values[v].producer = new_id[program.values[v].producer];
  }
}

}  // namespace crucible::graph
