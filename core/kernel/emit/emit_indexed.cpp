// Kernels of the indexed ops that are no nests: scatter of rows, concatenation, bits of another dtype, update of a
// region. Each result element has one owner among the work items, and sums run in ascending order, so that nothing
// depends on the number of threads.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "core/graph/bitcast.hpp"
#include "core/kernel/emit/emit.hpp"

namespace crucible::kernel {
namespace {

using graph::Op;
using graph::Program;
using graph::View;

constexpr double kBytesPerNs = 6;

Emitted finished(IrBuilder& b, const Binder& binder, std::int64_t grid, double total_ns, std::uint64_t flops) {
  Emitted emitted;
  emitted.values = binder.values();
  emitted.scalars = binder.scalars();
  emitted.grid = grid;
  emitted.item_ns = total_ns / static_cast<double>(std::max<std::int64_t>(1, grid));
  emitted.flops = flops;
  emitted.ir = b.finish();
  return emitted;
}

/// Nested loops over all dimensions of a view, the one of smallest stride innermost and vectorised; calls
/// body(point) inside.
template <class Body>
void loop_over(IrBuilder& b, const View& view, Body body) {
  std::vector<std::size_t> order(view.sizes.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::ranges::stable_sort(order, [&](std::size_t x, std::size_t y) { return view.strides[x] > view.strides[y]; });
  std::vector<ExprId> point(view.sizes.size(), b.integer(0));
  std::size_t opened = 0;
  std::erase_if(order, [&](std::size_t d) { return view.sizes[d] == 1; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const LoopMode mode = i + 1 == order.size() ? LoopMode::kVector : LoopMode::kSerial;
    point[order[i]] = b.open_for(b.integer(0), b.integer(view.sizes[order[i]]), mode);
    ++opened;
  }
  body(point);
  while (opened-- > 0) b.close();
}

DType word_type(std::int64_t width) {
  return width == 1 ? DType::kU8 : width == 2 ? DType::kI16 : width == 4 ? DType::kI32 : DType::kI64;
}

/// The bits of an element of `dtype`, an i32 or i64, with those of NaN as core/base/nan_bits.hpp has them: told and
/// made as integers, so that no compiler's idea of NaN comes in.
ExprId with_named_nan(IrBuilder& b, DType dtype, ExprId word) {
  const DType type = b.type(word);
  const auto constants = [&](std::int64_t magnitude, std::int64_t infinity, std::int64_t nan) {
    const ExprId size = b.call(Function::kBitAnd, word, b.integer(magnitude, type));
    return b.select(b.binary(Operation::kLess, b.integer(infinity, type), size), b.integer(nan, type), word);
  };
  if (dtype == DType::kF16) return constants(0x7fff, 0x7c00, 0x7e00);
  if (dtype == DType::kBF16) return constants(0x7fff, 0x7f80, 0x7fc0);
  if (dtype == DType::kF32) return constants(0x7fffffff, 0x7f800000, 0x7fc00000);
  return constants(0x7fffffffffffffff, 0x7ff0000000000000, 0x7ff8000000000000);
}

/// A bitcast that names NaN: items are blocks of x's elements, each of which is written as one number, or cut into
/// those of a narrower type.
void name_nans(IrBuilder& b, DType dtype, const View& x, BufferId in, BufferId out, std::int64_t block) {
  const std::int64_t from = size_bytes(dtype), to = size_bytes(b.ir().buffers[out].type), pieces = from / to;
  const DType type = from == 8 ? DType::kI64 : DType::kI32;
  const ExprId first = b.let(b.multiply(b.open_grid(LoopMode::kSerial), block));
  const ExprId last = b.let(b.binary(Operation::kMinimum, b.add(first, b.integer(block)), b.integer(x.sizes[0])));
  const ExprId i = b.open_for(first, last, LoopMode::kVector);
  const ExprId index = b.add(b.integer(x.offset), x.sizes[0] > 1 ? b.multiply(i, x.strides[0]) : b.integer(0));
  const ExprId word = b.let(with_named_nan(b, dtype, b.let(b.convert(b.let(b.load(in, index)), type))));
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const ExprId part = piece == 0 ? word : b.call(Function::kShiftRight, word, b.integer(piece * to * 8, type));
    b.store(out, b.add(b.multiply(i, pieces), b.integer(piece)), b.convert(part, b.ir().buffers[out].type));
  }
  b.close();
  b.close();
}

/// Items are blocks of the narrower of both elements, copied as whole numbers: no conversion touches a bit.
Emitted emit_bitcast(const Program& program, const Op& op) {
  constexpr std::int64_t kBlock = 64;
  IrBuilder b;
  Binder binder(program, b);
  const View& x = op.inputs[0].view;
  const DType dtype = program.values[op.inputs[0].value].dtype;
  const bool names = graph::names_nans(op);
  const std::int64_t from = size_bytes(dtype), to = size_bytes(program.values[op.outputs[0].value].dtype),
                     width = std::min(from, to);
  const std::int64_t pieces = from / width, count = x.sizes[0] * pieces;
  const std::int64_t items = names ? x.sizes[0] : count, grid = (items + kBlock - 1) / kBlock;
  const BufferId in = binder.buffer(op.inputs[0].value, false), out = binder.buffer(op.outputs[0].value, true);
  b.ir().buffers[in].type = word_type(names ? from : width);
  b.ir().buffers[out].type = word_type(width);

  if (names) {
    name_nans(b, dtype, x, in, out, kBlock);
  } else {
    const ExprId item = b.open_grid(LoopMode::kSerial);
    const ExprId first = b.let(b.multiply(item, kBlock));
    const ExprId last = b.let(b.binary(Operation::kMinimum, b.add(first, b.integer(kBlock)), b.integer(count)));
    const ExprId i = b.open_for(first, last, LoopMode::kVector);
    ExprId index = b.add(b.integer(x.offset * pieces), i);
    if (x.sizes[0] > 1 && x.strides[0] != 1) {  // piece i % pieces of element i / pieces
      const ExprId element = b.binary(Operation::kDivide, i, b.integer(pieces)),
                   piece = b.binary(Operation::kRemainder, i, b.integer(pieces));
      index = b.add(b.add(b.integer(x.offset * pieces), b.multiply(element, x.strides[0] * pieces)), piece);
    }
    b.store(out, i, b.let(b.load(in, index)));
    b.close();
    b.close();
  }
  const bool may_share =
      from == to && x.offset == 0 && x.strides[0] == 1 && x.sizes[0] == program.values[op.inputs[0].value].elements;
  if (may_share) b.ir().buffers[in].may_alias = b.ir().buffers[out].may_alias = true;
  Emitted emitted = finished(b, binder, grid, 2.0 * static_cast<double>(count * width) / kBytesPerNs, 0);
  if (may_share) emitted.aliases.push_back({op.inputs[0].value, op.outputs[0].value});
  return emitted;
}

}  // namespace

/// Items are segments of the result's rows; each looks through all ids and adds the rows that fall into its segment:
/// few segments where a thread reads id after id, many where the lanes of a unit read a piece of them at once and then
/// look only into pieces that hold one of theirs. Each row has the same sum either way, in the order of the ids.
Emitted emit_scatter_add_rows(const Program& program, const Op& op, int lanes) {
  constexpr std::int64_t kSegments = 16, kSegmentsOfLanes = 8192, kPiece = 256;
  IrBuilder b;
  Binder binder(program, b);
  const View& rows = op.inputs[0].view;
  const View& ids = op.inputs[1].view;
  const View& out = op.outputs[0].view;
  const DType type = program.values[op.outputs[0].value].dtype;
  const BufferId rows_buffer = binder.buffer(op.inputs[0].value, false);
  const BufferId ids_buffer = binder.buffer(op.inputs[1].value, false);
  const BufferId out_buffer = binder.buffer(op.outputs[0].value, true);
  const std::int64_t height = out.sizes[0], width = out.sizes[1], count = ids.sizes[0];
  const std::int64_t segments = lanes > 1 ? kSegmentsOfLanes : kSegments;
  const std::int64_t segment = std::max<std::int64_t>(1, (height + segments - 1) / segments);
  const std::int64_t grid = (height + segment - 1) / segment;

  const ExprId item = b.open_grid(LoopMode::kSerial);
  const ExprId first = b.let(b.multiply(item, segment));
  const ExprId last = b.let(b.binary(Operation::kMinimum, b.add(first, b.integer(segment)), b.integer(height)));
  const ExprId zero_row = b.open_for(first, last, LoopMode::kSerial);
  const ExprId zero_column = b.open_for(b.integer(0), b.integer(width), LoopMode::kVector);
  const ExprId zero = is_floating(type) ? b.real(0, compute_type(type)) : b.integer(0, type);
  b.store(out_buffer, view_index(b, out, std::vector{zero_row, zero_column}), storable(b, zero, type));
  b.close();
  b.close();
  const auto id_at = [&](ExprId i) {
    return b.let(b.convert(b.let(b.load(ids_buffer, view_index(b, ids, std::vector{i}))), DType::kI64));
  };
  const auto is_mine = [&](ExprId id) {
    const ExprId mine =
        b.binary(Operation::kAnd, b.binary(Operation::kLessEqual, first, id), b.binary(Operation::kLess, id, last));
    if (op.attributes.index < 0) return mine;
    return b.binary(Operation::kAnd, mine, b.binary(Operation::kNotEqual, id, b.integer(op.attributes.index)));
  };
  ExprId begin = b.integer(0), end = b.integer(count);
  if (lanes > 1 && count > kPiece) {
    const ExprId piece = b.open_for(b.integer(0), b.integer((count + kPiece - 1) / kPiece), LoopMode::kSerial);
    begin = b.let(b.multiply(piece, kPiece));
    end = b.let(b.binary(Operation::kMinimum, b.add(begin, b.integer(kPiece)), b.integer(count)));
    const VariableId any = b.declare(b.integer(0, DType::kI32));
    const ExprId i = b.open_for(begin, end, LoopMode::kVector);
    const ExprId found = b.let(b.convert(is_mine(id_at(i)), DType::kI32));
    b.set(any, b.binary(Operation::kMaximum, b.variable(any), found));
    b.close();
    b.open_if(b.binary(Operation::kNotEqual, b.variable(any), b.integer(0, DType::kI32)));
  }
  const ExprId i = b.open_for(begin, end, LoopMode::kSerial);
  const ExprId id = id_at(i);
  b.open_if(is_mine(id));
  const ExprId column = b.open_for(b.integer(0), b.integer(width), LoopMode::kVector);
  const ExprId at = b.let(view_index(b, out, std::vector{id, column}));  // the condition is its guard
  const ExprId added = load_value(b, rows_buffer, view_index(b, rows, std::vector{i, column}), b.depth());
  const ExprId old = load_value(b, out_buffer, at, b.depth());
  b.store(out_buffer, at, storable(b, b.add(old, added), type));
  while (b.depth() > 0) b.close();

  const double bytes = static_cast<double>((height + 2 * count) * width) * size_bytes(type);
  return finished(b, binder, grid, bytes / kBytesPerNs + static_cast<double>(count * grid) / lanes,
                  static_cast<std::uint64_t>(count * width));
}

/// Items walk the dimensions outside the joined one together with blocks of it; each copies its part of every piece.
Emitted emit_concat(const Program& program, const Op& op) {
  if (graph::is_bitcast(program, op)) return emit_bitcast(program, op);
  IrBuilder b;
  Binder binder(program, b);
  const auto dim = static_cast<std::size_t>(op.attributes.dims[0]);
  const View& out = op.outputs[0].view;
  std::vector<std::int64_t> outer_sizes(out.sizes.begin(), out.sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  std::int64_t grid = 1;
  for (auto size : outer_sizes) grid *= size;
  std::vector<BufferId> pieces;
  for (const auto& input : op.inputs) pieces.push_back(binder.buffer(input.value, false));
  const BufferId out_buffer = binder.buffer(op.outputs[0].value, true);

  const ExprId item = b.open_grid(LoopMode::kSerial);
  const auto outer = split_index(b, item, outer_sizes);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const View& piece = op.inputs[i].view;
    View inner = piece;  // the part that one item copies
    for (std::size_t d = 0; d < dim; ++d) inner.sizes[d] = 1;
    loop_over(b, inner, [&](std::vector<ExprId> point) {
      for (std::size_t d = 0; d < dim; ++d) point[d] = outer[d];
      const ExprId value = b.let(b.load(pieces[i], view_index(b, piece, point)));
      point[dim] = b.add(point[dim], b.integer(start));
      b.store(out_buffer, view_index(b, out, point), value);
    });
    start += piece.sizes[dim];
  }
  b.close();
  const double bytes =
      2.0 * static_cast<double>(out.elements()) * size_bytes(program.values[op.outputs[0].value].dtype);
  return finished(b, binder, grid, bytes / kBytesPerNs + static_cast<double>(op.inputs.size()), 0);
}

namespace {

/// An item for each element, which asks whether the region holds it: each dimension of a region is a step over all of
/// those with smaller strides (graph::is_injective()), so the element's place in it follows by division.
void update_by_elements(IrBuilder& b, const Op& op, std::array<BufferId, 3> buffers) {
  const View& source = op.inputs[1].view;
  const View& region = op.attributes.region;
  std::vector<std::size_t> dims(region.sizes.size());
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  std::erase_if(dims, [&](std::size_t d) { return region.sizes[d] == 1; });
  std::ranges::sort(dims, std::greater(), [&](std::size_t d) { return region.strides[d]; });
  const ExprId i = b.open_grid(LoopMode::kVector);
  const ExprId old = b.let(b.load(buffers[0], i));
  const ExprId inside = b.let(b.binary(Operation::kLessEqual, b.integer(region.offset), i));
  ExprId is_in = inside;
  ExprId rest = b.let(b.select(inside, b.binary(Operation::kSubtract, i, b.integer(region.offset)), b.integer(0)));
  std::vector<ExprId> point(region.sizes.size(), b.integer(0));
  for (const std::size_t d : dims) {
    const ExprId stride = b.integer(region.strides[d]), size = b.integer(region.sizes[d]);
    const ExprId place = b.let(b.binary(Operation::kDivide, rest, stride));
    rest = b.let(b.binary(Operation::kRemainder, rest, stride));
    is_in = b.let(b.binary(Operation::kAnd, is_in, b.binary(Operation::kLess, place, size)));
    point[d] = b.let(b.guard(place, 0, region.sizes[d] - 1));
  }
  is_in = b.let(b.binary(Operation::kAnd, is_in, b.binary(Operation::kEqual, rest, b.integer(0))));
  const ExprId fresh = b.let(b.load(buffers[1], view_index(b, source, point)));
  b.store(buffers[2], i, b.let(b.select(is_in, fresh, old)));
  b.close();
}

/// One item: the whole base, then the region over it.
void update_in_order(IrBuilder& b, const Op& op, std::array<BufferId, 3> buffers) {
  const View& base = op.inputs[0].view;
  const View& source = op.inputs[1].view;
  const View& region = op.attributes.region;
  b.open_grid(LoopMode::kSerial);
  const ExprId i = b.open_for(b.integer(0), b.integer(base.elements()), LoopMode::kVector);
  b.store(buffers[2], i, b.let(b.load(buffers[0], i)));
  b.close();
  if (region.elements() > 0) {
    loop_over(b, region, [&](const std::vector<ExprId>& point) {
      const ExprId value = b.let(b.load(buffers[1], view_index(b, source, point)));
      b.store(buffers[2], view_index(b, region, point), value);
    });
  }
  b.close();
}

}  // namespace

/// One thread copies faster than it divides; where many run in step, each has its element.
Emitted emit_update(const Program& program, const Op& op, int lanes) {
  IrBuilder b;
  Binder binder(program, b);
  const View& base = op.inputs[0].view;
  const View& region = op.attributes.region;
  const std::array buffers{binder.buffer(op.inputs[0].value, false), binder.buffer(op.inputs[1].value, false),
                           binder.buffer(op.outputs[0].value, true)};
  const bool by_elements = lanes > 1 && region.elements() > 0;
  if (by_elements) {
    update_by_elements(b, op, buffers);
  } else {
    update_in_order(b, op, buffers);
  }
  const bool distinct = op.inputs[0].value != op.inputs[1].value;
  if (distinct) {
    b.ir().buffers[buffers[0]].may_alias = true;
    b.ir().buffers[buffers[2]].may_alias = true;
  }
  const double bytes = 2.0 * static_cast<double>(base.elements() + region.elements()) *
                       size_bytes(program.values[op.outputs[0].value].dtype);
  Emitted emitted = finished(b, binder, by_elements ? base.elements() : 1, bytes / kBytesPerNs, 0);
  if (distinct) emitted.aliases.push_back({op.inputs[0].value, op.outputs[0].value});
  return emitted;
}

}  // namespace crucible::kernel
