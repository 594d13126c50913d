// Direct convolutions for backends whose library does not take them and whose groups have too few channels for tiles
// (conv_tiles.hpp): one plane of the result per work item, vector loops along the width. Taps in the padding are left
// out by loop bounds, not multiplied by zero.
#include <algorithm>

#include "core/kernel/emit/conv_tiles.hpp"
#include "core/kernel/emit/emit.hpp"
#include "core/kernel/emit/window.hpp"

namespace crucible::kernel {
namespace {

using graph::Op;
using graph::Program;
using graph::View;

/// Views of x, weight and y of a convolution, whichever of them the op computes, and what all three kernels need.
class ConvEmitter {
 public:
  ConvEmitter(const Program& program, const Op& op, const graph::Operand& x, const graph::Operand& weight,
              const graph::Operand& y)
      : program_(program),
        binder_(program, b_),
        x_(x.view),
        weight_(weight.view),
        y_(y.view),
        result_type_(program.values[op.outputs[0].value].dtype),
        type_(compute_type(result_type_)),
        groups_(op.attributes.groups),
        outputs_per_group_(weight.view.sizes[0] / op.attributes.groups),
        inputs_per_group_(weight.view.sizes[1]),
        rows_{op.attributes.stride[0], op.attributes.padding[0], op.attributes.dilation[0],
              weight.view.sizes[2],    x.view.sizes[2],          y.view.sizes[2]},
        columns_{op.attributes.stride[1], op.attributes.padding[1], op.attributes.dilation[1],
                 weight.view.sizes[3],    x.view.sizes[3],          y.view.sizes[3]} {
    for (const auto& input : op.inputs) binder_.buffer(input.value, false);
    binder_.buffer(op.outputs[0].value, true);
    x_buffer_ = binder_.buffer(x.value, false);
    weight_buffer_ = binder_.buffer(weight.value, false);
    y_buffer_ = binder_.buffer(y.value, false);
  }

  /// Item i: element i of the result of an op without products, one of whose operands has no elements.
  Emitted zeros(const graph::Operand& result) {
    const BufferId buffer = binder_.buffer(result.value, true);
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    store(buffer, result.view, split_index(b_, item, result.view.sizes), b_.let(b_.real(0, type_)));
    close(1);
    return finish(result.view.elements(), 0);
  }

  /// Item (n, o): rows of the result in an array, one vector loop over the row per tap.
  Emitted forward() {
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    const auto at = split_index(b_, item, std::vector{y_.sizes[0], y_.sizes[1]});
    const ExprId first_channel = b_.let(b_.multiply(group_of(at[1], outputs_per_group_), inputs_per_group_));
    const ArrayId sums = b_.add_array(type_, std::max<std::int64_t>(1, y_.sizes[3]));
    const ExprId oh = serial(y_.sizes[2]);
    fill(sums, y_.sizes[3]);
    const ExprId c = serial(inputs_per_group_);
    const ExprId channel = channel_index(first_channel, c, x_.sizes[1]);
    const ExprId kh = serial(rows_.taps);
    const ExprId h = b_.let(rows_.input_index(b_, oh, kh));
    b_.open_if(rows_.is_inside(b_, h));
    const ExprId kw = serial(columns_.taps);
    const ExprId w = load(weight_buffer_, weight_, {at[1], c, kh, kw});
    const auto [begin, end] = columns_.output_range(b_, kw);
    ExprId ow = b_.open_for(begin, end, LoopMode::kVector);
    const ExprId column = columns_.inside(b_, columns_.input_index(b_, ow, kw));
    const ExprId x = load(x_buffer_, x_, {at[0], channel, rows_.inside(b_, h), column});
    b_.store_element(sums, ow, b_.add(b_.element(sums, ow), b_.binary(Operation::kMultiply, x, w)));
    close(5);
    ow = vector(y_.sizes[3]);
    store(y_buffer_, y_, {at[0], at[1], oh, ow}, b_.let(b_.element(sums, ow)));
    close(3);
    return finish(y_.sizes[0] * y_.sizes[1], products());
  }

  /// Item (n, c): its plane of dx in an array; every output position adds to the inputs that it came from.
  Emitted backward_input() {
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    const auto at = split_index(b_, item, std::vector{x_.sizes[0], x_.sizes[1]});
    const ExprId group = group_of(at[1], inputs_per_group_);
    const ExprId first_output = b_.let(b_.multiply(group, outputs_per_group_));
    const ExprId c =
        groups_ == 1 ? at[1] : b_.let(b_.binary(Operation::kRemainder, at[1], b_.integer(inputs_per_group_)));
    const ArrayId sums = b_.add_array(type_, std::max<std::int64_t>(1, x_.sizes[3]));
    // Row by row of dx: the outputs that reach row h through tap kh are those with oh * stride = h + padding - kh *
    // dilation.
    const ExprId h = serial(x_.sizes[2]);
    fill(sums, x_.sizes[3]);
    const ExprId kh = serial(rows_.taps);
    const ExprId reach =
        b_.let(b_.binary(Operation::kSubtract, b_.add(h, b_.integer(rows_.padding)), b_.multiply(kh, rows_.dilation)));
    ExprId meets = b_.binary(Operation::kLessEqual, b_.integer(0), reach);
    meets =
        b_.binary(Operation::kAnd, meets, b_.binary(Operation::kLess, reach, b_.integer(rows_.output * rows_.stride)));
    meets = b_.binary(
        Operation::kAnd, meets,
        b_.binary(Operation::kEqual, b_.binary(Operation::kRemainder, reach, b_.integer(rows_.stride)), b_.integer(0)));
    b_.open_if(meets);
    const ExprId oh = b_.let(b_.assume(b_.binary(Operation::kDivide, reach, b_.integer(rows_.stride)), 0,
                                       std::max<std::int64_t>(0, rows_.output - 1)));
    const ExprId o = serial(outputs_per_group_);
    const ExprId output = channel_index(first_output, o, y_.sizes[1]);
    const ExprId kw = serial(columns_.taps);
    const ExprId w = load(weight_buffer_, weight_, {output, c, kh, kw});
    const auto [begin, end] = columns_.output_range(b_, kw);
    const ExprId ow = b_.open_for(begin, end, LoopMode::kVector);
    const ExprId column = b_.let(columns_.inside(b_, columns_.input_index(b_, ow, kw)));
    const ExprId dy = load(y_buffer_, y_, {at[0], output, oh, ow});
    b_.store_element(sums, column, b_.add(b_.element(sums, column), b_.binary(Operation::kMultiply, dy, w)));
    close(5);
    const ExprId to = vector(x_.sizes[3]);
    store(x_buffer_, x_, {at[0], at[1], h, to}, b_.let(b_.element(sums, to)));
    close(3);
    return finish(x_.sizes[0] * x_.sizes[1], products());
  }

  /// Item (o, c): for each tap the sum over images and positions, row by row: kChains chains, of which chain i takes
  /// the positions i, i + kChains, ... of those in a row that meet the tap; then the chains are one tree.
  Emitted backward_weight() {
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    const auto at = split_index(b_, item, std::vector{weight_.sizes[0], weight_.sizes[1]});
    const ExprId first_channel = b_.let(b_.multiply(group_of(at[0], outputs_per_group_), inputs_per_group_));
    const ExprId channel = channel_index(first_channel, at[1], x_.sizes[1]);
    const ExprId kh = serial(rows_.taps), kw = serial(columns_.taps);
    const ArrayId chains = b_.add_array(type_, kChains);
    fill(chains, kChains);
    const auto [begin, end] = columns_.output_range(b_, kw);
    const ExprId n = serial(y_.sizes[0]), oh = serial(y_.sizes[2]);
    const ExprId h = b_.let(rows_.input_index(b_, oh, kh));
    b_.open_if(rows_.is_inside(b_, h));
    const ExprId count = b_.let(b_.binary(Operation::kSubtract, end, begin));
    const ExprId rounds = b_.let(b_.binary(Operation::kDivide, count, b_.integer(kChains)));
    const auto add_round = [&, begin = begin](ExprId round, ExprId lanes) {
      const ExprId lane = b_.open_for(b_.integer(0), lanes, LoopMode::kVector);
      const ExprId place = b_.add(b_.add(begin, b_.multiply(round, kChains)), lane);
      const ExprId ow = b_.assume(place, 0, std::max<std::int64_t>(0, y_.sizes[3] - 1));
      const ExprId column = columns_.inside(b_, columns_.input_index(b_, ow, kw));
      const ExprId x = load(x_buffer_, x_, {n, channel, rows_.inside(b_, h), column});
      const ExprId dy = load(y_buffer_, y_, {n, at[0], oh, ow});
      const ExprId chain = b_.assume(lane, 0, kChains - 1);
      b_.store_element(chains, chain, b_.add(b_.element(chains, chain), b_.binary(Operation::kMultiply, x, dy)));
      close(1);
    };
    const ExprId round = b_.open_for(b_.integer(0), rounds, LoopMode::kSerial);
    add_round(round, b_.integer(kChains));
    close(1);
    add_round(rounds, b_.binary(Operation::kSubtract, count, b_.multiply(rounds, kChains)));
    close(3);
    for (std::int64_t width = kChains / 2; width > 0; width /= 2) {
      const ExprId chain = vector(width);
      const ExprId low = b_.let(b_.element(chains, chain)),
                   high = b_.let(b_.element(chains, b_.add(chain, b_.integer(width))));
      b_.store_element(chains, chain, b_.add(low, high));
      close(1);
    }
    store(weight_buffer_, weight_, {at[0], at[1], kh, kw}, b_.let(b_.element(chains, b_.integer(0))));
    close(3);
    return finish(weight_.sizes[0] * weight_.sizes[1], products());
  }

 private:
  static constexpr std::int64_t kChains = 16;
  ExprId serial(std::int64_t size) { return b_.open_for(b_.integer(0), b_.integer(size), LoopMode::kSerial); }
  ExprId vector(std::int64_t size) { return b_.open_for(b_.integer(0), b_.integer(size), LoopMode::kVector); }
  void close(int blocks) {
    while (blocks-- > 0) b_.close();
  }
  ExprId group_of(ExprId channel, std::int64_t per_group) {
    return groups_ == 1 ? b_.integer(0) : b_.binary(Operation::kDivide, channel, b_.integer(per_group));
  }
  ExprId channel_index(ExprId first, ExprId offset, std::int64_t count) {
    return groups_ == 1 ? offset : b_.let(b_.assume(b_.add(first, offset), 0, std::max<std::int64_t>(0, count - 1)));
  }
  void fill(ArrayId array, std::int64_t size) {
    const ExprId i = vector(size);
    b_.store_element(array, i, b_.real(0, type_));
    b_.close();
  }
  ExprId load(BufferId buffer, const View& view, const std::vector<ExprId>& point) {
    return load_value(b_, buffer, view_index(b_, view, point), b_.depth());
  }
  void store(BufferId buffer, const View& view, const std::vector<ExprId>& point, ExprId value) {
    b_.store(buffer, view_index(b_, view, point), storable(b_, value, result_type_));
  }
  std::int64_t products() const { return y_.elements() * inputs_per_group_ * rows_.taps * columns_.taps; }
  Emitted finish(std::int64_t grid, std::int64_t products) {
    Emitted emitted;
    emitted.values = binder_.values();
    emitted.grid = grid;
    emitted.flops = static_cast<std::uint64_t>(2 * products);
    emitted.item_ns = static_cast<double>(emitted.flops) / 8.0 / static_cast<double>(std::max<std::int64_t>(1, grid));
    emitted.ir = b_.finish();
    return emitted;
  }

  const Program& program_;
  IrBuilder b_;
  Binder binder_;
  const View& x_;
  const View& weight_;
  const View& y_;
  const DType result_type_, type_;
  const std::int64_t groups_, outputs_per_group_, inputs_per_group_;
  const WindowAxis rows_, columns_;
  BufferId x_buffer_ = 0, weight_buffer_ = 0, y_buffer_ = 0;
};

bool has_products(const Op& op) {
  return std::ranges::none_of(op.inputs, [](const graph::Operand& input) { return input.view.elements() == 0; });
}

}  // namespace

Emitted emit_conv2d(const Program& program, const Op& op, const DeviceShape& device, const Epilogue* epilogue) {
  if (fits_tiles(op, ConvResult::kForward))
    return emit_conv_by_tiles(program, op, ConvResult::kForward, device, epilogue);
  ConvEmitter emitter(program, op, op.inputs[0], op.inputs[1], op.outputs[0]);
  return has_products(op) ? emitter.forward() : emitter.zeros(op.outputs[0]);
}

Emitted emit_conv2d_backward_input(const Program& program, const Op& op, const DeviceShape& device,
                                   const Epilogue* epilogue) {
  if (fits_tiles(op, ConvResult::kInput)) return emit_conv_by_tiles(program, op, ConvResult::kInput, device, epilogue);
  ConvEmitter emitter(program, op, op.outputs[0], op.inputs[1], op.inputs[0]);
  return has_products(op) ? emitter.backward_input() : emitter.zeros(op.outputs[0]);
}

Emitted emit_conv2d_backward_weight(const Program& program, const Op& op, const DeviceShape& device,
                                    const Epilogue* epilogue) {
  if (fits_tiles(op, ConvResult::kWeight))
    return emit_conv_by_tiles(program, op, ConvResult::kWeight, device, epilogue);
  ConvEmitter emitter(program, op, op.inputs[1], op.outputs[0], op.inputs[0]);
  return has_products(op) ? emitter.backward_weight() : emitter.zeros(op.outputs[0]);
}

}  // namespace crucible::kernel
