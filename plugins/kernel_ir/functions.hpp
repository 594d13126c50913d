// The functions that kernels call by number (Operation::kCall): the rarer mathematics, and arithmetic on integers that
// C leaves undefined somewhere. math_functions.cpp has their text; the numbers are those of
// docs/kernel-ir.md.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace crucible::kernel {

enum class Function : std::uint32_t {
  // floats, one operand
  kCeil,
  kTruncate,
  kRound,
  kExp2,
  kExpm1,
  kLog1p,
  kLog2,
  kLog10,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErfc,
  kErfInverse,
  kLogGamma,
  kDigamma,
  // floats, two operands
  kAtan2,
  kFmod,
  // integers, one operand
  kBitNot,
  // integers, two operands
  kQuotient,
  kModulus,
  kIntegerPower,
  kBitAnd,
  kBitOr,
  kBitXor,
  kShiftLeft,
  kShiftRight,
};

struct FunctionInfo {
  std::string_view name;  // the text has crucible_NAME_TYPE
  int operands = 1;
  bool of_floats = true;  // else of integers
};

inline constexpr std::array<FunctionInfo, 32> kFunctions = {{
    {"ceil", 1, true},     {"trunc", 1, true}, {"round", 1, true}, {"exp2", 1, true},   {"expm1", 1, true},
    {"log1p", 1, true},    {"log2", 1, true},  {"log10", 1, true}, {"tan", 1, true},    {"asin", 1, true},
    {"acos", 1, true},     {"atan", 1, true},  {"sinh", 1, true},  {"cosh", 1, true},   {"asinh", 1, true},
    {"acosh", 1, true},    {"atanh", 1, true}, {"erfc", 1, true},  {"erfinv", 1, true}, {"lgamma", 1, true},
    {"digamma", 1, true},  {"atan2", 2, true}, {"fmod", 2, true},  {"not", 1, false},   {"quotient", 2, false},
    {"modulus", 2, false}, {"ipow", 2, false}, {"and", 2, false},  {"or", 2, false},    {"xor", 2, false},
    {"shl", 2, false},     {"shr", 2, false},
}};
static_assert(kFunctions.size() == static_cast<std::size_t>(Function::kShiftRight) + 1);

}  // namespace crucible::kernel
