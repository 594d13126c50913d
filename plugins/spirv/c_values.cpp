// C's conversions and operators as instructions: see c_values.hpp.
#include "plugins/spirv/c_values.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "plugins/sdk/error.hpp"

namespace crucible::spirv {

using namespace crucible;

namespace {

using Kind = CType::Kind;

/// Cut to the type's bits, and sign-extended where it has a sign.
std::uint64_t cut(std::uint64_t value, const CType& type) {
  if (type.bits >= 64) return value;
  const std::uint64_t low = value & ((std::uint64_t{1} << type.bits) - 1);
  const bool is_negative = type.is_signed && (low >> (type.bits - 1)) != 0;
  return is_negative ? low | ~((std::uint64_t{1} << type.bits) - 1) : low;
}

CValue real_constant(const CType& type, double value) {
  return {.type = type, .real = type.bits == 32 ? static_cast<double>(static_cast<float>(value)) : value};
}
CValue integer_constant(const CType& type, std::uint64_t value) { return {.type = type, .integer = cut(value, type)}; }

/// The bool becomes the int that it is, and so do types that are narrower than int.
CType promoted(const CType& type) {
  if (type.kind == Kind::kBool) return kCInt;
  if (type.kind == Kind::kInteger && type.bits < 32) return kCInt;
  return type;
}

double fold(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  return sign == "*" ? a * b : a / b;
}

}  // namespace

void not_in_prelude(std::string_view function, std::string_view what) {
  throw sdk::Failure(CRUCIBLE_E_INTERNAL, "the prelude's function " + std::string(function) +
                                              " has something that no SPIR-V is made of here: " + std::string(what) +
                                              "; use a plugin of the host's version");
}

CValue read_number(std::string_view text) {
  const bool is_hex = text.starts_with("0x");
  const std::string_view digits = is_hex ? text.substr(2) : text;
  const char* end = digits.data() + digits.size();
  if (text.find(is_hex ? "p" : ".") != std::string_view::npos) {
    const auto format = is_hex ? std::chars_format::hex : std::chars_format::general;
    if (text.ends_with('f')) {
      float value = 0;
      const auto [stop, error] = std::from_chars(digits.data(), end, value, format);
      if (error == std::errc() && stop == end - 1) return real_constant(kCFloat, static_cast<double>(value));
    } else {
      double value = 0;
      const auto [stop, error] = std::from_chars(digits.data(), end, value, format);
      if (error == std::errc() && stop == end) return real_constant(kCDouble, value);
    }
    not_in_prelude("?", text);
  }
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), end, value, is_hex ? 16 : 10);
  const std::string_view suffix(stop, static_cast<std::size_t>(end - stop));
  if (error != std::errc() || suffix.find_first_not_of("ul") != std::string_view::npos) not_in_prelude("?", text);
  const bool is_unsigned = suffix.starts_with('u') || (is_hex && ((value >> 31 == 1) || value >> 63 == 1));
  const bool is_wide = suffix.find('l') != std::string_view::npos || value >> (is_unsigned ? 32 : 31) != 0;
  return integer_constant({Kind::kInteger, static_cast<std::uint8_t>(is_wide ? 64 : 32), !is_unsigned, 0}, value);
}

Id CValues::type_id(const CType& type) {
  switch (type.kind) {
    case Kind::kBool:
      return module_.bool_type();
    case Kind::kInteger:
      return module_.int_type(type.bits);
    case Kind::kFloat:
      return module_.float_type(type.bits);
    case Kind::kStruct:
      break;
  }
  not_in_prelude(function_, "a struct where a number is wanted");
}

Id CValues::id(const CValue& value) {
  if (!value.type.is_number()) not_in_prelude(function_, "a struct where a number is wanted");
  if (value.id != 0) return value.id;
  if (value.type.kind == Kind::kBool) return module_.bool_constant(value.integer != 0);
  if (value.type.kind == Kind::kFloat) return module_.float_constant(value.type.bits, value.real);
  return module_.int_constant(value.type.bits, value.integer);
}

CValue CValues::from_float(const CValue& value, const CType& to) {
  // Narrow types by way of 32 bits, as C compilers do it.
  const CType wide = {Kind::kInteger, std::max<std::uint8_t>(to.bits, 32), to.is_signed, 0};
  const Id number = writer_.value(to.is_signed ? Op::kConvertFToS : Op::kConvertFToU, type_id(wide), {id(value)});
  return convert(of(wide, number), to);
}

CValue CValues::convert(const CValue& value, const CType& to) {
  const CType& from = value.type;
  if (from == to) return value;
  if (!from.is_number() || !to.is_number()) not_in_prelude(function_, "a struct that is converted");
  if (to.kind == Kind::kBool) return of(kCBool, truth(value));
  if (value.is_constant() && from.kind != Kind::kFloat) {
    if (to.kind == Kind::kInteger) return integer_constant(to, value.integer);
    // To float from 64 bits directly: by way of double it might be rounded twice.
    if (from.is_signed) {
      const auto number = static_cast<std::int64_t>(value.integer);
      return real_constant(
          to, to.bits == 32 ? static_cast<double>(static_cast<float>(number)) : static_cast<double>(number));
    }
    return real_constant(to, to.bits == 32 ? static_cast<double>(static_cast<float>(value.integer))
                                           : static_cast<double>(value.integer));
  }
  if (value.is_constant() && to.kind == Kind::kFloat) return real_constant(to, value.real);
  const Id type = type_id(to);
  if (from.kind == Kind::kBool) {
    const CValue one = to.kind == Kind::kFloat ? real_constant(to, 1) : integer_constant(to, 1);
    const CValue zero = to.kind == Kind::kFloat ? real_constant(to, 0) : integer_constant(to, 0);
    return of(to, writer_.value(Op::kSelect, type, {value.id, id(one), id(zero)}));
  }
  if (from.kind == Kind::kFloat) {
    if (to.kind == Kind::kInteger) return from_float(value, to);
    return of(to, writer_.value(Op::kFConvert, type, {id(value)}));
  }
  if (to.kind == Kind::kFloat)
    return of(to, writer_.value(from.is_signed ? Op::kConvertSToF : Op::kConvertUToF, type, {value.id}));
  if (from.bits == to.bits) return of(to, value.id);  // a sign is no part of SPIR-V's types
  return of(to, writer_.value(from.is_signed ? Op::kSConvert : Op::kUConvert, type, {value.id}));
}

Id CValues::truth(const CValue& value) {
  if (value.type.kind == Kind::kBool) return id(value);
  const bool is_float = value.type.kind == Kind::kFloat;
  const CValue zero = is_float ? real_constant(value.type, 0) : integer_constant(value.type, 0);
  return writer_.value(is_float ? Op::kFUnordNotEqual : Op::kINotEqual, module_.bool_type(), {id(value), id(zero)});
}

/// C's usual arithmetic conversions.
CType CValues::common(const CValue& a, const CValue& b) const {
  const CType x = promoted(a.type), y = promoted(b.type);
  if (!x.is_number() || !y.is_number()) not_in_prelude(function_, "arithmetic with a struct");
  if (x.kind == Kind::kFloat || y.kind == Kind::kFloat) {
    if (x.kind != Kind::kFloat) return y;
    if (y.kind != Kind::kFloat) return x;
    return x.bits >= y.bits ? x : y;
  }
  if (x.bits != y.bits) return x.bits > y.bits ? x : y;
  return x.is_signed ? y : x;
}

CValue CValues::binary(std::string_view sign, const CValue& a, const CValue& b) {
  if (sign == "&&" || sign == "||")
    return of(kCBool, writer_.value(sign == "&&" ? Op::kLogicalAnd : Op::kLogicalOr, module_.bool_type(),
                                    {truth(a), truth(b)}));
  if (sign == "<<" || sign == ">>") return shift(sign, a, b);
  if (sign == "&" || sign == "|" || sign == "^") return bitwise(sign, a, b);
  if (sign == "+" || sign == "-" || sign == "*" || sign == "/" || sign == "%") return arithmetic(sign, a, b);
  return comparison(sign, a, b);
}

CValue CValues::arithmetic(std::string_view sign, const CValue& left, const CValue& right) {
  const CType type = common(left, right);
  const CValue a = convert(left, type), b = convert(right, type);
  const bool both = a.is_constant() && b.is_constant();
  if (type.kind == Kind::kFloat) {
    // Of two floats, double rounded once more gives the float that float's own arithmetic gives.
    if (both) return real_constant(type, fold(sign, a.real, b.real));
    if (sign == "%") not_in_prelude(function_, "a remainder of floats");
    const Op op = sign == "+" ? Op::kFAdd : sign == "-" ? Op::kFSub : sign == "*" ? Op::kFMul : Op::kFDiv;
    return of(type, writer_.value(op, type_id(type), {id(a), id(b)}));
  }
  if (both && sign == "+") return integer_constant(type, a.integer + b.integer);
  if (both && sign == "-") return integer_constant(type, a.integer - b.integer);
  if (both && sign == "*") return integer_constant(type, a.integer * b.integer);
  Op op = sign == "+" ? Op::kIAdd : sign == "-" ? Op::kISub : Op::kIMul;
  if (sign == "/") op = type.is_signed ? Op::kSDiv : Op::kUDiv;
  if (sign == "%") op = type.is_signed ? Op::kSRem : Op::kUMod;
  return of(type, writer_.value(op, type_id(type), {id(a), id(b)}));
}

CValue CValues::comparison(std::string_view sign, const CValue& left, const CValue& right) {
  // a > b is b < a
  if (sign == ">") return comparison("<", right, left);
  if (sign == ">=") return comparison("<=", right, left);
  const CType type = common(left, right);
  const Id a = id(convert(left, type)), b = id(convert(right, type));
  Op op = Op::kIEqual;
  if (type.kind == Kind::kFloat) {
    op = sign == "=="   ? Op::kFOrdEqual
         : sign == "!=" ? Op::kFUnordNotEqual
         : sign == "<"  ? Op::kFOrdLessThan
                        : Op::kFOrdLessThanEqual;
  } else if (sign == "!=") {
    op = Op::kINotEqual;
  } else if (sign == "<") {
    op = type.is_signed ? Op::kSLessThan : Op::kULessThan;
  } else if (sign == "<=") {
    op = type.is_signed ? Op::kSLessThanEqual : Op::kULessThanEqual;
  }
  return of(kCBool, writer_.value(op, module_.bool_type(), {a, b}));
}

CValue CValues::bitwise(std::string_view sign, const CValue& left, const CValue& right) {
  if (left.type.kind == Kind::kBool && right.type.kind == Kind::kBool) {
    const Op op = sign == "&" ? Op::kLogicalAnd : sign == "|" ? Op::kLogicalOr : Op::kLogicalNotEqual;
    return of(kCBool, writer_.value(op, module_.bool_type(), {id(left), id(right)}));
  }
  const CType type = common(left, right);
  if (type.kind != Kind::kInteger) not_in_prelude(function_, "bits of a float");
  const Op op = sign == "&" ? Op::kBitwiseAnd : sign == "|" ? Op::kBitwiseOr : Op::kBitwiseXor;
  return of(type, writer_.value(op, type_id(type), {id(convert(left, type)), id(convert(right, type))}));
}

CValue CValues::shift(std::string_view sign, const CValue& left, const CValue& right) {
  const CType type = promoted(left.type);
  if (type.kind != Kind::kInteger || promoted(right.type).kind != Kind::kInteger)
    not_in_prelude(function_, "a shifted float");
  const CValue a = convert(left, type), by = convert(right, type);
  if (a.is_constant() && by.is_constant() && sign == "<<" && by.integer < type.bits)
    return integer_constant(type, a.integer << by.integer);
  const Op right_shift = type.is_signed ? Op::kShiftRightArithmetic : Op::kShiftRightLogical;
  return of(type, writer_.value(sign == "<<" ? Op::kShiftLeftLogical : right_shift, type_id(type), {id(a), id(by)}));
}

CValue CValues::unary(std::string_view sign, const CValue& value) {
  if (sign == "!") return of(kCBool, writer_.value(Op::kLogicalNot, module_.bool_type(), {truth(value)}));
  const CType type = promoted(value.type);
  const CValue a = convert(value, type);
  if (sign == "-" && type.kind == Kind::kFloat) {
    if (a.is_constant()) return real_constant(type, -a.real);
    return of(type, writer_.value(Op::kFNegate, type_id(type), {a.id}));
  }
  if (type.kind != Kind::kInteger) not_in_prelude(function_, sign);
  if (sign == "-") {
    if (a.is_constant()) return integer_constant(type, 0 - a.integer);
    return of(type, writer_.value(Op::kSNegate, type_id(type), {a.id}));
  }
  if (sign != "~") not_in_prelude(function_, sign);
  if (a.is_constant()) return integer_constant(type, ~a.integer);
  return of(type, writer_.value(Op::kNot, type_id(type), {a.id}));
}

CValue CValues::choose(const CValue& condition, const CValue& left, const CValue& right) {
  const CType type = left.type == right.type ? left.type : common(left, right);
  const CValue a = convert(left, type), b = convert(right, type);
  return of(type, writer_.value(Op::kSelect, type_id(type), {truth(condition), id(a), id(b)}));
}

}  // namespace crucible::spirv
