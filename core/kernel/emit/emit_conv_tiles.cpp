// Convolutions by tiles (tile_product.hpp). Rows are channels; a panel of the right operand is copied from under the
// windows, step by step, zeros where a window hangs over the border.
//
//            rows            columns                steps, ascending
//   y        out. channels   image, row, column     channel, row and column of the filter
//   dx       channels        image, row, column     out. channel, row and column of the filter
//   dw       out. channels   channel, filter        image, row, column of y
//
// Where an element of the right operand lies is a sum of a part of its step and a part of its column; so is its place
// under the window. Both parts are kept in tables: of the steps once per chunk, of the columns once per panel.
#include <algorithm>
#include <limits>
#include <optional>

#include "core/kernel/emit/conv_digits.hpp"
#include "core/kernel/emit/conv_tiles.hpp"
#include "core/kernel/emit/epilogue_emitter.hpp"
#include "core/kernel/emit/tile_product.hpp"
#include "core/kernel/emit/window.hpp"

namespace crucible::kernel {
namespace {

using graph::Op;
using graph::Operand;
using graph::Program;
using graph::View;

constexpr std::int64_t kFewestRows = 4;
constexpr std::int64_t kWorthARun = 8;   // results side by side that are worth a loop of their own
constexpr std::int64_t kVectorRun = 16;  // elements side by side from which a copy is a loop; fewer are written out
constexpr TileProduct::CopyCosts kCopyCosts{.left = 16, .right = 60};  // right: under windows, mostly not side by side
constexpr std::int64_t kPitchGap = 16;  // rows of the packed left operand do not fall into the same sets of the cache

class ConvTiles : TileProduct {
 public:
  ConvTiles(const Program& program, const Op& op, ConvResult result, const DeviceShape& device,
            const Epilogue* epilogue)
      : TileProduct(compute_type(program.values[op.outputs[0].value].dtype), device, kCopyCosts),
        program_(program),
        op_(op),
        result_(result),
        binder_(program, b_) {
    for (const Operand& input : op.inputs) binder_.buffer(input.value, false);
    if (epilogue != nullptr) {
      epilogue_.emplace(program, *epilogue, program.values[op.outputs[0].value].producer, b_, binder_);
    } else {
      out_ = binder_.buffer(op.outputs[0].value, true);
    }
    switch (result) {
      case ConvResult::kForward:
        set_forward(op.inputs[0], op.inputs[1], op.outputs[0]);
        break;
      case ConvResult::kInput:
        set_input(op.inputs[0], op.inputs[1], op.outputs[0]);
        break;
      case ConvResult::kWeight:
        set_weight(op.inputs[0], op.inputs[1], op.outputs[0]);
        break;
    }
    batch_sizes_ = {op.attributes.groups};
    pieces_ = op.attributes.pieces;
    n_ = count(columns_);
    k_ = count(steps_);
    flops_ = static_cast<std::uint64_t>(2 * batches() * m_ * n_ * k_);
    for (const Phase& phase : phases_)
      flops_ += static_cast<std::uint64_t>(2 * batches() * m_ * n_ * count(phase.steps));
  }

  Emitted run() {
    const double items = emit_tiles();
    Emitted emitted;
    emitted.values = binder_.values();
    emitted.grid = grid_;
    emitted.flops = flops_;
    emitted.item_ns = static_cast<double>(emitted.flops) / std::max(1.0, items) / 40.0;
    emitted.cuts = cuts();
    if (epilogue_) epilogue_->finish(emitted);
    emitted.scalars = binder_.scalars();
    emitted.ir = b_.finish();
    return emitted;
  }

 private:
  // ---- what is what ----

  void set_operands(const Operand& left, const Operand& right, const Operand& out) {
    left_ = binder_.buffer(left.value, false);
    right_ = binder_.buffer(right.value, false);
    left_offset_ = left.view.offset;
    right_offset_ = right.view.offset;
    out_offset_ = out.view.offset;
    left_elements_ = program_.values[left.value].elements;
    right_elements_ = program_.values[right.value].elements;
    out_elements_ = program_.values[out.value].elements;
    window_ = {right.view.sizes[2], right.view.sizes[3], right.view.strides[2], right.view.strides[3]};
  }

  void set_forward(const Operand& x, const Operand& weight, const Operand& y) {
    set_operands(weight, x, y);
    const View &vx = x.view, &vw = weight.view, &vy = y.view;
    const auto& a = op_.attributes;
    m_ = vw.sizes[0] / a.groups;
    const std::int64_t channels = vw.sizes[1];
    left_group_ = m_ * vw.strides[0];
    right_group_ = channels * vx.strides[1];
    out_group_ = m_ * vy.strides[1];
    left_row_ = vw.strides[0];
    out_row_ = vy.strides[1];
    steps_ = {{.size = channels, .right = vx.strides[1], .left = vw.strides[1]},
              {.size = vw.sizes[2], .left = vw.strides[2], .h = a.dilation[0]},
              {.size = vw.sizes[3], .left = vw.strides[3], .w = a.dilation[1]}};
    columns_ = {{.size = vy.sizes[0], .right = vx.strides[0], .out = vy.strides[0]},
                {.size = vy.sizes[2], .out = vy.strides[2], .h = a.stride[0]},
                {.size = vy.sizes[3], .out = vy.strides[3], .w = a.stride[1]}};
    first_h_ = -a.padding[0];
    first_w_ = -a.padding[1];
  }

  void set_input(const Operand& dy, const Operand& weight, const Operand& dx) {
    set_operands(weight, dy, dx);
    const View &vy = dy.view, &vw = weight.view, &vx = dx.view;
    const auto& a = op_.attributes;
    m_ = vw.sizes[1];
    const std::int64_t outputs = vw.sizes[0] / a.groups;
    left_group_ = outputs * vw.strides[0];
    right_group_ = outputs * vy.strides[1];
    out_group_ = m_ * vx.strides[1];
    left_row_ = vw.strides[1];
    out_row_ = vx.strides[1];
    // Row h of x is met by the outputs oh with oh * stride = h + padding - kh * dilation.
    if (has_phases(a.stride, vx.sizes[2], vx.sizes[3])) return set_phases(outputs, vy, vw, vx);
    steps_ = {{.size = outputs, .right = vy.strides[1], .left = vw.strides[0]},
              {.size = vw.sizes[2], .left = vw.strides[2], .h = -a.dilation[0]},
              {.size = vw.sizes[3], .left = vw.strides[3], .w = -a.dilation[1]}};
    columns_ = {{.size = vx.sizes[0], .right = vy.strides[0], .out = vx.strides[0]},
                {.size = vx.sizes[2], .out = vx.strides[2], .h = 1},
                {.size = vx.sizes[3], .out = vx.strides[3], .w = 1}};
    first_h_ = a.padding[0];
    first_w_ = a.padding[1];
    divisor_h_ = a.stride[0];
    divisor_w_ = a.stride[1];
  }

  /// With a stride, rows of x fall into phases that meet different taps: each phase is a product of its own, whose
  /// columns are the elements of x of that phase.
  void set_phases(std::int64_t outputs, const View& vy, const View& vw, const View& vx) {
    const auto& a = op_.attributes;
    for (std::int64_t h = 0; h < a.stride[0]; ++h) {
      for (std::int64_t w = 0; w < a.stride[1]; ++w) {
        const PhaseTaps down = taps_of_phase(a.stride[0], a.dilation[0], a.padding[0], vw.sizes[2], h);
        const PhaseTaps across = taps_of_phase(a.stride[1], a.dilation[1], a.padding[1], vw.sizes[3], w);
        Phase phase;
        phase.steps = {{.size = outputs, .right = vy.strides[1], .left = vw.strides[0]},
                       {.size = down.count, .left = down.step * vw.strides[2], .h = -down.back},
                       {.size = across.count, .left = across.step * vw.strides[3], .w = -across.back}};
        phase.first_h = down.shift;
        phase.first_w = across.shift;
        phase.left = down.first * vw.strides[2] + across.first * vw.strides[3];
        phase.out = h * vx.strides[2] + w * vx.strides[3];
        phases_.push_back(std::move(phase));
      }
    }
    columns_ = {{.size = vx.sizes[0], .right = vy.strides[0], .out = vx.strides[0]},
                {.size = vx.sizes[2] / a.stride[0], .out = a.stride[0] * vx.strides[2], .h = 1},
                {.size = vx.sizes[3] / a.stride[1], .out = a.stride[1] * vx.strides[3], .w = 1}};
    steps_ = {{.size = 0}};
  }

  std::size_t parts() const override { return std::max<std::size_t>(phases_.size(), 1); }
  void start_part(std::size_t part) override {
    if (phases_.empty()) return;
    const Phase& phase = phases_[part];
    steps_ = phase.steps;
    k_ = count(steps_);
    first_h_ = phase.first_h;
    first_w_ = phase.first_w;
    if (left_start_ == kNoId) return;  // no work item is open yet
    left_base_ = b_.let(b_.add(left_start_, b_.integer(phase.left)));
    out_base_ = b_.let(b_.add(out_start_, b_.integer(phase.out)));
  }

  void set_weight(const Operand& dy, const Operand& x, const Operand& dw) {
    set_operands(dy, x, dw);
    const View &vy = dy.view, &vx = x.view, &vw = dw.view;
    const auto& a = op_.attributes;
    m_ = vw.sizes[0] / a.groups;
    left_group_ = m_ * vy.strides[1];
    right_group_ = vw.sizes[1] * vx.strides[1];
    out_group_ = m_ * vw.strides[0];
    left_row_ = vy.strides[1];
    out_row_ = vw.strides[0];
    steps_ = {{.size = vy.sizes[0], .right = vx.strides[0], .left = vy.strides[0]},
              {.size = vy.sizes[2], .left = vy.strides[2], .h = a.stride[0]},
              {.size = vy.sizes[3], .left = vy.strides[3], .w = a.stride[1]}};
    columns_ = {{.size = vw.sizes[1], .right = vx.strides[1], .out = vw.strides[1]},
                {.size = vw.sizes[2], .out = vw.strides[2], .h = a.dilation[0]},
                {.size = vw.sizes[3], .out = vw.strides[3], .w = a.dilation[1]}};
    first_h_ = -a.padding[0];
    first_w_ = -a.padding[1];
  }

  /// True when one step of k is one element of the left operand further.
  bool left_runs_along_k() const { return run_of(steps_, &Digit::left) == count(steps_); }
  bool is_divided() const { return divisor_h_ != 1 || divisor_w_ != 1; }
  /// Of places in memory; 32 bits where they suffice, so that vectors hold twice as many.
  DType place_type() const {
    const std::int64_t most = std::max({left_elements_, right_elements_, out_elements_});
    return 4 * most < std::numeric_limits<std::int32_t>::max() ? DType::kI32 : DType::kI64;
  }

  // ---- tables ----

  void choose_packing() override { packs_left_ = packs_right_ = true; }

  void start_item() override {
    const ExprId group = batch_index_[0];
    left_start_ = left_base_ = b_.let(b_.add(b_.multiply(group, left_group_), b_.integer(left_offset_)));
    right_base_ = b_.let(b_.add(b_.multiply(group, right_group_), b_.integer(right_offset_)));
    const ExprId out = b_.add(b_.multiply(group, out_group_), b_.integer(out_offset_));
    out_start_ = out_base_ = b_.let(in_piece(out, op_.outputs[0].view.elements()));
    if (runs_in_step()) return;
    const std::int64_t depth = std::min(most_k_, kChunk);
    step_place_ = b_.add_array(place_type(), depth);
    step_h_ = b_.add_array(DType::kI32, depth);
    step_w_ = b_.add_array(DType::kI32, depth);
    if (!left_runs_along_k() || !phases_.empty()) step_left_ = b_.add_array(place_type(), depth);
    column_place_ = b_.add_array(place_type(), width_);
    column_h_ = b_.add_array(DType::kI32, width_);
    column_w_ = b_.add_array(DType::kI32, width_);
    column_out_ = b_.add_array(place_type(), width_);
  }

  /// The indices of the dimensions of more than one element.
  struct Decoded {
    std::vector<ExprId> index;
    std::vector<const Digit*> digits;
  };
  Decoded decode(ExprId linear, const std::vector<Digit>& all) {
    Decoded decoded;
    std::vector<std::int64_t> sizes;
    for (const Digit& digit : all) {
      if (digit.size == 1) continue;
      sizes.push_back(digit.size);
      decoded.digits.push_back(&digit);
    }
    decoded.index = split_index(b_, linear, sizes);
    return decoded;
  }
  ExprId sum(const Decoded& decoded, std::int64_t Digit::*part, std::int64_t start) {
    ExprId total = b_.integer(start);
    for (std::size_t d = 0; d < decoded.digits.size(); ++d) {
      const std::int64_t factor = decoded.digits[d]->*part;
      if (factor != 0) total = b_.add(total, b_.multiply(decoded.index[d], factor));
    }
    return total;
  }
  void keep(ArrayId array, ExprId at, ExprId value) {
    b_.store_element(array, at, b_.convert(value, b_.ir().arrays[array].type));
  }

  /// Without a divisor rows and columns under the window are places in memory, too.
  ExprId place(const Decoded& decoded, std::int64_t start_h, std::int64_t start_w) {
    ExprId total = sum(decoded, &Digit::right, 0);
    if (is_divided()) return total;
    total = b_.add(total, b_.multiply(sum(decoded, &Digit::h, start_h), window_.row));
    return b_.add(total, b_.multiply(sum(decoded, &Digit::w, start_w), window_.column));
  }

  void start_chunk(ExprId k0, std::int64_t steps) override {
    const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kSerial);
    const Decoded step = decode(b_.let(b_.add(k0, q)), steps_);
    keep(step_place_, q, place(step, 0, 0));
    keep(step_h_, q, sum(step, &Digit::h, 0));
    keep(step_w_, q, sum(step, &Digit::w, 0));
    if (!left_runs_along_k()) keep(step_left_, q, sum(step, &Digit::left, 0));
    b_.close();
  }

  void start_panel(ExprId first, std::int64_t columns) override {
    ExprId j = b_.open_for(b_.integer(0), b_.integer(columns), LoopMode::kSerial);
    const Decoded column = decode(b_.let(b_.add(first, j)), columns_);
    keep(column_place_, j, place(column, first_h_, first_w_));
    keep(column_h_, j, sum(column, &Digit::h, first_h_));
    keep(column_w_, j, sum(column, &Digit::w, first_w_));
    keep(column_out_, j, sum(column, &Digit::out, 0));
    b_.close();
    if (columns == width_) return;
    j = b_.open_for(b_.integer(columns), b_.integer(width_), LoopMode::kSerial);  // columns that nobody wants
    keep(column_place_, j, b_.integer(0));
    keep(column_h_, j, b_.integer(kNowhere));
    keep(column_w_, j, b_.integer(0));
    keep(column_out_, j, b_.integer(0));
    b_.close();
  }

  // ---- operands ----

  std::int64_t left_pitch(std::int64_t steps) const override { return steps + kPitchGap; }
  std::int64_t pitch() const { return left_pitch(std::min(most_k_, kChunk)); }

  void pack_left(ExprId k0, std::int64_t steps, ExprId row, const std::vector<Tiles>& cut) override {
    const std::int64_t rows = cut.back().first + cut.back().height * cut.back().count;
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(rows), LoopMode::kSerial);
    const ExprId start = b_.let(b_.add(left_base_, b_.multiply(b_.add(row, i), left_row_)));
    const auto copy = [&](ExprId q, ExprId along) {
      const ExprId at = b_.assume(b_.add(start, along), 0, left_elements_ - 1);
      b_.store_element(left_array_, b_.add(b_.multiply(i, pitch()), q), load_value(b_, left_, at, b_.depth()));
    };
    const std::int64_t run = run_of(steps_, &Digit::left);
    if (left_runs_along_k()) {
      const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kVector);
      copy(q, b_.add(k0, q));
      b_.close();
    } else if (run > 1 && steps % run == 0 && kChunk % run == 0) {  // no run goes beyond the end of a chunk
      const ExprId from = b_.open_for(b_.integer(0), b_.integer(steps / run), LoopMode::kSerial);
      const ExprId q0 = b_.let(b_.multiply(from, run)), along = b_.let(wide(b_.element(step_left_, q0)));
      const ExprId q =
          b_.open_for(b_.integer(0), b_.integer(run), run < kVectorRun ? LoopMode::kUnrolled : LoopMode::kVector);
      copy(b_.add(q0, q), b_.add(along, q));
      b_.close();
      b_.close();
    } else {
      const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kVector);
      copy(q, wide(b_.element(step_left_, q)));
      b_.close();
    }
    b_.close();
  }

  TileOperand left_operand(ExprId, std::int64_t, ExprId, ExprId i0, std::int64_t) override {
    const ExprId base = b_.let(b_.multiply(i0, pitch()));
    return {.is_array = true, .id = left_array_, .base = base, .row_step = pitch(), .step = 1};
  }

  TileOperand right_operand(ExprId, std::int64_t, ExprId, ExprId) override {
    return {.is_array = true, .id = right_array_, .base = b_.integer(0), .step = width_};
  }

  void pack_right(ExprId, std::int64_t steps, ExprId, std::int64_t, std::int64_t columns) override {
    // Neighbouring columns may be neighbours in memory, whatever the step: then they are loaded side by side.
    const bool may_run = result_ != ConvResult::kWeight && !is_divided() && columns == width_;
    ExprId runs = kNoId;
    if (may_run) {
      const ExprId span = b_.binary(Operation::kSubtract, wide(b_.element(column_place_, b_.integer(width_ - 1))),
                                    wide(b_.element(column_place_, b_.integer(0))));
      runs = b_.let(b_.binary(Operation::kEqual, span, b_.integer(width_ - 1)));
    }
    const ExprId q = b_.open_for(b_.integer(0), b_.integer(steps), LoopMode::kSerial);
    const ExprId step_place = b_.let(b_.element(step_place_, q));
    const ExprId h = b_.let(b_.element(step_h_, q)), w = b_.let(b_.element(step_w_, q));
    if (may_run) {
      const ExprId from =
          b_.let(b_.add(right_base_, b_.add(wide(step_place), wide(b_.element(column_place_, b_.integer(0))))));
      const ExprId last = b_.integer(right_elements_ - width_);
      const ExprId inside = b_.binary(Operation::kAnd, b_.binary(Operation::kLessEqual, b_.integer(0), from),
                                      b_.binary(Operation::kLessEqual, from, last));
      const ExprId together = b_.let(b_.binary(Operation::kAnd, runs, inside));
      b_.open_if(together);
      const ExprId j = b_.open_for(b_.integer(0), b_.integer(width_), LoopMode::kVector);
      const ExprId at = b_.assume(b_.add(from, j), 0, right_elements_ - 1);
      const ExprId value = load_value(b_, right_, at, b_.depth());
      put_right(q, j, b_.select(is_inside(h, w, j).condition, value, b_.real(0, type_)));
      b_.close();
      b_.close();
      b_.open_if(b_.unary(Operation::kNot, together));
    }
    const ExprId j = b_.open_for(b_.integer(0), b_.integer(width_), LoopMode::kVector);
    put_right(q, j, seen_through(b_.add(step_place, b_.element(column_place_, j)), is_inside(h, w, j)));
    b_.close();
    if (may_run) b_.close();
    b_.close();
  }

  /// Whether the window's operand has an element there, and which row and column of it that is.
  struct Inside {
    ExprId condition, h, w;
  };
  /// The element at `place` from right_base_, 0 where the window hangs over the border.
  ExprId seen_through(ExprId place, const Inside& seen) {
    ExprId at = place;
    if (is_divided()) {
      at = b_.add(
          at, b_.binary(Operation::kMultiply, b_.convert(seen.h, place_type()), b_.integer(window_.row, place_type())));
      at = b_.add(at, b_.binary(Operation::kMultiply, b_.convert(seen.w, place_type()),
                                b_.integer(window_.column, place_type())));
    }
    const ExprId anywhere = b_.select(seen.condition, at, b_.integer(0, place_type()));
    const ExprId index = b_.assume(b_.add(right_base_, wide(anywhere)), 0, right_elements_ - 1);
    const ExprId value = load_value(b_, right_, index, b_.depth());
    return b_.select(seen.condition, value, b_.real(0, type_));
  }

  void put_right(ExprId q, ExprId j, ExprId value) {
    b_.store_element(right_array_, b_.add(b_.multiply(q, width_), j), value);
  }

  Inside is_inside(ExprId step_h, ExprId step_w, ExprId j) {
    return is_inside(b_.add(step_h, b_.element(column_h_, j)), b_.add(step_w, b_.element(column_w_, j)));
  }
  Inside is_inside(ExprId reach_h, ExprId reach_w) {
    const auto along = [&](ExprId sum, std::int64_t divisor, std::int64_t size, ExprId* at) {
      const auto number = [&](std::int64_t value) { return b_.integer(value, DType::kI32); };
      ExprId reach = b_.let(sum);
      ExprId condition = b_.binary(Operation::kLessEqual, number(0), reach);
      if (divisor != 1) {
        const ExprId rest = b_.binary(Operation::kRemainder, reach, number(divisor));
        condition = b_.binary(Operation::kAnd, condition, b_.binary(Operation::kEqual, rest, number(0)));
        reach = b_.let(b_.binary(Operation::kDivide, reach, number(divisor)));
      }
      *at = reach;
      return b_.binary(Operation::kAnd, condition, b_.binary(Operation::kLess, reach, number(size)));
    };
    Inside inside{};
    const ExprId rows = along(reach_h, divisor_h_, window_.rows, &inside.h);
    const ExprId columns = along(reach_w, divisor_w_, window_.columns, &inside.w);
    inside.condition = b_.let(b_.binary(Operation::kAnd, rows, columns));
    return inside;
  }

  // ---- threads in step: what the tables hold is counted up from step to step, in variables ----

  Known know_row(ExprId row) override { return {b_.let(b_.add(left_base_, b_.multiply(row, left_row_)))}; }
  Known know_column(ExprId linear) override {
    const Decoded column = decode(linear, columns_);
    return {b_.let(b_.convert(place(column, first_h_, first_w_), place_type())),
            b_.let(b_.convert(sum(column, &Digit::h, first_h_), DType::kI32)),
            b_.let(b_.convert(sum(column, &Digit::w, first_w_), DType::kI32))};
  }
  void start_steps(ExprId k0) override {
    const Decoded step = decode(k0, steps_);
    digits_.clear();
    for (std::size_t d = 0; d < step.digits.size(); ++d)
      digits_.push_back({step.digits[d], b_.declare(b_.convert(step.index[d], place_type()))});
  }
  /// What the present step adds to a place, a row or a column; then the next step is the present one.
  Known know_step(ExprId) override {
    const ExprId h = counted(&Digit::h), w = counted(&Digit::w), left = counted(&Digit::left);
    ExprId at = counted(&Digit::right);
    const auto number = [&](std::int64_t value) { return b_.integer(value, place_type()); };
    if (!is_divided()) {
      at = b_.add(at, b_.binary(Operation::kMultiply, h, number(window_.row)));
      at = b_.add(at, b_.binary(Operation::kMultiply, w, number(window_.column)));
    }
    const Known known = {b_.let(at), b_.let(b_.convert(h, DType::kI32)), b_.let(b_.convert(w, DType::kI32)),
                         b_.let(wide(left))};
    ExprId carry = b_.integer(1, place_type());
    for (std::size_t d = digits_.size(); d-- > 0;) {
      const ExprId next = b_.let(b_.add(b_.variable(digits_[d].variable), carry));
      if (d == 0) {
        b_.set(digits_[d].variable, next);
        break;
      }
      const ExprId is_over = b_.let(b_.binary(Operation::kEqual, next, number(digits_[d].digit->size)));
      b_.set(digits_[d].variable, b_.select(is_over, number(0), next));
      carry = b_.let(b_.select(is_over, number(1), number(0)));
    }
    return known;
  }
  ExprId counted(std::int64_t Digit::*part) {
    ExprId total = b_.integer(0, place_type());
    for (const auto& [digit, variable] : digits_) {
      if (digit->*part != 0)
        total = b_.add(total,
                       b_.binary(Operation::kMultiply, b_.variable(variable), b_.integer(digit->*part, place_type())));
    }
    return b_.let(total);
  }
  ExprId load_left(const Known& row, const Known& step) override {
    return load_value(b_, left_, b_.assume(b_.add(row[0], step[3]), 0, left_elements_ - 1), b_.depth());
  }
  ExprId load_right(const Known& step, const Known& column) override {
    return b_.let(
        seen_through(b_.add(step[0], column[0]), is_inside(b_.add(step[1], column[1]), b_.add(step[2], column[2]))));
  }
  void store_one(ExprId row, ExprId column, ExprId total) override {
    start_row(row);
    const ExprId at =
        b_.add(out_base_, b_.add(b_.multiply(row, out_row_), sum(decode(column, columns_), &Digit::out, 0)));
    put(b_.let(b_.assume(at, 0, out_elements_ - 1)), b_.integer(0), total);
  }

  ExprId place_of(ExprId i, ExprId j) {
    const ExprId at = b_.add(out_base_, b_.add(b_.multiply(i, out_row_), wide(b_.element(column_out_, j))));
    return b_.let(b_.assume(at, 0, out_elements_ - 1));
  }
  void start_row(ExprId i) {
    if (epilogue_) epilogue_->start_row({batch_index_[0], i}, EpilogueEmitter::kNoCounter);
  }
  void expect(ExprId i, ExprId) override {
    if (epilogue_) {
      start_row(i);
      const std::int64_t line = 64 / static_cast<std::int64_t>(size_bytes(type_));
      for (std::int64_t j = 0; j < width_; j += line) epilogue_->expect(b_.integer(j), place_of(i, b_.integer(j)));
      return;
    }
    const std::int64_t line = 64 / static_cast<std::int64_t>(size_bytes(b_.ir().buffers[out_].type));
    for (std::int64_t j = 0; j < width_; j += line) b_.prefetch(out_, place_of(i, b_.integer(j)));
  }
  void store_row(ExprId i, ExprId, std::int64_t columns, const SumOf& sum) override {
    start_row(i);
    const auto store_from = [&](ExprId j0, std::int64_t count) {  // side by side
      const ExprId place =
          b_.let(b_.add(out_base_, b_.add(b_.multiply(i, out_row_), wide(b_.element(column_out_, j0)))));
      const ExprId j = b_.open_for(b_.integer(0), b_.integer(count), LoopMode::kVector);
      put(b_.let(b_.assume(b_.add(place, j), 0, out_elements_ - 1)), j, sum(b_.add(j0, j)));
      b_.close();
    };
    const auto store_apart = [&] {
      const ExprId j = b_.open_for(b_.integer(0), b_.integer(columns), LoopMode::kVector);
      put(place_of(i, j), j, sum(j));
      b_.close();
    };
    const std::int64_t run = run_of(columns_, &Digit::out);
    if (run == n_ || run % width_ == 0) {
      store_from(b_.integer(0), columns);
    } else if (columns == width_ && width_ % run == 0 && run >= kWorthARun) {
      const ExprId piece = b_.open_for(b_.integer(0), b_.integer(width_ / run), LoopMode::kUnrolled);
      store_from(b_.multiply(piece, run), run);
      b_.close();
    } else if (run >= width_) {  // some panels go beyond the end of a run
      const ExprId span = b_.binary(Operation::kSubtract, wide(b_.element(column_out_, b_.integer(columns - 1))),
                                    wide(b_.element(column_out_, b_.integer(0))));
      const ExprId together = b_.let(b_.binary(Operation::kEqual, span, b_.integer(columns - 1)));
      b_.open_if(together);
      store_from(b_.integer(0), columns);
      b_.close();
      b_.open_if(b_.unary(Operation::kNot, together));
      store_apart();
      b_.close();
    } else {
      store_apart();
    }
  }
  void put(ExprId place, ExprId lane, ExprId sum) {
    if (epilogue_) return epilogue_->put(sum, lane, place);
    b_.store(out_, place, storable(b_, sum, program_.values[op_.outputs[0].value].dtype));
  }

  ExprId wide(ExprId a) { return b_.convert(a, DType::kI64); }

  /// So far outside that no step reaches the window.
  static constexpr std::int64_t kNowhere = -(std::int64_t{1} << 30);

  struct Window {
    std::int64_t rows, columns;  // of the right operand
    std::int64_t row, column;    // its strides
  };
  /// Rows and columns of x that meet the same taps; places are relative to those of the whole.
  struct Phase {
    std::vector<Digit> steps;
    std::int64_t first_h = 0, first_w = 0, left = 0, out = 0;
  };
  const Program& program_;
  const Op& op_;
  const ConvResult result_;
  Binder binder_;
  std::optional<EpilogueEmitter> epilogue_;
  BufferId left_ = 0, right_ = 0, out_ = 0;
  std::int64_t left_offset_ = 0, right_offset_ = 0, out_offset_ = 0;        // of the views
  std::int64_t left_elements_ = 0, right_elements_ = 0, out_elements_ = 0;  // of the buffers
  std::int64_t left_group_ = 0, right_group_ = 0, out_group_ = 0;           // from one group of channels to the next
  std::int64_t left_row_ = 0, out_row_ = 0;
  Window window_{};
  std::vector<Digit> steps_, columns_;
  std::int64_t first_h_ = 0, first_w_ = 0, divisor_h_ = 1, divisor_w_ = 1;
  std::vector<Phase> phases_;  // empty: one product
  std::uint64_t flops_ = 0;
  ExprId left_start_ = kNoId, out_start_ = kNoId;
  ExprId left_base_ = kNoId, right_base_ = kNoId, out_base_ = kNoId;
  struct CountedDigit {
    const Digit* digit;
    VariableId variable;
  };
  std::vector<CountedDigit> digits_;  // of the present step, where threads run in step
  ArrayId step_place_ = 0, step_h_ = 0, step_w_ = 0, step_left_ = 0;
  ArrayId column_place_ = 0, column_h_ = 0, column_w_ = 0, column_out_ = 0;
};

}  // namespace

bool fits_tiles(const Op& op, ConvResult result) {
  const Operand& weight = result == ConvResult::kWeight ? op.outputs[0] : op.inputs[1];
  const std::int64_t rows =
      result == ConvResult::kInput ? weight.view.sizes[1] : weight.view.sizes[0] / op.attributes.groups;
  bool is_empty = op.outputs[0].view.elements() == 0;
  for (const Operand& input : op.inputs) is_empty |= input.view.elements() == 0;
  return (rows >= kFewestRows || op.attributes.pieces > 0) && !is_empty;
}

Emitted emit_conv_by_tiles(const Program& program, const Op& op, ConvResult result, const DeviceShape& device,
                           const Epilogue* epilogue) {
  return ConvTiles(program, op, result, device, epilogue).run();
}

}  // namespace crucible::kernel
