// Expressions of kernels as instructions: see kernel_writer.hpp and the table in docs/kernel-ir.md.
#include "plugins/sdk/error.hpp"
#include "plugins/spirv/kernel_writer.hpp"

namespace crucible::spirv {

using sdk::Expr;
using sdk::Type;

namespace {

[[noreturn]] void unsupported(const std::string& kernel, const std::string& what) {
  throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "kernel " + kernel + " has " + what + ", of which no SPIR-V is made",
                     {{"kernel", kernel}});
}

/// The prelude's name of what is a function there; "" for the rest.
std::string_view function_of(sdk::Op op) {
  switch (op) {
    case sdk::Op::kAbsolute:
      return "abs";
    case sdk::Op::kSqrt:
      return "sqrt";
    case sdk::Op::kFloor:
      return "floor";
    case sdk::Op::kExp:
      return "exp";
    case sdk::Op::kLog:
      return "log";
    case sdk::Op::kTanh:
      return "tanh";
    case sdk::Op::kErf:
      return "erf";
    case sdk::Op::kSigmoid:
      return "sigmoid";
    case sdk::Op::kReciprocalSqrt:
      return "rsqrt";
    case sdk::Op::kSin:
      return "sin";
    case sdk::Op::kCos:
      return "cos";
    case sdk::Op::kOrderKey:
      return "order_key";
    case sdk::Op::kPower:
      return "pow";
    default:
      return "";
  }
}

}  // namespace

Id KernelWriter::expr(std::uint32_t id) {
  if (known_in_[id] == statement_) return known_[id];
  const Id value = compute(kernel_.exprs[id]);
  known_[id] = value;
  known_in_[id] = statement_;
  return value;
}

Id KernelWriter::prelude_call(std::string_view function, const Expr& e) {
  if (e.in[1] == sdk::kNoId) return call(function, operand_type(e), e.type, {expr(e.in[0])});
  const Id a = expr(e.in[0]), b = expr(e.in[1]);
  return call(function, operand_type(e), e.type, {a, b});
}

Id KernelWriter::binary(Op op, const Expr& e) {
  const Id a = expr(e.in[0]), b = expr(e.in[1]);
  return writer_->value(op, value_type(module_, e.type), {a, b});
}

Id KernelWriter::scalar(const Expr& e) {
  if (e.type == Type::kF16 || e.type == Type::kBF16)
    unsupported(name_, "a scalar of type " + std::string(name(e.type)));
  Parameter wanted = {.kind = ParameterKind::kScalar, .index = e.id, .type = e.type};
  if (!is_floating(e.type)) wanted.type = Type::kI64;
  wanted.is_truth = e.type == Type::kBool;
  wanted.given = kernel_.scalars[e.id];
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i] == wanted) return convert(writer_->parameter(i), wanted.type, e.type);
  }
  unsupported(name_, "a scalar that is no parameter");
}

Id KernelWriter::compute(const Expr& e) {
  switch (e.operation) {
    case sdk::Op::kInteger:
      if (e.type == Type::kBool) return module_.bool_constant(e.integer != 0);
      return module_.int_constant(8 * size_bytes(e.type), static_cast<std::uint64_t>(e.integer));
    case sdk::Op::kReal:
      return number(e.type, e.real);
    case sdk::Op::kScalar:
      return scalar(e);
    case sdk::Op::kVariable: {
      const Variable& variable = variables_[e.id];
      return variable.pointer == 0 ? variable.value : load(e.type, variable.pointer);
    }
    case sdk::Op::kLoad:
      return load(e.type, buffer_element(e.id, expr(e.in[0])));
    case sdk::Op::kElement:
      return load(e.type, array_element(e.id, expr(e.in[0])));
    case sdk::Op::kConvert: {
      const sdk::Expr& from = kernel_.exprs[e.in[0]];
      // A number that is written down is rounded here: a device without f64 cannot.
      const bool is_rounded = from.operation == sdk::Op::kReal && from.type == Type::kF64 &&
                              (e.type == Type::kF32 || e.type == Type::kBF16);
      if (is_rounded) return convert(number(Type::kF32, from.real), Type::kF32, e.type);
      return convert(expr(e.in[0]), operand_type(e), e.type);
    }
    case sdk::Op::kAssume:
      return expr(e.in[0]);
    case sdk::Op::kIsNan: {
      const bool is_storage = operand_type(e) == Type::kF16 || operand_type(e) == Type::kBF16;
      const Id x = is_storage ? convert(expr(e.in[0]), operand_type(e), Type::kF32) : expr(e.in[0]);
      return writer_->value(Op::kFUnordNotEqual, module_.bool_type(), {x, x});
    }
    case sdk::Op::kNot:
      return writer_->value(Op::kLogicalNot, module_.bool_type(), {expr(e.in[0])});
    case sdk::Op::kFromOrderKey:
      // Its name has the result's type.
      return call("from_order_key", e.type, e.type, {expr(e.in[0])});
    case sdk::Op::kSelect: {
      const Id condition = expr(e.in[0]), a = expr(e.in[1]), b = expr(e.in[2]);
      return writer_->value(Op::kSelect, value_type(module_, e.type), {condition, a, b});
    }
    case sdk::Op::kCall:
      return prelude_call(sdk::kFunctions[e.id].name, e);
    case sdk::Op::kFma: {
      const Id a = expr(e.in[0]), b = expr(e.in[1]), c = expr(e.in[2]);
      return writer_->cl_call(ClFunction::kFma, value_type(module_, e.type), {a, b, c});
    }
    default:
      return arithmetic(e, operand_type(e));
  }
}

Id KernelWriter::arithmetic(const Expr& e, Type type) {
  const bool is_float = is_floating(type);
  if (e.operation >= sdk::Op::kLess && e.operation <= sdk::Op::kNotEqual) return comparison(e, type);
  if (type == Type::kBool) return of_bools(e);
  switch (e.operation) {
    case sdk::Op::kNegate:
      return writer_->value(is_float ? Op::kFNegate : Op::kSNegate, value_type(module_, type), {expr(e.in[0])});
    case sdk::Op::kReciprocal:
      return writer_->value(Op::kFDiv, value_type(module_, type), {number(type, 1), expr(e.in[0])});
    case sdk::Op::kAdd:
      return binary(is_float ? Op::kFAdd : Op::kIAdd, e);
    case sdk::Op::kSubtract:
      return binary(is_float ? Op::kFSub : Op::kISub, e);
    case sdk::Op::kMultiply:
      return binary(is_float ? Op::kFMul : Op::kIMul, e);
    case sdk::Op::kDivide:
      return binary(is_float ? Op::kFDiv : type == Type::kU8 ? Op::kUDiv : Op::kSDiv, e);
    case sdk::Op::kRemainder:
      return binary(type == Type::kU8 ? Op::kUMod : Op::kSRem, e);
    case sdk::Op::kMaximum:
    case sdk::Op::kMinimum: {
      const Id a = expr(e.in[0]), b = expr(e.in[1]);
      return extremum(e.operation, type, a, b);
    }
    default:
      break;
  }
  const std::string_view function = function_of(e.operation);
  if (function.empty()) unsupported(name_, "operation " + std::to_string(static_cast<int>(e.operation)));
  return prelude_call(function, e);
}

Id KernelWriter::combine(sdk::Op op, Type type, Id a, Id b) {
  const bool is_float = is_floating(type), is_product = op == sdk::Op::kMultiply;
  if (type == Type::kBool) {
    const bool wants_both = is_product || op == sdk::Op::kMinimum;
    return writer_->value(wants_both ? Op::kLogicalAnd : Op::kLogicalOr, module_.bool_type(), {a, b});
  }
  if (op == sdk::Op::kAdd) return writer_->value(is_float ? Op::kFAdd : Op::kIAdd, value_type(module_, type), {a, b});
  if (is_product) return writer_->value(is_float ? Op::kFMul : Op::kIMul, value_type(module_, type), {a, b});
  return extremum(op, type, a, b);
}

Id KernelWriter::comparison(const Expr& e, Type type) {
  const Id a = expr(e.in[0]), b = expr(e.in[1]), truth = module_.bool_type();
  const bool is_unsigned = type == Type::kU8;
  if (type == Type::kBool) {
    if (e.operation == sdk::Op::kEqual) return writer_->value(Op::kLogicalEqual, truth, {a, b});
    if (e.operation == sdk::Op::kNotEqual) return writer_->value(Op::kLogicalNotEqual, truth, {a, b});
    const Id not_a = writer_->value(Op::kLogicalNot, truth, {a});
    return writer_->value(e.operation == sdk::Op::kLess ? Op::kLogicalAnd : Op::kLogicalOr, truth, {not_a, b});
  }
  Op op = is_floating(type) ? Op::kFUnordNotEqual : Op::kINotEqual;
  if (e.operation == sdk::Op::kEqual) op = is_floating(type) ? Op::kFOrdEqual : Op::kIEqual;
  if (e.operation == sdk::Op::kLess)
    op = is_floating(type) ? Op::kFOrdLessThan : is_unsigned ? Op::kULessThan : Op::kSLessThan;
  if (e.operation == sdk::Op::kLessEqual)
    op = is_floating(type) ? Op::kFOrdLessThanEqual : is_unsigned ? Op::kULessThanEqual : Op::kSLessThanEqual;
  return writer_->value(op, truth, {a, b});
}

/// A sum of bools is true when one of them is: what is not 0.
Id KernelWriter::of_bools(const Expr& e) {
  switch (e.operation) {
    case sdk::Op::kOr:
    case sdk::Op::kMaximum:
    case sdk::Op::kAdd:
      return binary(Op::kLogicalOr, e);
    case sdk::Op::kAnd:
    case sdk::Op::kMinimum:
    case sdk::Op::kMultiply:
      return binary(Op::kLogicalAnd, e);
    case sdk::Op::kSubtract:
      return binary(Op::kLogicalNotEqual, e);
    default:
      unsupported(name_, "arithmetic of bools");
  }
}

Id KernelWriter::extremum(sdk::Op op, Type type, Id a, Id b) {
  const bool is_max = op == sdk::Op::kMaximum;
  if (is_floating(type)) return call(is_max ? "max" : "min", type, type, {a, b});
  const Op less = type == Type::kU8 ? Op::kULessThan : Op::kSLessThan;
  const Id takes_a =
      is_max ? writer_->value(less, module_.bool_type(), {b, a}) : writer_->value(less, module_.bool_type(), {a, b});
  return writer_->value(Op::kSelect, value_type(module_, type), {takes_a, a, b});
}

}  // namespace crucible::spirv
