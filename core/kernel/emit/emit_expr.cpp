// What each element-wise op computes, as IR expressions, and the handling of operands that all emitters share.
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "core/kernel/emit/emit.hpp"

namespace crucible::kernel {
namespace {

using graph::OpKind;

bool is_comparison(OpKind kind) { return kind >= OpKind::kLess && kind <= OpKind::kNotEqual; }

Operation unary_operation(OpKind kind) {
  switch (kind) {
    case OpKind::kNegate:
      return Operation::kNegate;
    case OpKind::kAbsolute:
      return Operation::kAbsolute;
    case OpKind::kExp:
      return Operation::kExp;
    case OpKind::kLog:
      return Operation::kLog;
    case OpKind::kSqrt:
      return Operation::kSqrt;
    case OpKind::kReciprocalSqrt:
      return Operation::kReciprocalSqrt;
    case OpKind::kReciprocal:
      return Operation::kReciprocal;
    case OpKind::kTanh:
      return Operation::kTanh;
    case OpKind::kErf:
      return Operation::kErf;
    case OpKind::kSigmoid:
      return Operation::kSigmoid;
    case OpKind::kSin:
      return Operation::kSin;
    case OpKind::kCos:
      return Operation::kCos;
    default:
      return Operation::kFloor;
  }
}

Operation binary_operation(OpKind kind) {
  switch (kind) {
    case OpKind::kAdd:
      return Operation::kAdd;
    case OpKind::kSubtract:
      return Operation::kSubtract;
    case OpKind::kMultiply:
      return Operation::kMultiply;
    case OpKind::kDivide:
      return Operation::kDivide;
    case OpKind::kMaximum:
      return Operation::kMaximum;
    case OpKind::kMinimum:
      return Operation::kMinimum;
    default:
      return Operation::kPower;
  }
}

/// The function that computes an op, where the IR has no operation for it.
std::optional<Function> function_of(OpKind kind, DType type) {
  switch (kind) {
    case OpKind::kCeil:
      return Function::kCeil;
    case OpKind::kTruncate:
      return Function::kTruncate;
    case OpKind::kRound:
      return Function::kRound;
    case OpKind::kExp2:
      return Function::kExp2;
    case OpKind::kExpm1:
      return Function::kExpm1;
    case OpKind::kLog1p:
      return Function::kLog1p;
    case OpKind::kLog2:
      return Function::kLog2;
    case OpKind::kLog10:
      return Function::kLog10;
    case OpKind::kTan:
      return Function::kTan;
    case OpKind::kAsin:
      return Function::kAsin;
    case OpKind::kAcos:
      return Function::kAcos;
    case OpKind::kAtan:
      return Function::kAtan;
    case OpKind::kSinh:
      return Function::kSinh;
    case OpKind::kCosh:
      return Function::kCosh;
    case OpKind::kAsinh:
      return Function::kAsinh;
    case OpKind::kAcosh:
      return Function::kAcosh;
    case OpKind::kAtanh:
      return Function::kAtanh;
    case OpKind::kErfc:
      return Function::kErfc;
    case OpKind::kErfInverse:
      return Function::kErfInverse;
    case OpKind::kLogGamma:
      return Function::kLogGamma;
    case OpKind::kDigamma:
      return Function::kDigamma;
    case OpKind::kAtan2:
      return Function::kAtan2;
    case OpKind::kBitNot:
      return Function::kBitNot;
    case OpKind::kBitAnd:
      return Function::kBitAnd;
    case OpKind::kBitOr:
      return Function::kBitOr;
    case OpKind::kBitXor:
      return Function::kBitXor;
    case OpKind::kShiftLeft:
      return Function::kShiftLeft;
    case OpKind::kShiftRight:
      return Function::kShiftRight;
    case OpKind::kDivideInteger:
      return Function::kQuotient;
    case OpKind::kRemainder:
      return is_floating(type) ? Function::kFmod : Function::kModulus;
    case OpKind::kPower:
      return is_floating(type) ? std::nullopt : std::optional(Function::kIntegerPower);
    default:
      return std::nullopt;
  }
}

/// Powers by multiplication where the exponent is a small constant, as frameworks do.
ExprId power(IrBuilder& b, ExprId base, ExprId exponent) {
  const Expr& e = b.at(exponent);
  if (e.operation == Operation::kReal) {
    const double p = e.real;
    const ExprId square = b.binary(Operation::kMultiply, base, base);
    if (p == 1) return base;
    if (p == 2) return square;
    if (p == 3) return b.binary(Operation::kMultiply, square, base);
    if (p == 0.5) return b.unary(Operation::kSqrt, base);
    if (p == -0.5) return b.unary(Operation::kReciprocalSqrt, base);
    if (p == -1) return b.unary(Operation::kReciprocal, base);
    if (p == -2) return b.unary(Operation::kReciprocal, square);
  }
  return b.binary(Operation::kPower, base, exponent);
}

ExprId comparison(IrBuilder& b, OpKind kind, ExprId left, ExprId right) {
  right = b.convert(right, b.type(left));
  switch (kind) {
    case OpKind::kLess:
      return b.binary(Operation::kLess, left, right);
    case OpKind::kLessEqual:
      return b.binary(Operation::kLessEqual, left, right);
    case OpKind::kGreater:
      return b.binary(Operation::kLess, right, left);
    case OpKind::kGreaterEqual:
      return b.binary(Operation::kLessEqual, right, left);
    case OpKind::kEqual:
      return b.binary(Operation::kEqual, left, right);
    default:
      return b.binary(Operation::kNotEqual, left, right);
  }
}

}  // namespace

BufferId Binder::buffer(graph::ValueId value, bool written) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i] != value) continue;
    builder_.ir().buffers[i].written |= written;
    return static_cast<BufferId>(i);
  }
  values_.push_back(value);
  return builder_.add_buffer(program_.values[value].dtype, written);
}

ExprId Binder::scalar(const graph::Scalar& scalar, DType type) {
  if (scalar.slot == graph::kNone) {
    if (!scalar.is_integer) return builder_.convert(builder_.real(scalar.real, DType::kF64), type);
    return builder_.convert(builder_.integer(scalar.integer), type);
  }
  const auto known = std::ranges::find(scalars_, scalar);
  const auto index = static_cast<std::uint32_t>(known - scalars_.begin());
  if (known == scalars_.end()) {
    scalars_.push_back(scalar);
    builder_.add_scalar(scalar.is_integer ? DType::kI64 : DType::kF64);
  }
  // A real number becomes a whole one as the elements of a tensor do: C and its like leave open what is too large.
  if (!scalar.is_integer && is_integral(type))
    return builder_.let_at(0, builder_.convert(builder_.scalar(index, DType::kF64), type));
  return builder_.let_at(0, builder_.scalar(index, type));
}

ExprId rounded_to(IrBuilder& b, ExprId value, DType type) {
  if (type == DType::kF16 || type == DType::kBF16)
    return b.convert(b.convert(b.convert(value, DType::kF32), type), DType::kF32);
  return b.convert(value, type);
}

ExprId load_value(IrBuilder& b, BufferId buffer, ExprId index, std::size_t depth) {
  const ExprId raw = b.let_at(depth, b.load(buffer, index));
  const DType wide = compute_type(b.type(raw));
  return wide == b.type(raw) ? raw : b.let_at(depth, b.convert(raw, wide));
}

ExprId storable(IrBuilder& b, ExprId value, DType type) { return b.convert(value, type); }

ExprId emit_elementwise(IrBuilder& b, OpKind kind, DType out, std::span<const ExprId> inputs) {
  const DType type = compute_type(out);
  const auto operand = [&](std::size_t i) { return b.convert(inputs[i], type); };
  const auto truth = [&](std::size_t i) { return b.convert(inputs[i], DType::kBool); };
  if (is_comparison(kind)) return comparison(b, kind, inputs[0], inputs[1]);
  switch (kind) {
    case OpKind::kCopy:
    case OpKind::kFill:
    case OpKind::kCoordinate:
    case OpKind::kGatherRows:
    case OpKind::kTake:
    case OpKind::kReduceSum:
    case OpKind::kReduceMax:
    case OpKind::kReduceMin:
    case OpKind::kReduceProduct:
      return rounded_to(b, inputs[0], out);
    case OpKind::kIsNan:
      return is_floating(b.type(inputs[0])) ? b.unary(Operation::kIsNan, inputs[0]) : b.integer(0, DType::kBool);
    case OpKind::kLogicalNot:
      return b.unary(Operation::kNot, truth(0));
    case OpKind::kLogicalAnd:
      return b.binary(Operation::kAnd, truth(0), truth(1));
    case OpKind::kLogicalOr:
      return b.binary(Operation::kOr, truth(0), truth(1));
    case OpKind::kSelect:
      return rounded_to(b, b.select(truth(0), operand(1), operand(2)), out);
    case OpKind::kPower:
      if (is_floating(type)) return rounded_to(b, power(b, operand(0), operand(1)), out);
      break;
    default:
      break;
  }
  if (const auto function = function_of(kind, type)) {
    return rounded_to(b, b.call(*function, operand(0), inputs.size() > 1 ? operand(1) : kNoId), out);
  }
  if (inputs.size() == 1) return rounded_to(b, b.unary(unary_operation(kind), operand(0)), out);
  return rounded_to(b, b.binary(binary_operation(kind), operand(0), operand(1)), out);
}

ExprId member_input(const graph::Program& program, Binder& binder, IrBuilder& b, const Member& member, std::size_t i,
                    const PointValues& values) {
  const graph::Op& op = program.ops[member.op];
  const DType out = program.values[member.output.value].dtype;
  if (op.kind == OpKind::kCoordinate) return values.index(member.inputs[0]);
  const bool compares = is_comparison(op.kind);
  const DType first = op.inputs[0].is_scalar() ? out : program.values[op.inputs[0].value].dtype;
  if (member.generators[i] != graph::kNone) return generated_input(program, binder, b, member, i, values);
  if (op.inputs[i].is_scalar()) {
    const DType type = compute_type(compares ? first : out);
    const bool is_logic = op.kind == OpKind::kLogicalAnd || op.kind == OpKind::kLogicalOr;
    return binder.scalar(op.inputs[i].scalar, is_logic ? DType::kBool : type);
  }
  const ExprId value = values.value(member.inputs[i]);
  const DType own = member.inputs[i].type, wanted = compares ? first : out;
  const bool narrows = (wanted == DType::kF16 || wanted == DType::kBF16) && own != wanted;
  const bool selects = op.kind == OpKind::kSelect && i == 0;
  return narrows && !selects ? rounded_to(b, value, wanted) : value;
}

ExprId generated_input(const graph::Program& program, Binder& binder, IrBuilder& b, const Member& member, std::size_t i,
                       const PointValues& values) {
  const graph::Op& generator = program.ops[member.generators[i]];
  const DType type = program.values[generator.outputs[0].value].dtype;
  if (generator.kind == OpKind::kFill)
    return rounded_to(b, binder.scalar(generator.inputs[0].scalar, compute_type(type)), type);
  return rounded_to(b, values.index(member.inputs[i]), type);
}

ExprId view_index(IrBuilder& b, const graph::View& view, std::span<const ExprId> point) {
  ExprId index = b.integer(view.offset);
  for (std::size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] != 1) index = b.add(index, b.multiply(point[d], view.strides[d]));
  }
  return index;
}

std::vector<ExprId> split_index(IrBuilder& b, ExprId index, std::span<const std::int64_t> sizes) {
  std::vector<ExprId> result(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (d == 0) {
      result[d] = index;
    } else {
      result[d] = b.let(b.binary(Operation::kRemainder, index, b.integer(std::max<std::int64_t>(1, sizes[d]))));
      index = b.let(b.binary(Operation::kDivide, index, b.integer(std::max<std::int64_t>(1, sizes[d]))));
    }
  }
  return result;
}

}  // namespace crucible::kernel
