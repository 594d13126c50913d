// The table of neutral ops: see op_table.hpp. Rows stand in the order of OpKind.
#include "core/graph/op_table.hpp"

#include <array>
#include <cstdint>

namespace crucible::graph {
namespace {

using K = OpKind;
using C = OpClass;

constexpr std::uint8_t kConvolution = kUsesConvolution | kUsesGroups | kUsesPieces;

constexpr std::array<OpInfo, kOpKindCount> kTable = {{
    {K::kCopy, "copy", C::kConversion, 1, 1, 1, kNoAttributes},
    {K::kNegate, "negate", C::kArithmetic, 1, 1, 1, kNoAttributes},
    {K::kAbsolute, "absolute", C::kArithmetic, 1, 1, 1, kNoAttributes},
    {K::kExp, "exp", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kLog, "log", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kSqrt, "sqrt", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kReciprocalSqrt, "rsqrt", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kReciprocal, "reciprocal", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kTanh, "tanh", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kErf, "erf", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kSigmoid, "sigmoid", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kSin, "sin", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kCos, "cos", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kFloor, "floor", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kCeil, "ceil", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kTruncate, "truncate", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kRound, "round", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kExp2, "exp2", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kExpm1, "expm1", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kLog1p, "log1p", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kLog2, "log2", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kLog10, "log10", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kTan, "tan", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kAsin, "asin", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kAcos, "acos", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kAtan, "atan", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kSinh, "sinh", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kCosh, "cosh", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kAsinh, "asinh", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kAcosh, "acosh", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kAtanh, "atanh", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kErfc, "erfc", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kErfInverse, "erf_inverse", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kLogGamma, "log_gamma", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kDigamma, "digamma", C::kFloating, 1, 1, 1, kNoAttributes},
    {K::kBitNot, "bit_not", C::kInteger, 1, 1, 1, kNoAttributes},
    {K::kIsNan, "is_nan", C::kTest, 1, 1, 1, kNoAttributes},
    {K::kLogicalNot, "logical_not", C::kLogic, 1, 1, 1, kNoAttributes},
    {K::kAdd, "add", C::kArithmetic, 2, 2, 1, kNoAttributes},
    {K::kSubtract, "subtract", C::kArithmetic, 2, 2, 1, kNoAttributes},
    {K::kMultiply, "multiply", C::kArithmetic, 2, 2, 1, kNoAttributes},
    {K::kDivide, "divide", C::kFloating, 2, 2, 1, kNoAttributes},
    {K::kMaximum, "maximum", C::kArithmetic, 2, 2, 1, kNoAttributes},
    {K::kMinimum, "minimum", C::kArithmetic, 2, 2, 1, kNoAttributes},
    {K::kPower, "power", C::kArithmetic, 2, 2, 1, kNoAttributes},
    {K::kAtan2, "atan2", C::kFloating, 2, 2, 1, kNoAttributes},
    {K::kRemainder, "remainder", C::kArithmetic, 2, 2, 1, kNoAttributes},
    {K::kDivideInteger, "divide_integer", C::kInteger, 2, 2, 1, kNoAttributes},
    {K::kBitAnd, "bit_and", C::kInteger, 2, 2, 1, kNoAttributes},
    {K::kBitOr, "bit_or", C::kInteger, 2, 2, 1, kNoAttributes},
    {K::kBitXor, "bit_xor", C::kInteger, 2, 2, 1, kNoAttributes},
    {K::kShiftLeft, "shift_left", C::kInteger, 2, 2, 1, kNoAttributes},
    {K::kShiftRight, "shift_right", C::kInteger, 2, 2, 1, kNoAttributes},
    {K::kLess, "less", C::kComparison, 2, 2, 1, kNoAttributes},
    {K::kLessEqual, "less_equal", C::kComparison, 2, 2, 1, kNoAttributes},
    {K::kGreater, "greater", C::kComparison, 2, 2, 1, kNoAttributes},
    {K::kGreaterEqual, "greater_equal", C::kComparison, 2, 2, 1, kNoAttributes},
    {K::kEqual, "equal", C::kComparison, 2, 2, 1, kNoAttributes},
    {K::kNotEqual, "not_equal", C::kComparison, 2, 2, 1, kNoAttributes},
    {K::kLogicalAnd, "logical_and", C::kLogic, 2, 2, 1, kNoAttributes},
    {K::kLogicalOr, "logical_or", C::kLogic, 2, 2, 1, kNoAttributes},
    {K::kSelect, "select", C::kSelection, 3, 3, 1, kNoAttributes},
    {K::kFill, "fill", C::kGenerator, 1, 1, 1, kNoAttributes},
    {K::kCoordinate, "coordinate", C::kGenerator, 0, 0, 1, kUsesDims},
    {K::kReduceSum, "reduce_sum", C::kReduction, 1, 1, 1, kUsesDims | kUsesPieces},
    {K::kReduceMax, "reduce_max", C::kReduction, 1, 1, 1, kUsesDims},
    {K::kReduceMin, "reduce_min", C::kReduction, 1, 1, 1, kUsesDims},
    {K::kReduceProduct, "reduce_product", C::kReduction, 1, 1, 1, kUsesDims},
    {K::kArgMax, "arg_max", C::kArgReduction, 1, 1, 1, kUsesDims},
    {K::kArgMin, "arg_min", C::kArgReduction, 1, 1, 1, kUsesDims},
    {K::kScanSum, "scan_sum", C::kScan, 1, 1, 1, kUsesDims},
    {K::kScanProduct, "scan_product", C::kScan, 1, 1, 1, kUsesDims},
    {K::kScanMax, "scan_max", C::kScan, 1, 1, 2, kUsesDims},
    {K::kScanMin, "scan_min", C::kScan, 1, 1, 2, kUsesDims},
    {K::kSortAscending, "sort_ascending", C::kSort, 1, 1, 2, kUsesDims},
    {K::kSortDescending, "sort_descending", C::kSort, 1, 1, 2, kUsesDims},
    {K::kGatherRows, "gather_rows", C::kIndexed, 2, 2, 1, kNoAttributes},
    {K::kScatterAddRows, "scatter_add_rows", C::kIndexed, 2, 2, 1, kUsesIndex},
    {K::kConcat, "concat", C::kIndexed, 1, kMostPieces, 1, kUsesDims | kUsesIndex},
    {K::kUpdate, "update", C::kIndexed, 2, 2, 1, kUsesRegion},
    {K::kTake, "take", C::kIndexed, 2, 2, 1, kNoAttributes},
    {K::kPutSet, "put_set", C::kIndexed, 3, 3, 1, kNoAttributes},
    {K::kPutAdd, "put_add", C::kIndexed, 3, 3, 1, kNoAttributes},
    {K::kPutMultiply, "put_multiply", C::kIndexed, 3, 3, 1, kNoAttributes},
    {K::kPutMax, "put_max", C::kIndexed, 3, 3, 1, kNoAttributes},
    {K::kPutMin, "put_min", C::kIndexed, 3, 3, 1, kNoAttributes},
    {K::kMatMul, "matmul", C::kContraction, 2, 2, 1, kUsesAlpha | kUsesPieces},
    {K::kConv2d, "conv2d", C::kContraction, 2, 2, 1, kConvolution},
    {K::kConv2dBackwardInput, "conv2d_backward_input", C::kContraction, 2, 2, 1, kConvolution},
    {K::kConv2dBackwardWeight, "conv2d_backward_weight", C::kContraction, 2, 2, 1, kConvolution},
    {K::kMaxPool2d, "max_pool2d", C::kPooling, 1, 1, 2, kUsesWindow | kUsesConvolution},
    {K::kMaxPool2dBackward, "max_pool2d_backward", C::kPooling, 2, 2, 1, kNoAttributes},
    {K::kCholesky, "cholesky", C::kFactorization, 1, 1, 1, kNoAttributes},
    {K::kTriangularSolve, "triangular_solve", C::kFactorization, 2, 2, 1, kUsesIndex},
    {K::kLu, "lu", C::kFactorization, 1, 1, 2, kNoAttributes},
    {K::kPivotsToPermutation, "pivots_to_permutation", C::kFactorization, 1, 1, 1, kNoAttributes},
    {K::kHouseholderQr, "householder_qr", C::kFactorization, 1, 1, 2, kNoAttributes},
    {K::kHouseholderProduct, "householder_product", C::kFactorization, 2, 2, 1, kNoAttributes},
    {K::kEigenSymmetric, "eigen_symmetric", C::kFactorization, 1, 1, 2, kNoAttributes},
    {K::kSingularValues, "singular_values", C::kFactorization, 1, 1, 3, kNoAttributes},
}};

constexpr bool rows_in_order() {
  for (int i = 0; i < kOpKindCount; ++i) {
    if (static_cast<int>(kTable[static_cast<std::size_t>(i)].kind) != i) return false;
  }
  return true;
}
static_assert(rows_in_order());

constexpr OpInfo kOpaqueRow = {K::kOpaque, "opaque", C::kOpaque, 0, -1, -1, kUsesIndex};
constexpr OpInfo kCompositeRow = {K::kComposite, "composite", C::kComposite, 0, -1, -1, kUsesIndex};

}  // namespace

const OpInfo& info(OpKind kind) {
  if (kind == K::kComposite) return kCompositeRow;
  return kind == K::kOpaque ? kOpaqueRow : kTable[static_cast<std::size_t>(kind)];
}

bool is_known(OpKind kind) { return kind <= K::kComposite; }

std::string_view name(OpKind kind) { return is_known(kind) ? info(kind).name : "unknown"; }

bool is_elementwise(OpKind kind) { return kind <= OpKind::kCoordinate; }

bool is_put(OpKind kind) { return kind >= OpKind::kPutSet && kind <= OpKind::kPutMin; }

bool is_reduction(OpKind kind) { return kind >= OpKind::kReduceSum && kind <= OpKind::kReduceProduct; }

}  // namespace crucible::graph
