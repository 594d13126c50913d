// Expressions as text: see c_dialect.hpp. It only spells: nothing is decided here.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "plugins/sdk/kernel_printer.hpp"

namespace crucible::sdk {
namespace {

bool may_overflow(Type type) { return type == Type::kI32 || type == Type::kI64; }

}  // namespace

std::string ExprPrinter::type_name(Type type) const {
  switch (type) {
    case Type::kBool:
      return std::string(dialect_.bool_type);
    case Type::kU8:
      return "uint8_t";
    case Type::kI8:
      return "int8_t";
    case Type::kI16:
      return "int16_t";
    case Type::kI32:
      return "int32_t";
    case Type::kI64:
      return "int64_t";
    case Type::kF16:
      return "crucible_f16";
    case Type::kBF16:
      return "crucible_bf16";
    case Type::kF32:
      return "float";
    case Type::kF64:
      return "double";
    case Type::kC64:
    case Type::kC128:
    case Type::kOther:
      break;  // no kernel computes with them
  }
  return "void";
}
std::string ExprPrinter::combined(Op op, Type type, const std::string& a, const std::string& b) const {
  if (op == Op::kAdd) return arithmetic("+", type, a, b);
  if (op == Op::kMultiply) return arithmetic("*", type, a, b);
  return extremum(op, type, a, b);
}

std::string ExprPrinter::integer(std::int64_t value) const {
  const std::string suffix(dialect_.wide_suffix);
  if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807" + suffix + " - 1)";
  const std::string digits = std::to_string(value) + (value > 2147483647 || value < -2147483647 ? suffix : "");
  return value < 0 ? "(" + digits + ")" : digits;
}

std::string ExprPrinter::real(double value, Type type) const {
  const bool single = type == Type::kF32;
  if (single) value = static_cast<double>(static_cast<float>(value));
  if (std::isnan(value)) return std::string(single ? dialect_.nan_f32 : dialect_.nan_f64);
  if (std::isinf(value)) {
    return std::string("(") + (value < 0 ? "-" : "") + std::string(single ? dialect_.inf_f32 : dialect_.inf_f64) + ")";
  }
  char digits[64];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), std::fabs(value), std::chars_format::hex);
  const std::string magnitude = "0x" + std::string(digits, end) + (single ? "f" : "");
  return std::signbit(value) ? "(-" + magnitude + ")" : magnitude;
}

std::string ExprPrinter::call(std::string_view function, const Expr& e) const {
  std::string result =
      "crucible_" + std::string(function) + "_" + std::string(name(operand_type(e))) + "(" + expr(e.in[0]);
  if (e.in[1] != kNoId) result += ", " + expr(e.in[1]);
  return result + ")";
}

/// Arithmetic on types narrower than int is cut back to its type.
std::string ExprPrinter::infix(std::string_view sign, Type type, const std::string& a, const std::string& b) const {
  const std::string result = "(" + a + " " + std::string(sign) + " " + b + ")";
  const bool narrow = is_integral(type) && size_bytes(type) < 4;
  return narrow ? "(" + type_name(type) + ")" + result : result;
}
/// Of two numbers of 32 bits whose result may need more.
std::string ExprPrinter::infix(std::string_view sign, std::uint32_t id) const {
  const Expr& e = kernel_.exprs[id];
  const bool widens = e.type == Type::kI64 && is_narrow(e.in[0]) && is_narrow(e.in[1]) && !is_narrow(id);
  return infix(sign, e.type, (widens ? "(int64_t)" : "") + expr(e.in[0]), expr(e.in[1]));
}
std::string ExprPrinter::compared(std::string_view sign, const Expr& e) const {
  return infix(sign, e.type, expr(e.in[0]), expr(e.in[1]));
}

/// Most numbers that are divided in kernels count items: an unsigned division is a shift or a product, one of 64 bits
/// by a number that is no power of two some thirty instructions, which few launches need.
std::string ExprPrinter::quotient(std::uint32_t id) const {
  const Expr& e = kernel_.exprs[id];
  const bool divides = e.operation == Op::kDivide;
  const std::string_view sign = divides ? "/" : "%";
  const auto by = indices_.constant(e.in[1]);
  const bool is_counted = counts_in_32_bits() && e.type == Type::kI64 && !is_narrow(id) && by && *by > 0 &&
                          *by <= std::numeric_limits<std::int32_t>::max() && indices_.is_natural(e.in[0]);
  if (!is_counted) return infix(sign, id);
  if (std::has_single_bit(static_cast<std::uint64_t>(*by)))
    return "(int64_t)((uint64_t)" + expr(e.in[0]) + " " + std::string(sign) + " " + expr(e.in[1]) + ")";
  return std::string(divides ? "crucible_quotient(" : "crucible_remainder(") + expr(e.in[0]) + ", " + expr(e.in[1]) +
         ")";
}

/// Numbers of data wrap as the reference's do. In C they would be undefined: the unsigned types wrap.
std::string ExprPrinter::arithmetic(std::string_view sign, Type type, const std::string& a,
                                    const std::string& b) const {
  if (!may_overflow(type)) return infix(sign, type, a, b);
  const std::string whole = "(u" + type_name(type) + ")";
  return "(" + type_name(type) + ")(" + whole + a + " " + std::string(sign) + " " + whole + b + ")";
}
std::string ExprPrinter::arithmetic(std::string_view sign, std::uint32_t id) const {
  const Expr& e = kernel_.exprs[id];
  return numbers_.is_data(id) ? arithmetic(sign, e.type, expr(e.in[0]), expr(e.in[1])) : infix(sign, id);
}

std::string ExprPrinter::convert(const Expr& e) const {
  Type from = operand_type(e);
  std::string a = expr(e.in[0]);
  if (dialect_.f16_is_bits && from == Type::kF16) {
    if (e.type == Type::kF16) return a;
    a = "crucible_f16_to_f32(" + a + ")";
    from = Type::kF32;
    if (e.type == Type::kF32) return a;
  }
  if (dialect_.f16_is_bits && e.type == Type::kF16) {
    if (from == Type::kF64) return "crucible_f64_to_f16(" + a + ")";
    return "crucible_f32_to_f16(" + (from == Type::kBF16 ? "crucible_bf16_to_f32(" + a + ")" : a) + ")";
  }
  if (e.type == Type::kBool) return "(" + a + " != 0)";
  if (from == Type::kBF16) return "crucible_bf16_to_f32(" + a + ")";
  if (e.type == Type::kBF16) return "crucible_f32_to_bf16(" + a + ")";
  if (is_floating(from) && is_integral(e.type))
    return "(" + type_name(e.type) + ")crucible_" + std::string(name(from)) +
           (e.type == Type::kI64 || e.type == Type::kU8 ? "_to_i64(" : "_to_i32(") + a + ")";
  return "(" + type_name(e.type) + ")" + a;
}

std::string ExprPrinter::extremum(Op op, Type type, const std::string& a, const std::string& b) const {
  const bool is_max = op == Op::kMaximum;
  if (is_floating(type))
    return std::string("crucible_") + (is_max ? "max_" : "min_") + std::string(name(type)) + "(" + a + ", " + b + ")";
  if (type == Type::kBool) return infix(is_max ? "|" : "&", type, a, b);
  return "(" + a + (is_max ? " > " : " < ") + b + " ? " + a + " : " + b + ")";
}

std::string ExprPrinter::expr(std::uint32_t id) const {
  const Expr& e = kernel_.exprs[id];
  switch (e.operation) {
    case Op::kInteger:
      return integer(e.integer);
    case Op::kReal:
      return real(e.real, e.type);
    case Op::kScalar:
      if (!dialect_.packed_arguments) return "(" + type_name(e.type) + ")s" + text(e.id);
      return "(" + type_name(e.type) + ")" +
             (kernel_.scalars[e.id] == Type::kI64 ? "((const crucible_i64_scalar*)scalars)[" : "scalars[") +
             text(e.id) + "]";
    case Op::kVariable:
      return written_out_.contains(e.id) ? "(" + expr(indices_.definition(e.id)) + ")" : "v" + text(e.id);
    case Op::kLoad: {
      const auto given = given_.find(id);
      const std::string value = given == given_.end() ? at(e.id, e.in[0]) : given->second;
      return e.type == Type::kBool ? "(" + value + " != 0)" : value;
    }
    case Op::kElement: {
      const auto given = given_.find(id);
      return given == given_.end() ? element(e.id, e.in[0]) : given->second;
    }
    case Op::kConvert:
      return convert(e);
    case Op::kAssume:
      return expr(e.in[0]) + " /* in [" + text(e.integer) + ", " + text(e.high) + "] */";
    case Op::kNegate:
      if (may_overflow(e.type) && numbers_.is_data(id)) return arithmetic("-", e.type, "0", expr(e.in[0]));
      return "(" + type_name(e.type) + ")-" + expr(e.in[0]);
    case Op::kNot:
      return "(!" + expr(e.in[0]) + ")";
    case Op::kIsNan: {
      std::string a = expr(e.in[0]);
      if (dialect_.f16_is_bits && operand_type(e) == Type::kF16) a = "crucible_f16_to_f32(" + a + ")";
      return "(" + a + " != " + a + ")";
    }
    case Op::kAbsolute:
      return call("abs", e);
    case Op::kSqrt:
      return call("sqrt", e);
    case Op::kFloor:
      return call("floor", e);
    case Op::kExp:
      return call("exp", e);
    case Op::kLog:
      return call("log", e);
    case Op::kTanh:
      return call("tanh", e);
    case Op::kErf:
      return call("erf", e);
    case Op::kSigmoid:
      return call("sigmoid", e);
    case Op::kReciprocal:
      return "(" + real(1, e.type) + " / " + expr(e.in[0]) + ")";
    case Op::kReciprocalSqrt:
      return call("rsqrt", e);
    case Op::kSin:
      return call("sin", e);
    case Op::kCos:
      return call("cos", e);
    case Op::kOrderKey:
      return call("order_key", e);
    case Op::kFromOrderKey:
      return "crucible_from_order_key_" + std::string(name(e.type)) + "(" + expr(e.in[0]) + ")";
    case Op::kAdd:
      return arithmetic("+", id);
    case Op::kSubtract:
      return arithmetic("-", id);
    case Op::kMultiply:
      return arithmetic("*", id);
    case Op::kDivide:
      return quotient(id);
    case Op::kRemainder:
      return quotient(id);
    case Op::kMaximum:
    case Op::kMinimum:
      return extremum(e.operation, e.type, expr(e.in[0]), expr(e.in[1]));
    case Op::kPower:
      return call("pow", e);
    case Op::kLess:
      return compared("<", e);
    case Op::kLessEqual:
      return compared("<=", e);
    case Op::kEqual:
      return compared("==", e);
    case Op::kNotEqual:
      return compared("!=", e);
    case Op::kAnd:
      return compared("&", e);
    case Op::kOr:
      return compared("|", e);
    case Op::kSelect:
      return "(" + expr(e.in[0]) + " ? " + expr(e.in[1]) + " : " + expr(e.in[2]) + ")";
    case Op::kCall:
      return call(kFunctions[e.id].name, e);
    case Op::kFma:
      return std::string("__builtin_fma") + (e.type == Type::kF32 ? "f(" : "(") + expr(e.in[0]) + ", " + expr(e.in[1]) +
             ", " + expr(e.in[2]) + ")";
  }
  return {};
}

bool ExprPrinter::is_narrow(std::uint32_t id) const {
  if (!counts_in_32_bits()) return false;
  const Expr& e = kernel_.exprs[id];
  return e.operation == Op::kVariable ? indices_.narrow_variable(e.id).has_value() : indices_.narrow(id).has_value();
}

std::string ExprPrinter::variable_type(std::uint32_t id) const {
  return counts_in_32_bits() && indices_.narrow_variable(id) ? "int32_t" : type_name(kernel_.variables[id].type);
}

/// The numbers that are added up to an index, the wrapping sums of data being one.
void ExprPrinter::add_terms(std::uint32_t id, std::vector<std::uint32_t>& terms) const {
  const Expr& e = kernel_.exprs[id];
  if (e.operation != Op::kAdd || numbers_.is_data(id)) return terms.push_back(id);
  for (const std::uint32_t in : {e.in[0], e.in[1]}) add_terms(in, terms);
}

/// What an index owes to the item goes to the address, which is then the same for all turns of its loops, and what
/// turns add is left as a number of 32 bits. Neither part is negative, so the address lies in the buffer.
std::string ExprPrinter::at(std::uint32_t buffer, std::uint32_t index) const {
  const std::string whole = "b" + text(buffer) + "[" + expr(index) + "]";
  if (!counts_in_32_bits()) return whole;
  std::vector<std::uint32_t> terms;
  add_terms(index, terms);
  std::string item, turn;
  std::int64_t most = 0;
  for (const std::uint32_t term : terms) {
    if (!indices_.is_natural(term)) return whole;
    const bool is_turn = is_narrow(term);
    const Expr& e = kernel_.exprs[term];
    if (is_turn) most += (e.operation == Op::kVariable ? indices_.narrow_variable(e.id) : indices_.narrow(term))->high;
    std::string& part = is_turn ? turn : item;
    part += (part.empty() ? "" : " + ") + expr(term);
  }
  if (item.empty() || turn.empty() || most > std::numeric_limits<std::int32_t>::max()) return whole;
  return "(b" + text(buffer) + " + (" + item + "))[" + turn + "]";
}

std::string ExprPrinter::element(std::uint32_t array, std::uint32_t index) const {
  if (!team_.registers.contains(array)) return "a" + text(array) + "[" + expr(index) + "]";
  if (slot_.empty()) return asked_of(array, *indices_.constant(index));
  return "a" + text(array) + "[" + slot_ + "]";
}

/// All loops that touch the array do equally many turns at once.
std::string ExprPrinter::asked_of(std::uint32_t array, std::int64_t element) const {
  const std::int64_t width = team_.registers.at(array).width, group = element / width;
  return "crucible_from_lane(a" + text(array) + "[" + std::to_string(group / team_.lanes * width + element % width) +
         "], lane, " + std::to_string(group % team_.lanes) + ")";
}

}  // namespace crucible::sdk
