// The table of what must hold: see op_rules.hpp for its notation.
#include "core/graph/op_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace crucible::graph {
namespace {

using K = OpKind;
using C = OpClass;

// Products of two sides, or of a side and a step, fit where these are kept: kernels and their schedules rely on it.
constexpr std::string_view kSteps =
    "stride >= 1; dilation >= 1; padding >= 0; stride < 2^31; dilation < 2^31; padding < 2^31; x < 2^31";
constexpr std::string_view kFilters =
    "k < 2^31; groups >= 1; c = g * groups; o % groups = 0;"
    "y = max(0, (x + 2 * padding - dilation * (k - 1) - 1) / stride + 1); b * o * y0 * y1 * g * k0 * k1 <= 2^50";
constexpr std::string_view kWindows =
    "kernel >= 1; kernel < 2^31;"
    "y >= max(0, (x + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1);"
    "y <= max(0, (x + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1) + 1;"
    "2 * padding <= dilation * (kernel - 1) + 1: the padding is more than half a window;"
    "(y - 1) * stride < x + padding: the last window has no element;"
    "b * c * y0 * y1 * kernel0 * kernel1 <= 2^40: its windows have more elements than any program that ran looked at";

const OpRule kRules[] = {
    // Element-wise
    {C::kConversion, {}, "[s...]? -> [s...]", "any -> any", "", {}},
    {C::kArithmetic, {}, "[s...]?... -> [s...]", "any... -> number", "", {}},
    {C::kFloating, {}, "[s...]?... -> [s...]", "any... -> float", "", {}},
    {C::kInteger, {}, "[s...]?... -> [s...]", "any... -> integer", "", {}},
    {C::kTest, {}, "[s...] -> [s...]", "any -> bool", "", {}},
    {C::kComparison, {}, "[s...], [s...]? -> [s...]", "any, any -> bool", "", {}},
    {C::kLogic, {K::kLogicalNot}, "[s...] -> [s...]", "any -> bool", "", {}},
    {C::kLogic, {K::kLogicalAnd, K::kLogicalOr}, "[s...], [s...]? -> [s...]", "any, any -> bool", "", {}},
    {C::kSelection, {}, "[s...], [s...]?, [s...]? -> [s...]", "bool, any, any -> any", "", {}},
    {C::kGenerator, {K::kFill}, "number -> [s...]", "any -> any", "", {}},
    {C::kGenerator, {K::kCoordinate}, "-> [s...]", "-> any", "one of s", {}},
    // Along dimensions
    {C::kReduction, {K::kReduceSum, K::kReduceProduct}, "[s...] -> [s.../dims]", "any -> number", "any of s", {}},
    {C::kReduction,
     {K::kReduceMax, K::kReduceMin},
     "[s...] -> [s.../dims]",
     "T -> T",
     "any of s",
     {"along(s) > 0: an extremum of no elements is not defined"}},
    {C::kArgReduction,
     {},
     "[s...] -> [s.../dims]",
     "any -> i64",
     "one of s",
     {"along(s) > 0: the place of an extremum among no elements is not defined"}},
    {C::kScan, {K::kScanSum, K::kScanProduct}, "[s...] -> [s...]", "T=number -> T", "one of s", {}},
    {C::kScan, {K::kScanMax, K::kScanMin}, "[s...] -> [s...], [s...]", "T -> T, i64", "one of s", {}},
    {C::kSort, {}, "[s...] -> [s...], [s...]", "T -> T, i64", "one of s", {}},
    // Indexed
    {C::kIndexed,
     {K::kGatherRows},
     "[r, w], [i...] -> [i..., w]",
     "T, id -> T",
     "",
     {"min(all(i), 1) <= r: rows are taken from a table without rows"}},
    {C::kIndexed, {K::kScatterAddRows}, "[n, w], [n] -> [r, w]", "T=number, id -> T", "", {"index >= -1; index < r"}},
    {C::kIndexed, {K::kConcat}, "... -> [s...]", "... -> any", "one of s", {}, OpCheck::kPieces},
    {C::kIndexed, {K::kUpdate}, "[n], [i...] -> [n]", "T, T -> T", "", {}, OpCheck::kRegion},
    {C::kIndexed, {K::kTake}, "[n], [i...] -> [i...]", "T, id -> T", "", {}},
    {C::kIndexed, {K::kPutSet, K::kPutMax, K::kPutMin}, "[n], [i...], [i...] -> [n]", "T, id, T -> T", "", {}},
    {C::kIndexed, {K::kPutAdd, K::kPutMultiply}, "[n], [i...], [i...] -> [n]", "T=number, id, T -> T", "", {}},
    // Contractions
    {C::kContraction,
     {K::kMatMul},
     "[batch..., m, k], [batch..., k, n] -> [batch..., m, n]",
     "T=float, T -> T+",
     "",
     {"all(batch) * m * n * k <= 2^50"},
     OpCheck::kFiniteAlpha},
    {C::kContraction,
     {K::kConv2d},
     "[b, c, x0, x1], [o, g, k0, k1] -> [b, o, y0, y1]",
     "T=float, T -> T+",
     "",
     {kSteps, kFilters}},
    // Each phase of the strides is a product of its own.
    {C::kContraction,
     {K::kConv2dBackwardInput},
     "[b, o, y0, y1], [o, g, k0, k1] -> [b, c, x0, x1]",
     "T=float, T -> T+",
     "",
     {kSteps, kFilters, "stride0 * stride1 <= 2^14"}},
    {C::kContraction,
     {K::kConv2dBackwardWeight},
     "[b, o, y0, y1], [b, c, x0, x1] -> [o, g, k0, k1]",
     "T=float, T -> T+",
     "",
     {kSteps, kFilters}},
    // Pooling
    {C::kPooling,
     {K::kMaxPool2d},
     "[b, c, x0, x1] -> [b, c, y0, y1], [b, c, y0, y1]",
     "T=number -> T, i64",
     "",
     {kSteps, kWindows},
     OpCheck::kWindowsHaveElements},
    {C::kPooling,
     {K::kMaxPool2dBackward},
     "[b, c, y0, y1], [b, c, y0, y1] -> [b, c, x0, x1]",
     "T=number, i64 -> T",
     "",
     {}},
    // Factorizations
    {C::kFactorization, {K::kCholesky}, "[batch..., n, n] -> [batch..., n, n]", "T=f32|f64 -> T", "", {}},
    {C::kFactorization,
     {K::kTriangularSolve},
     "[batch..., n, n], [batch..., n, k] -> [batch..., n, k]",
     "T=f32|f64, T -> T",
     "",
     {"index >= 0; index <= 3"}},
    {C::kFactorization,
     {K::kLu},
     "[batch..., m, n] -> [batch..., m, n], [batch..., k]",
     "T=f32|f64 -> T, i64",
     "",
     {"k = min(m, n)"}},
    {C::kFactorization,
     {K::kPivotsToPermutation},
     "[batch..., k] -> [batch..., m]",
     "i64 -> i64",
     "",
     {"k <= m: there are more steps than rows"}},
    {C::kFactorization,
     {K::kHouseholderQr},
     "[batch..., m, n] -> [batch..., m, n], [batch..., k]",
     "T=f32|f64 -> T, T",
     "",
     {"k = min(m, n)"}},
    {C::kFactorization,
     {K::kHouseholderProduct},
     "[batch..., m, k], [batch..., k] -> [batch..., m, n]",
     "T=f32|f64, T -> T",
     "",
     {"k <= n; n <= m"}},
    {C::kFactorization,
     {K::kEigenSymmetric},
     "[batch..., n, n] -> [batch..., n], [batch..., n, n]",
     "T=f32|f64 -> T, T",
     "",
     {}},
    {C::kFactorization,
     {K::kSingularValues},
     "[batch..., m, n] -> [batch..., m, n], [batch..., n], [batch..., n, n]",
     "T=f32|f64 -> T, T, T",
     "",
     {"n <= m"}},
};

/// "copy"; of a class with many kinds the names of all of them.
std::string kinds_of(std::size_t rule) {
  std::string text;
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    if (rule_of(static_cast<OpKind>(kind)) != rule) continue;
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name(static_cast<OpKind>(kind)));
  }
  return text;
}

bool is_meant(const OpRule& rule, OpKind kind) {
  return info(kind).op_class == rule.op_class &&
         (rule.kinds.size() == 0 || std::find(rule.kinds.begin(), rule.kinds.end(), kind) != rule.kinds.end());
}

/// Markdown ends a cell at a bar.
std::string in_a_cell(std::string_view text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? std::string(" or ") : std::string(1, c);
  return cell;
}

}  // namespace

std::span<const OpRule> op_rules() { return kRules; }

std::size_t rule_of(OpKind kind) {
  static const std::array<std::size_t, kOpKindCount> places = [] {
    std::array<std::size_t, kOpKindCount> list = {};
    for (int k = 0; k < kOpKindCount; ++k) {
      const auto* meant = std::find_if(std::begin(kRules), std::end(kRules),
                                       [&](const OpRule& rule) { return is_meant(rule, static_cast<OpKind>(k)); });
      list[static_cast<std::size_t>(k)] = static_cast<std::size_t>(meant - kRules);
    }
    return list;
  }();
  return static_cast<int>(kind) < kOpKindCount ? places[static_cast<std::size_t>(kind)] : std::size(kRules);
}

std::string_view words(OpCheck check) {
  switch (check) {
    case OpCheck::kNone:
      return "";
    case OpCheck::kPieces:
      return "the pieces have the result's extents but along dims, where theirs add up to its; all of one dtype, and "
             "index is -1. A single piece of another dtype is "
             "one row whose bytes are read as the result's: their number fits, the result is not bool and in row-major "
             "order, and index 1 needs a piece of a floating-point dtype";
    case OpCheck::kRegion:
      return "base and result are read and written whole, in row-major order; attribute region lies inside, has the "
             "extents of operand 1, and names no element twice";
    case OpCheck::kFiniteAlpha:
      return "alpha is finite";
    case OpCheck::kWindowsHaveElements:
      return "each window has an element, and of those that begin in the padding, where taps lie further apart than "
             "the side is long, there are 2^16 at most";
  }
  return "";
}

std::string op_rule_table() {
  std::string text = "| ops | operands and results | dtypes | dims | what holds besides |\n|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::size(kRules); ++i) {
    const OpRule& rule = kRules[i];
    std::string where;
    for (const std::string_view list : rule.where) where += fmt::format("{}{}", where.empty() ? "" : "; ", list);
    std::string spaced;  // the table's lines have no space behind each ";"
    for (const char c : where)
      spaced += (!spaced.empty() && spaced.back() == ';' && c != ' ') ? std::string(" ") + c : std::string(1, c);
    if (rule.also != OpCheck::kNone) spaced += fmt::format("{}{}", spaced.empty() ? "" : "; ", words(rule.also));
    text += fmt::format("| {} | `{}` | {} | {} | {} |\n", kinds_of(i), rule.shapes, in_a_cell(rule.dtypes), rule.dims,
                        in_a_cell(spaced));
  }
  return text;
}

}  // namespace crucible::graph
