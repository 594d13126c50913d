// Kernels that write elements at places which data decides. Items are segments of the result; each copies its part of
// the base, walks all indices in order and applies those that fall into its segment. So each element has one owner and
// one order of writes, whatever the number of threads. Few segments where the indices are many, for each walks them
// all.
#include <algorithm>

#include "core/graph/view.hpp"
#include "core/kernel/emit/emit.hpp"

namespace crucible::kernel {
namespace {

using graph::Op;
using graph::OpKind;
using graph::Program;
using graph::View;

constexpr double kBytesPerNs = 6;

/// The space of the indices with neighbouring dimensions joined where index and source allow it; the order stays
/// row-major.
struct Walk {
  View index, source;
};

Walk joined_walk(const View& index, const View& source) {
  Walk walk{{index.offset, {}, {}}, {source.offset, {}, {}}};
  for (std::size_t d = 0; d < index.sizes.size(); ++d) {
    const std::int64_t size = index.sizes[d];
    if (size == 1) continue;
    const auto continues = [&](const View& to, const View& from) {
      return !to.sizes.empty() && to.strides.back() == from.strides[d] * size;
    };
    if (continues(walk.index, index) && continues(walk.source, source)) {
      for (View* view : {&walk.index, &walk.source}) view->sizes.back() *= size;
      walk.index.strides.back() = index.strides[d];
      walk.source.strides.back() = source.strides[d];
      continue;
    }
    walk.index.sizes.push_back(size);
    walk.source.sizes.push_back(size);
    walk.index.strides.push_back(index.strides[d]);
    walk.source.strides.push_back(source.strides[d]);
  }
  return walk;
}

ExprId joined_value(IrBuilder& b, OpKind kind, ExprId old, ExprId source) {
  switch (kind) {
    case OpKind::kPutAdd:
      return b.add(old, source);
    case OpKind::kPutMultiply:
      return b.binary(Operation::kMultiply, old, source);
    case OpKind::kPutMax:
      return b.binary(Operation::kMaximum, old, source);
    default:
      return b.binary(Operation::kMinimum, old, source);
  }
}

std::int64_t segment_count(std::int64_t elements, std::int64_t indices) {
  constexpr std::int64_t kMost = 16;
  return std::clamp<std::int64_t>(2 * elements / std::max<std::int64_t>(1, indices), 1, kMost);
}

}  // namespace

Emitted emit_put(const Program& program, const Op& op) {
  IrBuilder b;
  Binder binder(program, b);
  const View& base = op.inputs[0].view;
  const View& out = op.outputs[0].view;
  const Walk walk = joined_walk(op.inputs[1].view, op.inputs[2].view);
  const DType type = program.values[op.outputs[0].value].dtype;
  const BufferId base_buffer = binder.buffer(op.inputs[0].value, false);
  const BufferId index_buffer = binder.buffer(op.inputs[1].value, false);
  const BufferId source_buffer = binder.buffer(op.inputs[2].value, false);
  const BufferId out_buffer = binder.buffer(op.outputs[0].value, true);
  const std::int64_t elements = out.elements(), count = walk.index.elements();
  const std::int64_t parts = segment_count(elements, count);
  const std::int64_t segment = std::max<std::int64_t>(1, (elements + parts - 1) / parts);
  const std::int64_t grid = (elements + segment - 1) / segment;

  const ExprId item = b.open_grid(LoopMode::kSerial);
  const ExprId first = b.let(b.multiply(item, segment));
  const ExprId last = b.let(b.binary(Operation::kMinimum, b.add(first, b.integer(segment)), b.integer(elements)));
  const ExprId i = b.open_for(first, last, LoopMode::kVector);
  b.store(out_buffer, view_index(b, out, std::vector{i}),
          b.let(b.load(base_buffer, view_index(b, base, std::vector{i}))));
  b.close();
  if (count > 0) {
    std::vector<ExprId> point;
    for (const std::int64_t size : walk.index.sizes) {
      point.push_back(b.open_for(b.integer(0), b.integer(size), LoopMode::kSerial));
    }
    const ExprId raw = b.let(b.load(index_buffer, view_index(b, walk.index, point)));
    const ExprId to = b.let(b.convert(raw, DType::kI64));
    b.open_if(
        b.binary(Operation::kAnd, b.binary(Operation::kLessEqual, first, to), b.binary(Operation::kLess, to, last)));
    const ExprId at = b.let(view_index(b, out, std::vector{to}));  // the condition is its guard
    const ExprId from = view_index(b, walk.source, point);
    if (op.kind == OpKind::kPutSet) {
      b.store(out_buffer, at, b.let(b.load(source_buffer, from)));
    } else {
      const ExprId added = load_value(b, source_buffer, from, b.depth());
      const ExprId old = load_value(b, out_buffer, at, b.depth());
      b.store(out_buffer, at, storable(b, joined_value(b, op.kind, old, added), type));
    }
    b.close();
    for (std::size_t d = 0; d < point.size(); ++d) b.close();
  }
  b.close();

  // In place: the base is copied element on element before anything is put; nobody else may read it.
  const bool whole =
      graph::same_map(base, View::contiguous({elements})) && program.values[op.inputs[0].value].elements == elements;
  const bool in_place = whole && op.inputs[0].value != op.inputs[1].value && op.inputs[0].value != op.inputs[2].value;
  Emitted emitted;
  if (in_place) {
    b.ir().buffers[base_buffer].may_alias = true;
    b.ir().buffers[out_buffer].may_alias = true;
    emitted.aliases.push_back({op.inputs[0].value, op.outputs[0].value});
  }
  emitted.values = binder.values();
  emitted.scalars = binder.scalars();
  emitted.grid = grid;
  const double bytes = static_cast<double>(2 * elements + 3 * count) * size_bytes(type);
  const double total = bytes / kBytesPerNs + static_cast<double>(count * grid);
  emitted.item_ns = total / static_cast<double>(std::max<std::int64_t>(1, grid));
  emitted.flops = op.kind == OpKind::kPutSet ? 0 : static_cast<std::uint64_t>(count);
  emitted.ir = b.finish();
  return emitted;
}

}  // namespace crucible::kernel
