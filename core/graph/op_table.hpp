// The one table of neutral ops: name, class, number of operands and results, and which attributes each kind uses.
// Verification, printing and the random program generator read it; a new kind is one line in op_table.cpp.
#pragma once

#include <string_view>

#include "core/graph/program.hpp"

namespace crucible::graph {

enum class OpClass : std::uint8_t {
  kConversion,  // copy: any dtype to any dtype
  kArithmetic,  // in the result's dtype, integers included
  kFloating,    // in the result's dtype, which must be floating-point
  kInteger,     // in the result's dtype, which must be an integer
  kTest,        // one operand, result bool
  kComparison,  // in the first operand's dtype, result bool
  kLogic,       // operands as truth values, result bool
  kSelection,   // condition bool, the others in the result's dtype
  kGenerator,   // no tensor operands
  kReduction,
  kArgReduction,  // one operand, along one dimension, result i64
  kScan,          // one operand, along one dimension
  kSort,
  kIndexed,
  kContraction,
  kPooling,
  kFactorization,
  kOpaque,     // any operands, any number of results
  kComposite,  // those of its body
};

/// Which fields of Attributes a kind uses, as bits.
enum AttributeBits : std::uint8_t {
  kNoAttributes = 0,
  kUsesDims = 1,
  kUsesIndex = 2,
  kUsesAlpha = 4,
  kUsesRegion = 8,
  kUsesWindow = 16,       // kernel
  kUsesConvolution = 32,  // stride, padding, dilation
  kUsesGroups = 64,
  /// Of contractions: 0, or how many results lie one behind the other in the value, each as the view says. Result p is
  /// what kStepsOfPiece steps give, from step p * kStepsOfPiece on; but for the first, -0 where there are none. Of a
  /// sum over dims[0]: 0, or its size, where the terms are such pieces, which are added up from the first one on.
  kUsesPieces = 128,
};

struct OpInfo {
  OpKind kind;
  std::string_view name;
  OpClass op_class;
  int min_inputs;
  int max_inputs;  // -1: any number
  int outputs;     // -1: any number
  std::uint8_t attributes;  // AttributeBits
};

/// Inputs that one concat may have. A device takes so many buffers for one kernel and not many more (OpenCL promises
/// 1024 bytes of arguments), and compilers take time by their square: who has more pieces joins them in steps.
inline constexpr int kMostPieces = 64;

/// The row of `kind`. The kind must be one of OpKind's.
const OpInfo& info(OpKind kind);

/// True when the number is one of OpKind's.
bool is_known(OpKind kind);

}  // namespace crucible::graph
