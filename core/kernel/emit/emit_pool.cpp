// Max pooling: a work item owns one plane (n, c) of the result, forward and backward; on devices whose threads run in
// step, one element of it.
#include <algorithm>
#include <limits>

#include "core/graph/view.hpp"
#include "core/kernel/emit/emit.hpp"
#include "core/kernel/emit/window.hpp"

namespace crucible::kernel {

using graph::Op;
using graph::Program;
using graph::View;

namespace {

/// The forward kernel, row of windows by row of windows. Each input row is copied into an array between margins of the
/// lowest number, so that every tap is one vector loop over all windows with bounds known to the compiler. Best value
/// and its place lie in arrays. The first maximum wins, and NaN wins over everything; the last NaN is its place.
class MaxPoolEmitter {
 public:
  MaxPoolEmitter(const Program& program, const Op& op)
      : program_(program),
        op_(op),
        binder_(program, b_),
        x_(op.inputs[0].view),
        y_(op.outputs[0].view),
        places_(op.outputs[1].view),
        type_(compute_type(program.values[op.inputs[0].value].dtype)),
        rows_{op.attributes.stride[0],
              op.attributes.padding[0],
              op.attributes.dilation[0],
              op.attributes.kernel[0],
              x_.sizes[2],
              y_.sizes[2]},
        columns_{op.attributes.stride[1],
                 op.attributes.padding[1],
                 op.attributes.dilation[1],
                 op.attributes.kernel[1],
                 x_.sizes[3],
                 y_.sizes[3]} {}

  Emitted run(int lanes) {
    const BufferId x_buffer = binder_.buffer(op_.inputs[0].value, false);
    const BufferId y_buffer = binder_.buffer(op_.outputs[0].value, true);
    const BufferId place_buffer = binder_.buffer(op_.outputs[1].value, true);
    const std::int64_t width = std::max<std::int64_t>(1, y_.sizes[3]);
    const std::int64_t reach = (width - 1) * columns_.stride + (columns_.taps - 1) * columns_.dilation + 1;
    row_size_ = std::max(reach, columns_.padding + columns_.input);
    if (lanes > 1 || columns_.taps > kMostTaps || row_size_ > kLongestRow || width > kLongestRow)
      return run_by_windows(x_buffer, y_buffer, place_buffer, lanes > 1);
    best_ = b_.add_array(type_, width);
    place_ = b_.add_array(DType::kI32, width);
    row_ = b_.add_array(type_, row_size_);
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    const auto plane = split_index(b_, item, std::vector{y_.sizes[0], y_.sizes[1]});
    fill(row_, row_size_, lowest());
    const ExprId oh = b_.open_for(b_.integer(0), b_.integer(y_.sizes[2]), LoopMode::kSerial);
    fill(best_, y_.sizes[3], lowest());
    fill(place_, y_.sizes[3], b_.integer(-1, DType::kI32));
    const ExprId kh = b_.open_for(b_.integer(0), b_.integer(rows_.taps), LoopMode::kSerial);
    const ExprId h = b_.let(rows_.input_index(b_, oh, kh));
    b_.open_if(rows_.is_inside(b_, h));
    const ExprId inside = rows_.inside(b_, h);
    const ExprId w = b_.open_for(b_.integer(0), b_.integer(x_.sizes[3]), LoopMode::kVector);
    const ExprId loaded =
        load_value(b_, x_buffer, view_index(b_, x_, std::vector{plane[0], plane[1], inside, w}), b_.depth());
    b_.store_element(row_, b_.add(w, b_.integer(columns_.padding)), loaded);
    b_.close();
    compare_row(b_.let(b_.multiply(inside, x_.sizes[3])));
    for (int blocks = 0; blocks < 2; ++blocks) b_.close();
    store_row(plane, oh, y_buffer, place_buffer);
    for (int blocks = 0; blocks < 2; ++blocks) b_.close();

    Emitted emitted;
    emitted.values = binder_.values();
    emitted.grid = y_.sizes[0] * y_.sizes[1];
    emitted.flops = static_cast<std::uint64_t>(y_.elements() * rows_.taps * columns_.taps);
    emitted.item_ns = static_cast<double>(y_.sizes[2] * y_.sizes[3] * rows_.taps * columns_.taps) * 0.1;
    emitted.ir = b_.finish();
    return emitted;
  }

 private:
  // What a thread's stack and a kernel's text hold; beyond them windows are looked through one by one.
  static constexpr std::int64_t kLongestRow = 1 << 14, kMostTaps = 64;

  /// `one_each`: a window is a work item, not a plane.
  Emitted run_by_windows(BufferId x_buffer, BufferId y_buffer, BufferId place_buffer, bool one_each) {
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    std::vector<std::int64_t> split{y_.sizes[0], y_.sizes[1]};
    if (one_each) split = y_.sizes;
    const auto plane = split_index(b_, item, split);
    const ExprId oh = one_each ? plane[2] : b_.open_for(b_.integer(0), b_.integer(y_.sizes[2]), LoopMode::kSerial);
    const ExprId ow = one_each ? plane[3] : b_.open_for(b_.integer(0), b_.integer(y_.sizes[3]), LoopMode::kSerial);
    const ExprId first = b_.let(b_.add(b_.multiply(first_inside(rows_, oh), x_.sizes[3]), first_inside(columns_, ow)));
    const VariableId best = b_.declare(lowest()), place = b_.declare(first);
    const ExprId kh = b_.open_for(b_.integer(0), b_.integer(rows_.taps), LoopMode::kSerial);
    const ExprId h = b_.let(rows_.input_index(b_, oh, kh));
    b_.open_if(rows_.is_inside(b_, h));
    const ExprId row = rows_.inside(b_, h);
    const ExprId kw = b_.open_for(b_.integer(0), b_.integer(columns_.taps), LoopMode::kSerial);
    const ExprId w = b_.let(columns_.input_index(b_, ow, kw));
    b_.open_if(columns_.is_inside(b_, w));
    const ExprId column = columns_.inside(b_, w);
    const ExprId value =
        load_value(b_, x_buffer, view_index(b_, x_, std::vector{plane[0], plane[1], row, column}), b_.depth());
    ExprId wins = b_.binary(Operation::kLess, b_.variable(best), value);
    if (is_floating(type_)) wins = b_.binary(Operation::kOr, wins, b_.unary(Operation::kIsNan, value));
    b_.open_if(b_.let(wins));
    b_.set(best, value);
    b_.set(place, b_.add(b_.multiply(row, x_.sizes[3]), column));
    for (int blocks = 0; blocks < 5; ++blocks) b_.close();
    const std::vector<ExprId> point{plane[0], plane[1], oh, ow};
    b_.store(y_buffer, view_index(b_, y_, point),
             storable(b_, b_.variable(best), program_.values[op_.outputs[0].value].dtype));
    b_.store(place_buffer, view_index(b_, places_, point), b_.variable(place));
    while (b_.depth() > 0) b_.close();
    Emitted emitted;
    emitted.values = binder_.values();
    emitted.grid = one_each ? y_.elements() : y_.sizes[0] * y_.sizes[1];
    emitted.flops = static_cast<std::uint64_t>(y_.elements() * rows_.taps * columns_.taps);
    emitted.item_ns = static_cast<double>((one_each ? 1 : y_.sizes[2] * y_.sizes[3]) * rows_.taps * columns_.taps);
    emitted.ir = b_.finish();
    return emitted;
  }

  ExprId lowest() {
    if (is_floating(type_)) return b_.real(-std::numeric_limits<double>::infinity(), type_);
    const auto bits = 8 * size_bytes(type_);
    return b_.integer(type_ == DType::kU8 ? 0 : static_cast<std::int64_t>(~std::uint64_t{0} << (bits - 1)), type_);
  }

  void fill(ArrayId array, std::int64_t size, ExprId value) {
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(size), LoopMode::kVector);
    b_.store_element(array, i, value);
    b_.close();
  }

  /// Every tap of the row in `row_` against the best so far; `first` is the place of the row's first element. Places
  /// are computed in 32 bits, as wide as the values, so that both fit the same vectors.
  void compare_row(ExprId first) {
    const auto narrow = [&](std::int64_t value) { return b_.integer(value, DType::kI32); };
    const ExprId start = b_.let(b_.convert(first, DType::kI32));
    for (std::int64_t kw = 0; kw < columns_.taps; ++kw) {
      const ExprId column = b_.open_for(b_.integer(0), b_.integer(y_.sizes[3]), LoopMode::kVector);
      const std::int64_t shift = kw * columns_.dilation;
      const ExprId value = b_.let(b_.element(row_, b_.add(b_.multiply(column, columns_.stride), b_.integer(shift))));
      const ExprId old = b_.let(b_.element(best_, column)), old_place = b_.let(b_.element(place_, column));
      ExprId wins = b_.binary(Operation::kLess, old, value);
      if (is_floating(type_)) wins = b_.binary(Operation::kOr, wins, b_.unary(Operation::kIsNan, value));
      wins = b_.let(wins);
      const ExprId moved = b_.binary(Operation::kMultiply, b_.convert(column, DType::kI32), narrow(columns_.stride));
      const ExprId here = b_.add(b_.add(start, narrow(shift - columns_.padding)), moved);
      b_.store_element(best_, column, b_.select(wins, value, old));
      b_.store_element(place_, column, b_.select(wins, b_.let(here), old_place));
      b_.close();
    }
  }

  /// The first input index of the window of output `out` that lies inside the input.
  ExprId first_inside(const WindowAxis& axis, ExprId out) {
    const ExprId start = b_.binary(Operation::kSubtract, b_.multiply(out, axis.stride), b_.integer(axis.padding));
    const ExprId missing =
        b_.binary(Operation::kMaximum, b_.binary(Operation::kSubtract, b_.integer(0), start), b_.integer(0));
    const ExprId taps =
        b_.binary(Operation::kDivide, b_.add(missing, b_.integer(axis.dilation - 1)), b_.integer(axis.dilation));
    return b_.add(start, b_.multiply(taps, axis.dilation));
  }

  /// A window in which nothing is larger than the lowest number takes its first element's place.
  void store_row(const std::vector<ExprId>& plane, ExprId oh, BufferId y_buffer, BufferId place_buffer) {
    const ExprId first_row = b_.let(b_.multiply(first_inside(rows_, oh), x_.sizes[3]));
    const ExprId column = b_.open_for(b_.integer(0), b_.integer(y_.sizes[3]), LoopMode::kVector);
    const std::vector<ExprId> point{plane[0], plane[1], oh, column};
    b_.store(y_buffer, view_index(b_, y_, point),
             storable(b_, b_.let(b_.element(best_, column)), program_.values[op_.outputs[0].value].dtype));
    const ExprId found = b_.let(b_.convert(b_.let(b_.element(place_, column)), DType::kI64));
    const ExprId first = b_.let(b_.add(first_row, first_inside(columns_, column)));
    const ExprId none = b_.binary(Operation::kLess, found, b_.integer(0));
    b_.store(place_buffer, view_index(b_, places_, point), b_.select(none, first, found));
    b_.close();
  }

  const Program& program_;
  const Op& op_;
  IrBuilder b_;
  Binder binder_;
  const View& x_;
  const View& y_;
  const View& places_;
  const DType type_;
  const WindowAxis rows_, columns_;
  std::int64_t row_size_ = 0;
  ArrayId best_ = 0, place_ = 0, row_ = 0;
};

/// The windows of an axis that hold row (or column) `at` of x, in ascending order: as many as can, each with whether it
/// does. Without dilation they are neighbours.
struct HoldingWindow {
  ExprId window = kNoId, holds = kNoId;
};

std::vector<HoldingWindow> holding_windows(IrBuilder& b, const WindowAxis& axis, ExprId at) {
  const ExprId last = b.let(b.binary(Operation::kDivide, b.add(at, b.integer(axis.padding)), b.integer(axis.stride)));
  const ExprId begin = b.add(at, b.integer(axis.padding - axis.taps + axis.stride));
  const ExprId first =
      b.let(b.binary(Operation::kDivide, b.binary(Operation::kMaximum, begin, b.integer(0)), b.integer(axis.stride)));
  std::vector<HoldingWindow> windows;
  for (std::int64_t i = 0; i <= (axis.taps - 1) / axis.stride; ++i) {
    const ExprId window = b.let(b.add(first, b.integer(i)));
    const ExprId holds = b.binary(Operation::kAnd, b.binary(Operation::kLessEqual, window, last),
                                  b.binary(Operation::kLess, window, b.integer(axis.output)));
    windows.push_back({b.let(b.guard(window, 0, std::max<std::int64_t>(0, axis.output - 1))), b.let(holds)});
  }
  return windows;
}

/// An item for each element of x's gradient, which asks the windows that hold it whether it was their maximum: none
/// else can have its place, since `pool` made the places. They are added in ascending order, as
/// emit_max_pool_backward() does, with the same roundings. Nothing is branched over, so that all reads of an item are
/// under way at once.
Emitted gather_of_windows(const Program& program, const Op& op, const Op& pool) {
  IrBuilder b;
  Binder binder(program, b);
  const View& dy = op.inputs[0].view;
  const View& places = op.inputs[1].view;
  const View& dx = op.outputs[0].view;
  const DType type = program.values[op.outputs[0].value].dtype;
  const BufferId dy_buffer = binder.buffer(op.inputs[0].value, false);
  const BufferId place_buffer = binder.buffer(op.inputs[1].value, false);
  const BufferId dx_buffer = binder.buffer(op.outputs[0].value, true);
  const auto axis = [&](std::size_t d) {
    return WindowAxis{pool.attributes.stride[d],
                      pool.attributes.padding[d],
                      pool.attributes.dilation[d],
                      pool.attributes.kernel[d],
                      dx.sizes[2 + d],
                      dy.sizes[2 + d]};
  };
  const ExprId item = b.open_grid(LoopMode::kSerial);
  const auto point = split_index(b, item, dx.sizes);
  const ExprId mine = b.let(b.add(b.multiply(point[2], dx.sizes[3]), point[3]));
  std::vector<std::pair<ExprId, ExprId>> terms;  // a gradient, and whether it counts
  const auto columns = holding_windows(b, axis(1), point[3]);
  for (const HoldingWindow& row : holding_windows(b, axis(0), point[2])) {
    for (const HoldingWindow& column : columns) {
      const std::vector<ExprId> window{point[0], point[1], row.window, column.window};
      const ExprId place = b.let(b.load(place_buffer, view_index(b, places, window)));
      const ExprId gradient = load_value(b, dy_buffer, view_index(b, dy, window), b.depth());
      const ExprId counts = b.binary(Operation::kAnd, b.binary(Operation::kAnd, row.holds, column.holds),
                                     b.binary(Operation::kEqual, place, mine));
      terms.emplace_back(gradient, b.let(counts));
    }
  }
  ExprId sum = is_floating(type) ? b.real(0, compute_type(type)) : b.integer(0, type);
  for (const auto& [gradient, counts] : terms)
    sum = b.let(b.select(counts, rounded_to(b, b.add(sum, gradient), type), sum));
  b.store(dx_buffer, view_index(b, dx, point), storable(b, sum, type));
  b.close();
  Emitted emitted;
  emitted.values = binder.values();
  emitted.grid = dx.elements();
  emitted.flops = static_cast<std::uint64_t>(dy.elements());
  emitted.item_ns = static_cast<double>(pool.attributes.kernel[0] * pool.attributes.kernel[1]);
  emitted.ir = b.finish();
  return emitted;
}

/// The max pooling whose places this gradient reads, where they are all of it, and few windows, neighbours, hold an
/// element.
const Op* pool_of(const Program& program, const Op& op) {
  constexpr std::int64_t kMostWindows = 16;
  const graph::Operand& places = op.inputs[1];
  const graph::OpId producer = program.values[places.value].producer;
  if (producer == graph::kNone) return nullptr;
  const Op& pool = program.ops[producer];
  if (pool.kind != graph::OpKind::kMaxPool2d || pool.outputs[1].value != places.value) return nullptr;
  const bool is_same =
      graph::same_map(pool.outputs[1].view, places.view) && pool.inputs[0].view.sizes == op.outputs[0].view.sizes;
  const graph::Attributes& window = pool.attributes;
  std::int64_t windows = 1;
  for (const int d : {0, 1})
    windows *= window.dilation[d] == 1 ? (window.kernel[d] - 1) / window.stride[d] + 1 : 1 << 10;
  return is_same && windows <= kMostWindows ? &pool : nullptr;
}

}  // namespace

Emitted emit_max_pool(const Program& program, const Op& op, int lanes) {
  return MaxPoolEmitter(program, op).run(lanes);
}

/// Zeroes its plane and adds the gradients of its windows in ascending order.
Emitted emit_max_pool_backward(const Program& program, const Op& op, int lanes) {
  if (const Op* pool = lanes > 1 ? pool_of(program, op) : nullptr) return gather_of_windows(program, op, *pool);
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
  const ExprId place = b.guard(b.let(b.load(place_buffer, view_index(b, places, point))), 0,
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
  emitted.item_ns =
      static_cast<double>(dy.sizes[2] * dy.sizes[3]) * 2 + static_cast<double>(dx.sizes[2] * dx.sizes[3]) * 0.5;
  emitted.ir = b.finish();
  return emitted;
}

}  // namespace crucible::kernel
