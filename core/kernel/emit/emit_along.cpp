// Kernels along one dimension: places of extrema, running sums and extrema, sorting. A work item owns one line of
// elements, so nothing depends on the number of threads.
#include <algorithm>
#include <limits>

#include "core/kernel/emit/emit.hpp"

namespace crucible::kernel {
namespace {

using graph::Op;
using graph::OpKind;
using graph::Program;
using graph::View;

constexpr double kStepNs = 1;

/// What the three kinds of kernels share: the lines, the operand, and how elements compare.
class LineEmitter {
 public:
  LineEmitter(const Program& program, const Op& op)
      : program_(program),
        op_(op),
        binder_(program, b_),
        x_(op.inputs[0].view),
        dim_(static_cast<std::size_t>(op.attributes.dims[0])),
        length_(x_.sizes[dim_]),
        type_(program.values[op.inputs[0].value].dtype) {
    x_buffer_ = binder_.buffer(op.inputs[0].value, false);
    for (const auto& output : op.outputs) results_.push_back(binder_.buffer(output.value, true));
    for (std::size_t d = 0; d < x_.sizes.size(); ++d) {
      if (d != dim_) outer_.push_back(x_.sizes[d]);
    }
  }

  /// Of neighbours in memory twice over the line, every element by itself: the extremum first, then the first place
  /// that holds it. Lines that lie across memory once, element after element, since neighbouring lines share what a
  /// read brings.
  Emitted arg_reduction() { return x_.strides[dim_] == 1 && length_ > 1 ? first_of_extremum() : first_in_order(); }

  Emitted first_of_extremum() {
    open_lines();
    const bool floating = is_floating(type_), largest = floating || op_.kind == OpKind::kArgMax;
    const DType type = floating               ? order_key_type(compute_type(type_))
                       : type_ == DType::kI64 ? DType::kI64
                                              : DType::kI32;
    // Floats by their keys, in which all NaN are one above all else; both zeros are made one.
    const auto key = [&](ExprId i) {
      const ExprId value = load(i);
      if (!floating) return b_.let(b_.convert(value, type));
      const ExprId upwards = op_.kind == OpKind::kArgMax ? value : b_.unary(Operation::kNegate, value);
      return b_.let(b_.unary(Operation::kOrderKey, b_.add(upwards, b_.real(0, compute_type(type_)))));
    };
    const std::int64_t least =
        type == DType::kI64 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int32_t>::min();
    const VariableId best = b_.declare(b_.integer(largest ? least : -(least + 1), type));
    ExprId i = b_.open_for(b_.integer(0), b_.integer(length_), LoopMode::kVector);
    b_.set(best, b_.binary(largest ? Operation::kMaximum : Operation::kMinimum, b_.variable(best), key(i)));
    b_.close();
    const ExprId wanted = b_.let(b_.variable(best));
    const VariableId place = b_.declare(b_.integer(length_ - 1));
    i = b_.open_for(b_.integer(0), b_.integer(length_), LoopMode::kVector);
    const ExprId found = b_.select(b_.binary(Operation::kEqual, key(i), wanted), i, b_.integer(length_ - 1));
    b_.set(place, b_.binary(Operation::kMinimum, b_.variable(place), b_.let(found)));
    b_.close();
    store(0, b_.integer(0), b_.variable(place));
    return finished(2);
  }

  Emitted first_in_order() {
    open_lines();
    const bool largest = op_.kind == OpKind::kArgMax;
    const VariableId best = b_.declare(load(b_.integer(0)));
    const VariableId place = b_.declare(b_.integer(0));
    const ExprId i = b_.open_for(b_.integer(1), b_.integer(length_), LoopMode::kSerial);
    const ExprId value = load(i);
    ExprId takes = before(value, b_.variable(best), largest);
    if (is_floating(type_)) {
      const ExprId sound = b_.unary(Operation::kNot, b_.unary(Operation::kIsNan, b_.variable(best)));
      takes = b_.binary(Operation::kOr, takes, b_.binary(Operation::kAnd, b_.unary(Operation::kIsNan, value), sound));
    }
    b_.open_if(takes);
    b_.set(best, value);
    b_.set(place, i);
    b_.close();
    b_.close();
    store(0, b_.integer(0), b_.variable(place));
    return finished(1);
  }

  Emitted running_total() {
    open_lines();
    const bool product = op_.kind == OpKind::kScanProduct;
    const DType wide = type_ == DType::kF32 ? DType::kF64 : compute_type(type_);
    const std::int64_t neutral = product ? 1 : 0;
    const VariableId total =
        b_.declare(is_floating(wide) ? b_.real(static_cast<double>(neutral), wide) : b_.integer(neutral, wide));
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(length_), LoopMode::kSerial);
    const ExprId value = b_.convert(load(i), wide);
    b_.set(total, b_.binary(product ? Operation::kMultiply : Operation::kAdd, b_.variable(total), value));
    store(0, i, b_.variable(total));
    b_.close();
    return finished(1);
  }

  /// An element that equals the extremum so far takes its place; so does every NaN, and nothing after it but NaN.
  Emitted running_extremum() {
    open_lines();
    const bool largest = op_.kind == OpKind::kScanMax;
    const VariableId best = b_.declare(outermost(largest));
    const VariableId place = b_.declare(b_.integer(0));
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(length_), LoopMode::kSerial);
    const ExprId value = load(i);
    const ExprId old = b_.variable(best);
    // A comparison with NaN is false, so once the extremum is NaN only NaN takes its place.
    ExprId takes =
        largest ? b_.binary(Operation::kLessEqual, old, value) : b_.binary(Operation::kLessEqual, value, old);
    if (is_floating(type_)) takes = b_.binary(Operation::kOr, takes, b_.unary(Operation::kIsNan, value));
    takes = b_.let(takes);
    b_.set(best, b_.select(takes, value, old));
    b_.set(place, b_.select(takes, i, b_.variable(place)));
    store(0, i, b_.variable(best));
    store(1, i, b_.variable(place));
    b_.close();
    return finished(1);
  }

  /// A bitonic network over the two results, in place. Its pairs are ordered by (element, index), which makes it
  /// stable; every comparison is ascending, so that a line that is no power of two needs no padding: the partner of
  /// an element would stand behind the end, where the largest elements belong.
  Emitted sorted() {
    open_lines();
    const ExprId i = b_.open_for(b_.integer(0), b_.integer(length_), LoopMode::kVector);
    store(0, i, load(i));
    store(1, i, i);
    b_.close();
    std::int64_t rounds = 0;
    while ((std::int64_t{1} << rounds) < length_) ++rounds;
    const VariableId width = b_.declare(b_.integer(1));
    const ExprId round = b_.open_for(b_.integer(0), b_.integer(rounds), LoopMode::kSerial);
    const ExprId half = b_.variable(width), block = b_.let(b_.multiply(half, 2));
    {  // the first pass of a round compares an element with its mirror image in the block
      const ExprId base = open_blocks(block);
      const ExprId last = b_.let(b_.binary(Operation::kSubtract, b_.add(base, block), b_.integer(1)));
      const ExprId behind = b_.binary(Operation::kSubtract, last, b_.integer(length_ - 1));
      const ExprId t =
          b_.open_for(b_.let(b_.binary(Operation::kMaximum, behind, b_.integer(0))), half, LoopMode::kVector);
      exchange(b_.add(base, t), b_.binary(Operation::kSubtract, last, t));
      b_.close();
      b_.close();
    }
    const VariableId distance = b_.declare(half);
    b_.open_for(b_.integer(0), round, LoopMode::kSerial);
    b_.set(distance, b_.binary(Operation::kDivide, b_.variable(distance), b_.integer(2)));
    const ExprId step = b_.variable(distance);
    const ExprId base = open_blocks(b_.let(b_.multiply(step, 2)));
    const ExprId inside = b_.binary(Operation::kSubtract, b_.integer(length_), b_.add(base, step));
    const ExprId t =
        b_.open_for(b_.integer(0), b_.let(b_.binary(Operation::kMinimum, step, inside)), LoopMode::kVector);
    exchange(b_.add(base, t), b_.add(b_.add(base, t), step));
    for (int blocks = 0; blocks < 3; ++blocks) b_.close();
    b_.set(width, block);
    b_.close();
    return finished(static_cast<double>(rounds * (rounds + 1)) / 4 + 1);
  }

 private:
  void open_lines() {
    const ExprId item = b_.open_grid(LoopMode::kSerial);
    point_ = split_index(b_, item, outer_);
    point_.insert(point_.begin() + static_cast<std::ptrdiff_t>(dim_), b_.integer(0));
  }

  /// A loop over the blocks of this width; its result is where one begins.
  ExprId open_blocks(ExprId width) {
    const ExprId above = b_.binary(Operation::kSubtract, b_.add(b_.integer(length_), width), b_.integer(1));
    const ExprId count = b_.let(b_.binary(Operation::kDivide, above, width));
    const ExprId block = b_.open_for(b_.integer(0), count, LoopMode::kSerial);
    return b_.let(b_.binary(Operation::kMultiply, block, width));
  }

  ExprId index_in(const View& view, ExprId i) {
    std::vector<ExprId> point = point_;
    point[dim_] = i;
    return view_index(b_, view, point);
  }

  ExprId load(ExprId i) { return load_value(b_, x_buffer_, index_in(x_, i), b_.depth()); }

  void store(std::size_t result, ExprId i, ExprId value) {
    const DType type = program_.values[op_.outputs[result].value].dtype;
    b_.store(results_[result], index_in(op_.outputs[result].view, i), storable(b_, value, type));
  }

  ExprId reload(std::size_t result, ExprId i) {
    return load_value(b_, results_[result], index_in(op_.outputs[result].view, i), b_.depth());
  }

  /// a < b, or a > b.
  ExprId before(ExprId a, ExprId b, bool descending) {
    return descending ? b_.binary(Operation::kLess, b, a) : b_.binary(Operation::kLess, a, b);
  }

  /// The pair at places first < second of the sorted line, in order afterwards.
  void exchange(ExprId first, ExprId second) {
    const std::int64_t most = std::max<std::int64_t>(0, length_ - 1);
    first = b_.assume(first, 0, most);
    second = b_.assume(second, 0, most);
    const ExprId a = reload(0, first), b = reload(0, second), a_place = reload(1, first), b_place = reload(1, second);
    const bool descending = op_.kind == OpKind::kSortDescending;
    const auto both = [&](ExprId x, ExprId y) { return b_.binary(Operation::kAnd, x, y); };
    ExprId wrong = before(b, a, descending), equal = b_.binary(Operation::kEqual, a, b);
    if (is_floating(type_)) {
      const ExprId a_nan = b_.let(b_.unary(Operation::kIsNan, a)), b_nan = b_.let(b_.unary(Operation::kIsNan, b));
      const ExprId nan = descending ? b_nan : a_nan, number = b_.unary(Operation::kNot, descending ? a_nan : b_nan);
      wrong = b_.binary(Operation::kOr, wrong, both(nan, number));
      equal = b_.binary(Operation::kOr, equal, both(a_nan, b_nan));
    }
    const ExprId later = b_.binary(Operation::kLess, b_place, a_place);
    const ExprId swap = b_.let(b_.binary(Operation::kOr, wrong, both(equal, later)));
    store(0, first, b_.select(swap, b, a));
    store(0, second, b_.select(swap, a, b));
    store(1, first, b_.select(swap, b_place, a_place));
    store(1, second, b_.select(swap, a_place, b_place));
  }

  /// The number that no element is below (or above).
  ExprId outermost(bool lowest) {
    const DType type = compute_type(type_);
    const double infinity = std::numeric_limits<double>::infinity();
    if (is_floating(type)) return b_.real(lowest ? -infinity : infinity, type);
    if (type == DType::kBool) return b_.integer(lowest ? 0 : 1, type);
    if (type == DType::kU8) return b_.integer(lowest ? 0 : 255, type);
    const auto least = static_cast<std::int64_t>(~std::uint64_t{0} << (8 * size_bytes(type) - 1));
    return b_.integer(lowest ? least : -(least + 1), type);
  }

  Emitted finished(double passes) {
    b_.close();
    Emitted emitted;
    emitted.values = binder_.values();
    emitted.scalars = binder_.scalars();
    emitted.grid = 1;
    for (const std::int64_t size : outer_) emitted.grid *= size;
    emitted.item_ns = static_cast<double>(length_) * passes * kStepNs;
    emitted.flops = static_cast<std::uint64_t>(static_cast<double>(x_.elements()) * passes);
    emitted.ir = b_.finish();
    return emitted;
  }

  const Program& program_;
  const Op& op_;
  IrBuilder b_;
  Binder binder_;
  const View& x_;
  const std::size_t dim_;
  const std::int64_t length_;
  const DType type_;
  BufferId x_buffer_ = 0;
  std::vector<BufferId> results_;
  std::vector<std::int64_t> outer_;  // sizes of the other dimensions
  std::vector<ExprId> point_;        // the line of the work item, at place 0
};

}  // namespace

Emitted emit_arg_reduction(const Program& program, const Op& op) { return LineEmitter(program, op).arg_reduction(); }

Emitted emit_scan(const Program& program, const Op& op) {
  const bool extremum = op.kind == OpKind::kScanMax || op.kind == OpKind::kScanMin;
  LineEmitter emitter(program, op);
  return extremum ? emitter.running_extremum() : emitter.running_total();
}

Emitted emit_sort(const Program& program, const Op& op) { return LineEmitter(program, op).sorted(); }

}  // namespace crucible::kernel
