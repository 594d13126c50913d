// Max pooling: a work item owns one plane (n, c) of the result, forward and backward.
#include <algorithm>
#include <limits>

#include "core/kernel/emit.hpp"
#include "core/kernel/window.hpp"

namespace crucible::kernel {

using graph::Op;
using graph::Program;
using graph::View;

/// One row of windows at a time: best value and place per window in arrays, one vector loop over the windows for each
/// element of the window. The first maximum wins, and NaN wins over everything; the last NaN is its place.
Emitted emit_max_pool(const Program& program, const Op& op) {
  IrBuilder b;
  Binder binder(program, b);
  const graph::Attributes& a = op.attributes;
  const View& x = op.inputs[0].view;
  const View& y = op.outputs[0].view;
  const View& places = op.outputs[1].view;
  const DType type = compute_type(program.values[op.inputs[0].value].dtype);
  const BufferId x_buffer = binder.buffer(op.inputs[0].value, false);
  const BufferId y_buffer = binder.buffer(op.outputs[0].value, true);
  const BufferId place_buffer = binder.buffer(op.outputs[1].value, true);
  const std::int64_t width = std::max<std::int64_t>(1, y.sizes[3]);
  const ArrayId best = b.add_array(type, width), place = b.add_array(DType::kI32, width);

  const ExprId item = b.open_grid(LoopMode::kSerial);
  const auto plane = split_index(b, item, std::vector{y.sizes[0], y.sizes[1]});
  const ExprId oh = b.open_for(b.integer(0), b.integer(y.sizes[2]), LoopMode::kSerial);
  ExprId column = b.open_for(b.integer(0), b.integer(y.sizes[3]), LoopMode::kVector);
  const ExprId lowest = is_floating(type) ? b.real(-std::numeric_limits<double>::infinity(), type) : b.integer(0, type);
  b.store_element(best, column, lowest);
  b.store_element(place, column, b.integer(-1, DType::kI32));
  b.close();
  const WindowAxis rows{a.stride[0], a.padding[0], a.dilation[0], a.kernel[0], x.sizes[2], y.sizes[2]};
  const WindowAxis columns{a.stride[1], a.padding[1], a.dilation[1], a.kernel[1], x.sizes[3], y.sizes[3]};
  const ExprId kh = b.open_for(b.integer(0), b.integer(a.kernel[0]), LoopMode::kSerial);
  const ExprId h = b.let(rows.input_index(b, oh, kh));
  b.open_if(rows.is_inside(b, h));
  const ExprId kw = b.open_for(b.integer(0), b.integer(a.kernel[1]), LoopMode::kSerial);
  const auto [begin, end] = columns.output_range(b, kw);
  column = b.open_for(begin, end, LoopMode::kVector);
  const ExprId w = columns.inside(b, columns.input_index(b, column, kw));
  const ExprId row = rows.inside(b, h);
  const ExprId value = load_value(b, x_buffer, view_index(b, x, std::vector{plane[0], plane[1], row, w}), b.depth());
  const ExprId old = b.let(b.element(best, column)), old_place = b.let(b.element(place, column));
  ExprId wins = b.binary(Operation::kOr, b.binary(Operation::kLess, old, value),
                         b.binary(Operation::kLess, old_place, b.integer(0, DType::kI32)));
  if (is_floating(type)) wins = b.binary(Operation::kOr, wins, b.unary(Operation::kIsNan, value));
  wins = b.let(wins);
  b.store_element(best, column, b.select(wins, value, old));
  const ExprId here = b.convert(b.add(b.multiply(row, x.sizes[3]), w), DType::kI32);
  b.store_element(place, column, b.select(wins, here, old_place));
  for (int blocks = 0; blocks < 4; ++blocks) b.close();
  column = b.open_for(b.integer(0), b.integer(y.sizes[3]), LoopMode::kVector);
  const std::vector<ExprId> point{plane[0], plane[1], oh, column};
  b.store(y_buffer, view_index(b, y, point),
          storable(b, b.let(b.element(best, column)), program.values[op.outputs[0].value].dtype));
  const ExprId found = b.convert(b.let(b.element(place, column)), DType::kI64);
  b.store(place_buffer, view_index(b, places, point), b.binary(Operation::kMaximum, found, b.integer(0)));
  for (int blocks = 0; blocks < 3; ++blocks) b.close();

  Emitted emitted;
  emitted.values = binder.values();
  emitted.grid = y.sizes[0] * y.sizes[1];
  emitted.flops = static_cast<std::uint64_t>(y.elements() * a.kernel[0] * a.kernel[1]);
  emitted.item_ns = static_cast<double>(y.sizes[2] * y.sizes[3] * a.kernel[0] * a.kernel[1]) * 0.3;
  emitted.ir = b.finish();
  return emitted;
}

/// Zeroes its plane and adds the gradients of its windows in ascending order.
Emitted emit_max_pool_backward(const Program& program, const Op& op) {
  IrBuilder b;
  Binder binder(program, b);
  const View& dy = op.inputs[0].view;
  const View& places = op.inputs[1].view;
  const View& dx = op.outputs[0].view;
  const DType type = program.values[op.outputs[0].value].dtype;
  const BufferId dy_buffer = binder.buffer(op.inputs[0].value, false);
  const BufferId place_buffer = binder.buffer(op.inputs[1].value, false);
  const BufferId dx_buffer = binder.buffer(op.outputs[0].value, true);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  const auto plane = split_index(b, item, std::vector{dx.sizes[0], dx.sizes[1]});
  ExprId h = b.open_for(b.integer(0), b.integer(dx.sizes[2]), LoopMode::kSerial);
  ExprId w = b.open_for(b.integer(0), b.integer(dx.sizes[3]), LoopMode::kVector);
  const ExprId zero = is_floating(type) ? b.real(0, compute_type(type)) : b.integer(0, type);
  b.store(dx_buffer, view_index(b, dx, std::vector{plane[0], plane[1], h, w}), storable(b, zero, type));
  b.close();
  b.close();
  h = b.open_for(b.integer(0), b.integer(dy.sizes[2]), LoopMode::kSerial);
  w = b.open_for(b.integer(0), b.integer(dy.sizes[3]), LoopMode::kSerial);
  const std::vector<ExprId> point{plane[0], plane[1], h, w};
  const ExprId gradient = load_value(b, dy_buffer, view_index(b, dy, point), b.depth());
  const ExprId place = b.assume(b.let(b.load(place_buffer, view_index(b, places, point))), 0,
                                std::max<std::int64_t>(0, dx.sizes[2] * dx.sizes[3] - 1));
  const ExprId to_h = b.let(b.binary(Operation::kDivide, place, b.integer(std::max<std::int64_t>(1, dx.sizes[3]))));
  const ExprId to_w = b.let(b.binary(Operation::kRemainder, place, b.integer(std::max<std::int64_t>(1, dx.sizes[3]))));
  const ExprId at = b.let(view_index(b, dx, std::vector{plane[0], plane[1], to_h, to_w}));
  const ExprId old = load_value(b, dx_buffer, at, b.depth());
  b.store(dx_buffer, at, storable(b, b.add(old, gradient), type));
  for (int blocks = 0; blocks < 3; ++blocks) b.close();

  Emitted emitted;
  emitted.values = binder.values();
  emitted.grid = dx.sizes[0] * dx.sizes[1];
  emitted.flops = static_cast<std::uint64_t>(dy.elements());
  emitted.item_ns = static_cast<double>(dy.sizes[2] * dy.sizes[3]) * 2 + static_cast<double>(dx.sizes[2] * dx.sizes[3]) * 0.5;
  emitted.ir = b.finish();
  return emitted;
}

}  // namespace crucible::kernel
