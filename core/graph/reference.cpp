// The reference interpreter: see reference.hpp. One function per class of op; each loads its operands as numbers,
// computes in row-major order of the result and stores through the result's view.
#include "core/graph/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/nan_bits.hpp"
#include "core/graph/bitcast.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/reference_along.hpp"
#include "core/graph/reference_composite.hpp"
#include "core/graph/reference_contract.hpp"
#include "core/graph/reference_elementwise.hpp"
#include "core/graph/reference_factor.hpp"
#include "core/graph/reference_indexed.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

/// The number beside `at` in `dtype`, on the side of `towards`; of f64 too.
double neighbour(DType dtype, double at, double towards) {
  switch (dtype) {
    case DType::kF64:
      return std::nextafter(at, towards);
    case DType::kF32:
      return std::nextafter(static_cast<float>(at), static_cast<float>(towards));
    default: {
      // f16 and bf16: a step of a quarter of their unit crosses to the next number once it has been made large enough.
      double step = std::abs(at) * (dtype == DType::kF16 ? 0x1p-12 : 0x1p-9);
      if (step == 0) step = dtype == DType::kF16 ? 0x1p-24 : 0x1p-133;
      for (double moved = at; std::isfinite(step); step *= 2) {
        moved = round_to(dtype, towards > at ? at + step : at - step);
        if (moved != at) return moved;
      }
      return at;
    }
  }
}

/// What is not exact in `dtype` becomes the number below or above it. Doubles that an f64 holds do not say whether they
/// are exact: the whole ones are taken to be.
void round_roughly(DType dtype, Numbers& numbers, Roughness& rough) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double& x : numbers.real) {
    const double nearest = round_to(dtype, x);
    const bool is_exact = dtype == DType::kF64 ? std::trunc(x) == x : nearest == x;
    if (is_exact || !std::isfinite(x) || !std::isfinite(nearest) || (rough.random() & 1) != 0) continue;
    const double other = neighbour(dtype, nearest,
                                   dtype == DType::kF64 ? ((rough.random() & 1) != 0 ? kInfinity : -kInfinity)
                                   : x > nearest        ? kInfinity
                                                        : -kInfinity);
    if (std::isfinite(other)) x = other;
  }
}

/// Sums in f32 lanes.
class RoughSum {
 public:
  /// What adding `x` as term `place` moves the sum of its lane by.
  double add(std::size_t place, double x) {
    float& lane = lanes_[place % kLanes];
    const float before = lane;
    lane += static_cast<float>(x);
    return static_cast<double>(lane) - static_cast<double>(before);
  }

 private:
  static constexpr std::size_t kLanes = 8;
  float lanes_[kLanes] = {};
};

/// One op with its surroundings.
struct Frame {
  const Program& program;
  const Op& op;
  OpId index;
  std::vector<Bytes>& values;
  std::span<const Number> slots;
  Roughness* rough = nullptr;

  DType out_dtype(std::size_t i = 0) const { return program.values[op.outputs[i].value].dtype; }
  const Sizes& out_sizes(std::size_t i = 0) const { return op.outputs[i].view.sizes; }
  const Sizes& sizes(std::size_t i) const { return op.inputs[i].view.sizes; }
  DType dtype(std::size_t i) const { return program.values[op.inputs[i].value].dtype; }
  Numbers input(std::size_t i) const { return load(values[op.inputs[i].value], dtype(i), op.inputs[i].view); }
  void output(std::size_t i, Numbers numbers) {
    if (rough != nullptr && is_floating(out_dtype(i))) round_roughly(out_dtype(i), numbers, *rough);
    store(numbers, out_dtype(i), op.outputs[i].view, values[op.outputs[i].value]);
  }
  /// Operand i converted to `dtype`: a tensor's elements, or `size` times the scalar.
  Numbers operand(std::size_t i, DType dtype, std::size_t size) const;
  /// Operand i as doubles.
  Reals reals(std::size_t i) const;
  void output_reals(std::size_t i, Reals numbers) { output(i, Numbers{false, std::move(numbers), {}}); }
};

Numbers Frame::operand(std::size_t i, DType dtype, std::size_t size) const {
  const Operand& o = op.inputs[i];
  const bool narrow = dtype == DType::kF16 || dtype == DType::kBF16;
  if (!o.is_scalar()) {
    if (this->dtype(i) == dtype) return input(i);
    // As the framework converts them, by way of f32.
    if (narrow && this->dtype(i) == DType::kF64) return converted(converted(input(i), DType::kF32), dtype);
    return converted(input(i), dtype);
  }
  Numbers one;
  const Scalar& s = o.scalar;
  one.is_integer = s.is_integer;
  if (s.is_integer) {
    one.integer = {s.slot == kNone ? s.integer : slots[s.slot].integer()};
  } else {
    one.real = {s.slot == kNone ? s.real : slots[s.slot].real()};
  }
  // f16 and bf16 compute in f32, so a scalar keeps f32's precision until the result is rounded.
  one = converted(one, narrow ? DType::kF32 : dtype);
  Numbers all = Numbers::zeros(dtype, size);
  if (all.is_integer) {
    std::fill(all.integer.begin(), all.integer.end(), one.integer[0]);
  } else {
    std::fill(all.real.begin(), all.real.end(), one.real[0]);
  }
  return all;
}

Reals Frame::reals(std::size_t i) const {
  Numbers numbers = input(i);
  if (!numbers.is_integer) return std::move(numbers.real);
  Reals reals(numbers.size());
  for (std::size_t j = 0; j < reals.size(); ++j) reals[j] = numbers.as_real(j);
  return reals;
}

template <class T>
bool compare(OpKind kind, T a, T b) {
  switch (kind) {
    case OpKind::kLess:
      return a < b;
    case OpKind::kLessEqual:
      return a <= b;
    case OpKind::kGreater:
      return a > b;
    case OpKind::kGreaterEqual:
      return a >= b;
    case OpKind::kEqual:
      return a == b;
    default:
      return a != b;
  }
}

void run_arithmetic(Frame& frame) {
  const DType dtype = frame.out_dtype();
  const auto size = static_cast<std::size_t>(frame.op.outputs[0].view.elements());
  const Numbers a = frame.operand(0, dtype, size);
  const Numbers b = frame.op.inputs.size() > 1 ? frame.operand(1, dtype, size) : a;
  Numbers result = Numbers::zeros(dtype, size);
  for (std::size_t i = 0; i < size; ++i) {
    if (result.is_integer) {
      result.integer[i] = reference_integer(frame.op.kind, dtype, a.integer[i], b.integer[i]);
    } else {
      result.real[i] = reference_real(frame.op.kind, a.real[i], b.real[i]);
    }
  }
  frame.output(0, result);
}

void run_predicate(Frame& frame, OpClass op_class) {
  const auto size = static_cast<std::size_t>(frame.op.outputs[0].view.elements());
  const DType first = frame.dtype(0);
  const OpKind kind = frame.op.kind;
  const Numbers a = frame.input(0);
  Numbers b = a;
  if (frame.op.inputs.size() > 1) {
    const bool own = op_class == OpClass::kLogic && !frame.op.inputs[1].is_scalar();
    b = own ? frame.input(1) : frame.operand(1, op_class == OpClass::kLogic ? DType::kBool : first, size);
  }
  Numbers result = Numbers::zeros(DType::kBool, size);
  for (std::size_t i = 0; i < size; ++i) {
    bool truth = false;
    if (kind == OpKind::kIsNan) {
      truth = !a.is_integer && std::isnan(a.real[i]);
    } else if (kind == OpKind::kLogicalNot) {
      truth = !a.as_bool(i);
    } else if (kind == OpKind::kLogicalAnd) {
      truth = a.as_bool(i) && b.as_bool(i);
    } else if (kind == OpKind::kLogicalOr) {
      truth = a.as_bool(i) || b.as_bool(i);
    } else {
      truth = a.is_integer ? compare(kind, a.integer[i], b.integer[i]) : compare(kind, a.real[i], b.real[i]);
    }
    result.integer[i] = truth;
  }
  frame.output(0, result);
}

void run_select(Frame& frame) {
  const auto size = static_cast<std::size_t>(frame.op.outputs[0].view.elements());
  const DType dtype = frame.out_dtype();
  const Numbers condition = frame.input(0);
  Numbers chosen = frame.operand(1, dtype, size);
  const Numbers other = frame.operand(2, dtype, size);
  for (std::size_t i = 0; i < size; ++i) {
    if (condition.as_bool(i)) continue;
    if (chosen.is_integer) {
      chosen.integer[i] = other.integer[i];
    } else {
      chosen.real[i] = other.real[i];
    }
  }
  frame.output(0, chosen);
}

void run_generator(Frame& frame) {
  const auto size = static_cast<std::size_t>(frame.op.outputs[0].view.elements());
  if (frame.op.kind == OpKind::kFill) return frame.output(0, frame.operand(0, frame.out_dtype(), size));
  const auto dim = static_cast<std::size_t>(frame.op.attributes.dims[0]);
  std::int64_t inner = 1;
  for (std::size_t d = dim + 1; d < frame.out_sizes().size(); ++d) inner *= frame.out_sizes()[d];
  Numbers result{true, {}, std::vector<std::int64_t>(size)};
  for (std::size_t i = 0; i < size; ++i) {
    result.integer[i] = static_cast<std::int64_t>(i) / inner % frame.out_sizes()[dim];
  }
  frame.output(0, converted(result, frame.out_dtype()));
}

void run_reduction(Frame& frame) {
  const OpKind kind = frame.op.kind;
  const OpKind step = kind == OpKind::kReduceSum       ? OpKind::kAdd
                      : kind == OpKind::kReduceProduct ? OpKind::kMultiply
                      : kind == OpKind::kReduceMax     ? OpKind::kMaximum
                                                       : OpKind::kMinimum;
  const auto size = static_cast<std::size_t>(frame.op.outputs[0].view.elements());
  const Numbers x = frame.dtype(0) == frame.out_dtype() ? frame.input(0) : converted(frame.input(0), frame.out_dtype());
  Numbers result = Numbers::zeros(frame.out_dtype(), size);
  if (kind == OpKind::kReduceProduct) {  // of nothing: 1
    std::ranges::fill(result.integer, 1);
    std::ranges::fill(result.real, 1.0);
  }
  // Which result element each element of x belongs to: a contiguous view of the result with stride 0 where reduced.
  View target = View::contiguous(frame.out_sizes());
  target.sizes = frame.sizes(0);
  for (auto dim : frame.op.attributes.dims) target.strides[static_cast<std::size_t>(dim)] = 0;
  const auto to = indices(target);
  std::vector<bool> seen(size, false);
  // The parts of a sum that split_reductions() has cut go on from each other, as the whole sum does that a framework
  // takes.
  const bool is_rough =
      frame.rough != nullptr && kind == OpKind::kReduceSum && !result.is_integer && frame.out_dtype() != DType::kF64;
  const bool is_part = is_rough && size > 1 && std::ranges::any_of(frame.program.ops, [&](const Op& reader) {
                         return reader.kind == OpKind::kReduceSum &&
                                reader.inputs[0].value == frame.op.outputs[0].value &&
                                reader.outputs[0].view.elements() == 1;
                       });
  std::vector<RoughSum> sums(is_rough ? (is_part ? 1 : size) : 0);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto t = static_cast<std::size_t>(to[i]);
    if (is_rough) {
      result.real[t] += sums[is_part ? 0 : t].add(is_part ? i : i / std::max<std::size_t>(1, size), x.real[i]);
      continue;
    }
    if (result.is_integer) {
      result.integer[t] =
          seen[t] ? reference_integer(step, frame.out_dtype(), result.integer[t], x.integer[i]) : x.integer[i];
    } else {
      result.real[t] = seen[t] ? reference_real(step, result.real[t], x.real[i]) : x.real[i];
    }
    seen[t] = true;
  }
  frame.output(0, result);
}

void run_along(Frame& frame) {
  const AlongResult result =
      reference_along(frame.op.kind, frame.input(0), frame.sizes(0), frame.op.attributes.dims[0]);
  if (info(frame.op.kind).op_class == OpClass::kArgReduction) return frame.output(0, result.index);
  frame.output(0, result.values);
  if (frame.op.outputs.size() > 1) frame.output(1, result.index);
}

Error bad_id(const Frame& frame, std::int64_t id, std::int64_t rows) {
  return Error{ErrorCode::kBadInput,
               fmt::format("op {} ({}): id {} is no row of {}", frame.index, name(frame.op.kind), id, rows)};
}

Result<void> run_gather(Frame& frame) {
  const Numbers table = frame.input(0), ids = frame.input(1);
  const std::int64_t rows = frame.sizes(0)[0];
  const auto width = static_cast<std::size_t>(frame.sizes(0)[1]);
  Numbers result = Numbers::zeros(frame.out_dtype(), ids.size() * width);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t row = ids.integer[i];
    if (row < 0 || row >= rows) return bad_id(frame, row, rows);
    for (std::size_t j = 0; j < width; ++j) {
      const std::size_t from = static_cast<std::size_t>(row) * width + j;
      if (result.is_integer) {
        result.integer[i * width + j] = table.integer[from];
      } else {
        result.real[i * width + j] = table.real[from];
      }
    }
  }
  frame.output(0, result);
  return {};
}

Result<void> run_scatter(Frame& frame) {
  const Numbers rows = frame.input(0), ids = frame.input(1);
  const std::int64_t count = frame.out_sizes()[0];
  const auto width = static_cast<std::size_t>(frame.out_sizes()[1]);
  Numbers result = Numbers::zeros(frame.out_dtype(), static_cast<std::size_t>(count) * width);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t row = ids.integer[i];
    if (row == frame.op.attributes.index && row >= 0) continue;
    if (row < 0 || row >= count) return bad_id(frame, row, count);
    for (std::size_t j = 0; j < width; ++j) {
      const std::size_t to = static_cast<std::size_t>(row) * width + j;
      if (result.is_integer) {
        result.integer[to] =
            reference_integer(OpKind::kAdd, frame.out_dtype(), result.integer[to], rows.integer[i * width + j]);
      } else {
        result.real[to] += rows.real[i * width + j];
        if (frame.rough != nullptr && frame.out_dtype() != DType::kF64)
          result.real[to] = static_cast<float>(result.real[to]);
      }
    }
  }
  frame.output(0, result);
  return {};
}

void run_concat(Frame& frame) {
  const auto dim = static_cast<std::size_t>(frame.op.attributes.dims[0]);
  View part = frame.op.outputs[0].view;
  Bytes& out = frame.values[frame.op.outputs[0].value];
  for (std::size_t i = 0; i < frame.op.inputs.size(); ++i) {
    part.sizes[dim] = frame.sizes(i)[dim];
    store(frame.input(i), frame.out_dtype(), part, out);
    part.offset += part.strides[dim] * part.sizes[dim];
  }
}

void run_update(Frame& frame) {
  Bytes& out = frame.values[frame.op.outputs[0].value];
  out = frame.values[frame.op.inputs[0].value];
  store(frame.input(1), frame.out_dtype(), frame.op.attributes.region, out);
}

/// The bytes themselves: through numbers the payloads of NaNs would be lost.
void run_bitcast(Frame& frame) {
  const Bytes& from = frame.values[frame.op.inputs[0].value];
  Bytes& out = frame.values[frame.op.outputs[0].value];
  const std::size_t size = size_bytes(frame.dtype(0));
  std::size_t at = 0;
  for (const std::int64_t index : indices(frame.op.inputs[0].view)) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(index) * size), size,
                out.begin() + static_cast<std::ptrdiff_t>(at));
    at += size;
  }
  if (names_nans(frame.op)) canonicalize_nan(frame.dtype(0), out);
}

/// One result behind the other (Attributes::pieces).
void output_pieces(Frame& frame, const Reals& all) {
  View part = frame.op.outputs[0].view;
  const auto elements = static_cast<std::ptrdiff_t>(part.elements());
  for (std::int64_t piece = 0; piece < frame.op.attributes.pieces; ++piece, part.offset += elements) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(piece) * elements;
    store(Numbers{false, Reals(from, from + elements), {}}, frame.out_dtype(), part,
          frame.values[frame.op.outputs[0].value]);
  }
}

void run_matmul(Frame& frame) {
  const Sizes& sizes = frame.out_sizes();
  const std::size_t rank = sizes.size();
  std::int64_t batch = 1;
  for (std::size_t d = 0; d + 2 < rank; ++d) batch *= sizes[d];
  if (const std::int64_t pieces = frame.op.attributes.pieces; pieces > 0)
    return output_pieces(frame, reference_matmul_pieces(frame.reals(0), frame.reals(1), batch, sizes[rank - 2],
                                                        frame.sizes(0)[rank - 1], sizes[rank - 1], pieces));
  frame.output_reals(0, reference_matmul(frame.reals(0), frame.reals(1), batch, sizes[rank - 2],
                                         frame.sizes(0)[rank - 1], sizes[rank - 1], frame.op.attributes.alpha));
}

void run_contraction(Frame& frame) {
  const Attributes& a = frame.op.attributes;
  const OpKind kind = frame.op.kind;
  if (kind == OpKind::kMatMul) return run_matmul(frame);
  const ConvolutionSizes sizes =
      kind == OpKind::kConv2d                ? ConvolutionSizes{frame.sizes(0), frame.sizes(1), frame.out_sizes()}
      : kind == OpKind::kConv2dBackwardInput ? ConvolutionSizes{frame.out_sizes(), frame.sizes(1), frame.sizes(0)}
                                             : ConvolutionSizes{frame.sizes(1), frame.out_sizes(), frame.sizes(0)};
  const Reals first = frame.reals(0), second = frame.reals(1);
  if (a.pieces > 0) return output_pieces(frame, reference_conv_pieces(kind, first, second, sizes, a));
  if (kind == OpKind::kConv2d) return frame.output_reals(0, reference_conv2d(first, second, sizes, a));
  if (kind == OpKind::kConv2dBackwardInput)
    return frame.output_reals(0, reference_conv2d_backward_input(first, second, sizes, a));
  frame.output_reals(0, reference_conv2d_backward_weight(first, second, sizes, a));
}

Result<void> run_pooling(Frame& frame) {
  if (frame.op.kind == OpKind::kMaxPool2d) {
    Numbers values, index{true, {}, {}};
    reference_max_pool2d(frame.reals(0), frame.sizes(0), frame.out_sizes(), frame.op.attributes, values.real,
                         index.integer);
    frame.output(0, converted(values, frame.out_dtype()));
    frame.output(1, index);
    return {};
  }
  const Reals gradient = frame.reals(0);
  const Numbers index = frame.input(1);
  const Sizes& sizes = frame.out_sizes();
  const std::int64_t plane = sizes[2] * sizes[3];
  const std::int64_t windows = frame.sizes(0)[2] * frame.sizes(0)[3];
  Reals x(static_cast<std::size_t>(sizes[0] * sizes[1] * plane), 0.0);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const std::int64_t to = index.integer[i];
    if (to < 0 || to >= plane) return bad_id(frame, to, plane);
    x[static_cast<std::size_t>(static_cast<std::int64_t>(i) / windows * plane + to)] += gradient[i];
  }
  frame.output_reals(0, std::move(x));
  return {};
}

void run_factorization(Frame& frame) {
  if (frame.op.kind == OpKind::kPivotsToPermutation) {
    const std::int64_t steps = frame.sizes(0).back(), rows = frame.out_sizes().back();
    const std::int64_t lists = rows == 0 ? 0 : frame.op.outputs[0].view.elements() / rows;
    return frame.output(0, Numbers{true, {}, reference_permutation(frame.input(0).integer, lists, steps, rows)});
  }
  FactorResult result =
      reference_factor(frame.op, frame.reals(0), frame.op.inputs.size() > 1 ? frame.reals(1) : Reals{});
  for (std::size_t i = 0; i < result.reals.size(); ++i) {
    if (frame.out_dtype(i) == DType::kI64) {
      frame.output(i, Numbers{true, {}, std::move(result.pivots)});
    } else {
      frame.output_reals(i, std::move(result.reals[i]));
    }
  }
}

/// No result has an element, and no operand has an id to look at. Extents around one of 0 may be of any size: loops
/// over them would turn as often.
bool has_nothing_to_do(const Frame& frame) {
  const auto is_empty = [](const Operand& operand) { return operand.view.elements() == 0; };
  const auto may_be_id = [&](const Operand& operand) {
    return !operand.is_scalar() && !is_empty(operand) && is_integral(frame.program.values[operand.value].dtype);
  };
  return frame.op.kind != OpKind::kOpaque && std::ranges::all_of(frame.op.outputs, is_empty) &&
         std::ranges::none_of(frame.op.inputs, may_be_id);
}

Result<void> run(Frame& frame) {
  if (has_nothing_to_do(frame)) return {};
  switch (const OpClass op_class = info(frame.op.kind).op_class) {
    case OpClass::kConversion: {
      const auto size = static_cast<std::size_t>(frame.op.outputs[0].view.elements());
      frame.output(0, frame.operand(0, frame.out_dtype(), size));
      return {};
    }
    case OpClass::kArithmetic:
    case OpClass::kFloating:
    case OpClass::kInteger:
      run_arithmetic(frame);
      return {};
    case OpClass::kTest:
    case OpClass::kComparison:
    case OpClass::kLogic:
      run_predicate(frame, op_class);
      return {};
    case OpClass::kSelection:
      run_select(frame);
      return {};
    case OpClass::kGenerator:
      run_generator(frame);
      return {};
    case OpClass::kReduction:
      run_reduction(frame);
      return {};
    case OpClass::kArgReduction:
    case OpClass::kScan:
    case OpClass::kSort:
      run_along(frame);
      return {};
    case OpClass::kIndexed:
      if (frame.op.kind == OpKind::kGatherRows) return run_gather(frame);
      if (frame.op.kind == OpKind::kScatterAddRows) return run_scatter(frame);
      if (frame.op.kind == OpKind::kTake) {
        frame.output(0, reference_take(frame.input(0), frame.input(1)));
        return {};
      }
      if (is_put(frame.op.kind)) {
        frame.output(0,
                     reference_put(frame.op.kind, frame.out_dtype(), frame.input(0), frame.input(1), frame.input(2)));
        return {};
      }
      if (frame.op.kind == OpKind::kConcat) {
        is_bitcast(frame.program, frame.op) ? run_bitcast(frame) : run_concat(frame);
      } else {
        run_update(frame);
      }
      return {};
    case OpClass::kContraction:
      run_contraction(frame);
      return {};
    case OpClass::kPooling:
      return run_pooling(frame);
    case OpClass::kFactorization:
      run_factorization(frame);
      return {};
    case OpClass::kOpaque:
      return Error{ErrorCode::kBadInput,
                   fmt::format("op {}: {} is an opaque op, which the reference interpreter cannot run", frame.index,
                               opaque_of(frame.program, frame.op).name())};
    case OpClass::kComposite:
      return run_composite(frame.program, frame.index, frame.values, frame.slots, frame.rough);
  }
  return {};
}

}  // namespace

Result<void> run_op(const Program& program, OpId index, std::vector<Bytes>& values, std::span<const Number> slots,
                    Roughness* rough) {
  const Op& op = program.ops[index];
  for (const Operand& output : op.outputs) {
    const Value& value = program.values[output.value];
    values[output.value].assign(static_cast<std::size_t>(value.elements) * size_bytes(value.dtype), std::byte{0});
  }
  Frame frame{program, op, index, values, slots, rough};
  return run(frame);
}

void nudge(DType dtype, Bytes& bytes, Roughness& rough) {
  const std::size_t size = size_bytes(dtype);
  if (!is_floating(dtype)) return;
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
    const double x = load_real(dtype, &bytes[at]);
    const auto chance = rough.random() & 3;
    if (x == 0 || !std::isfinite(x) || chance > 1) continue;
    const double moved = neighbour(dtype, x, (chance == 1) == (x > 0) ? 2 * x : 0.0);
    if (std::isfinite(moved)) store_real(dtype, moved, &bytes[at]);
  }
}

Result<std::vector<Bytes>> run_iteration(const Program& program, std::vector<Bytes> values,
                                         std::span<const Number> slots, Roughness* rough) {
  values.resize(program.values.size());
  if (slots.size() != program.slots.size()) {
    return Error{ErrorCode::kInternal,
                 fmt::format("the interpreter got {} slots, the program has {}", slots.size(), program.slots.size())};
  }
  if (std::ranges::any_of(program.ops, [](const Op& op) { return op.kind == OpKind::kOpaque; })) {
    return Error{ErrorCode::kBadInput, opaque_list(program) + "\nthe reference interpreter runs neutral ops alone"};
  }
  for (ValueId v = 0; v < program.values.size(); ++v) {
    const Value& value = program.values[v];
    const std::size_t wanted = static_cast<std::size_t>(value.elements) * size_bytes(value.dtype);
    if (value.kind == ValueKind::kTemporary) {
      values[v].assign(wanted, std::byte{0});
    } else if (values[v].size() != wanted) {
      return Error{ErrorCode::kInternal,
                   fmt::format("value %{} ({}): got {} bytes, needs {}", v, value.name, values[v].size(), wanted)};
    }
  }
  for (OpId index = 0; index < program.ops.size(); ++index) {
    Frame frame{program, program.ops[index], index, values, slots, rough};
    CRUCIBLE_TRY_VOID(run(frame));
  }
  return values;
}

double read_output(const Program& program, const Output& output, const std::vector<Bytes>& values) {
  const ValueId v = output.operand.value;
  return load(values[v], program.values[v].dtype, output.operand.view).as_real(0);
}

Bytes read_tensor(const Program& program, const Output& output, const std::vector<Bytes>& values) {
  const ValueId v = output.operand.value;
  const std::size_t size = size_bytes(program.values[v].dtype);
  Bytes dense;
  for (const std::int64_t index : indices(output.operand.view)) {
    const auto from = values[v].begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(index) * size);
    dense.insert(dense.end(), from, from + static_cast<std::ptrdiff_t>(size));
  }
  return dense;
}

}  // namespace crucible::graph
