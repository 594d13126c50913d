// The table of what must hold of each op: it is complete, and docs/op-rules.md shows it. Random ops are held against it
// in testing/one_op_test.cpp.
#include "core/graph/op_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "core/graph/rule_language.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

using testing::HasSubstr;

TEST(OpRules, EachKindHasOneAndItsOperandsFit) {
  for (int k = 0; k < kOpKindCount; ++k) {
    const auto kind = static_cast<OpKind>(k);
    const OpInfo& row = info(kind);
    std::size_t lines = 0;
    for (const OpRule& rule : op_rules()) {
      const bool is_named = std::find(rule.kinds.begin(), rule.kinds.end(), kind) != rule.kinds.end();
      lines += rule.op_class == row.op_class && (rule.kinds.size() == 0 || is_named) ? 1 : 0;
      EXPECT_TRUE(!is_named || rule.op_class == row.op_class) << name(kind);
    }
    ASSERT_EQ(lines, 1u) << name(kind);
    const ReadRule line = read_rule(op_rules()[rule_of(kind)]);
    const bool repeats = !line.operands.empty() && line.operands.back().repeats;
    if (repeats || line.operands.size() == 1) {
      EXPECT_LE(line.operands.size(), 1u) << name(kind);
      EXPECT_TRUE(repeats || row.max_inputs == 1) << name(kind);
    } else {
      EXPECT_EQ(static_cast<int>(line.operands.size()), row.max_inputs) << name(kind);
      EXPECT_EQ(row.min_inputs, row.max_inputs) << name(kind);
    }
    EXPECT_EQ(static_cast<int>(line.results.size()), row.outputs) << name(kind);
    EXPECT_EQ(line.results.size(), line.result_dtypes.size()) << name(kind);
    EXPECT_EQ(line.operands.size(), line.operand_dtypes.size()) << name(kind);
    EXPECT_EQ((row.attributes & kUsesDims) != 0, line.dims_of.has_value()) << name(kind);
  }
  EXPECT_EQ(rule_of(OpKind::kOpaque), op_rules().size());
}

TEST(OpRules, WhatIsNoNotationIsSaid) {
  for (const auto& [shapes, where] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"[s...]", ""},
           {"s -> [s...]", ""},
           {"[s..., t...] -> [n]", ""},
           {"[n] -> [n]", "m < 2"},
           {"[n] -> [n]", "n ? 2"},
           {"[n] -> [n]", "n < "},
           {"[n] -> [n]", "n < 2 3"},
           {"[n] -> [n]", "n < (2"},
           {"[n] -> [n]", "n < 3^2"},
           {"[n] -> [n]", "all(m) < 3"},
           {"[n] -> [n]", "all m < 3"},
           {"[a, b, c, d, e, f, g, h, i, j, k, l, m] -> [a]", ""}}) {
    EXPECT_THROW(read_rule(OpRule{OpClass::kConversion, {}, shapes, "any -> any", "", {where}}), std::logic_error)
        << shapes << "; " << where;
  }
  EXPECT_THROW(read_rule(OpRule{OpClass::kConversion, {}, "[s...] -> [s...]", "any", "", {}}), std::logic_error);
  EXPECT_THROW(read_rule(OpRule{OpClass::kConversion, {}, "[s...] -> [s...]", "any -> any", "two of s", {}}),
               std::logic_error);
  EXPECT_THROW(read_rule(OpRule{OpClass::kConversion, {}, "[s...] -> [s...]", "any -> any", "one of t", {}}),
               std::logic_error);
}

/// Whether `where` holds with n and m.
std::optional<bool> held(std::string_view where, std::int64_t n, std::int64_t m = 1) {
  const ReadRule rule = read_rule(OpRule{OpClass::kConversion, {}, "[n] -> [m]", "any -> any", "", {where}});
  const Attributes attributes;
  Bindings bindings{attributes};
  bindings.extents[0] = n;
  bindings.extents[1] = m;
  return holds(rule.conditions.at(0), bindings);
}

TEST(OpRules, ArithmeticIsThatOfWholeNumbersAndDoesNotWrap) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(held("n + 2 * m = 7", 1, 3), true);
  EXPECT_EQ(held("(n + 2) * m = 9", 1, 3), true);
  EXPECT_EQ(held("n - 2 - m = -4", 1, 3), true);
  EXPECT_EQ(held("n / m = -2", -3, 2), true);  // rounded down
  EXPECT_EQ(held("n % 4 = 3", 7), true);
  EXPECT_EQ(held("max(n, m) - min(n, m) = 4", 3, 7), true);
  EXPECT_EQ(held("n < 2^31", (std::int64_t{1} << 31) - 1), true);
  EXPECT_EQ(held("n < 2^31", std::int64_t{1} << 31), false);
  EXPECT_EQ(held("n * m > 2^62", kMost, kMost), true);
  EXPECT_EQ(held("n * m * n > 0", kMost, kMost), std::nullopt);
  EXPECT_EQ(held("n / m >= 0", 1, 0), std::nullopt);
  EXPECT_EQ(held("n % m >= 0", 1, -1), std::nullopt);
}

/// CRUCIBLE_WRITE_DOCS=1 writes the table instead.
TEST(OpRules, TheDocumentHasTheTable) {
  std::ifstream file(CRUCIBLE_OP_RULES_PAGE);
  std::stringstream stream;
  stream << file.rdbuf();
  std::string text = stream.str();
  constexpr std::string_view kBegin = "<!-- rules: core/graph/op_rules.cpp -->\n", kEnd = "<!-- end of rules -->\n";
  const std::size_t begin = text.find(kBegin), end = text.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t from = begin + kBegin.size();
  if (std::getenv("CRUCIBLE_WRITE_DOCS") != nullptr) {
    text.replace(from, end - from, op_rule_table());
    std::ofstream(CRUCIBLE_OP_RULES_PAGE) << text;
    return;
  }
  EXPECT_EQ(text.substr(from, end - from), op_rule_table())
      << "write it: CRUCIBLE_WRITE_DOCS=1 graph_test --gtest_filter=OpRules.*";
}

/// x and weight of a convolution, each of one element that is shown as often as its sizes say.
Program convolution(const Sizes& x, const Sizes& weight, const Sizes& y, const Attributes& attributes) {
  Program p;
  p.iterations = 1;
  Op op{.kind = OpKind::kConv2d, .inputs = {}, .outputs = {}, .attributes = attributes, .source = kNone};
  for (const Sizes& sizes : {x, weight}) {
    op.inputs.push_back({static_cast<ValueId>(p.values.size()), View{0, sizes, Sizes(sizes.size(), 0)}, {}});
    p.inputs.push_back({static_cast<ValueId>(p.values.size()), {0}, false});
    p.values.push_back({ValueKind::kInput, DType::kF32, 1, "x", kNone});
  }
  op.outputs = {{2, View::contiguous(y), {}}};
  p.values.push_back({ValueKind::kTemporary, DType::kF32, checked_elements(y).value_or(0), "", 0});
  p.ops = {op};
  return p;
}

TEST(OpRules, AMessageSaysWhatMustHoldAndWithWhichNumbers) {
  Attributes a;
  a.groups = 3;
  const Result<void> groups = verify(convolution({1, 4, 5, 5}, {6, 2, 3, 3}, {1, 6, 3, 3}, a));
  ASSERT_FALSE(groups);
  EXPECT_EQ(groups.error().message, "op 0 (conv2d): c = g * groups must hold, where c is 4, g is 2, groups is 3");
  const Result<void> size = verify(convolution({1, 6, 5, 5}, {6, 2, 3, 3}, {1, 6, 3, 4}, a));
  ASSERT_FALSE(size);
  EXPECT_THAT(size.error().message, HasSubstr("y1 = max(0, (x1 + 2 * padding1 - dilation1 * (k1 - 1) - 1) / stride1 + "
                                              "1) must hold, where y1 is 4, x1 is 5, padding1 is 0"));
}

TEST(OpRules, WorkThatNoProgramDidIsRefused) {
  const std::int64_t much = std::int64_t{1} << 24;
  const Result<void> shown = verify(convolution({1, much, 4096, 4096}, {1, much, 1, 1}, {1, 1, 4096, 4096}, {}));
  ASSERT_FALSE(shown);
  EXPECT_THAT(shown.error().message, HasSubstr("operand 0: shows 281474976710656 elements of the 1 of %0; with the "
                                               "tensors of this program, 274877906944 are the limit"));
  const Result<void> work =
      verify(convolution({1, 1 << 22, 512, 512}, {1 << 14, 1 << 22, 1, 1}, {1, 1 << 14, 512, 512}, {}));
  ASSERT_FALSE(work);
  EXPECT_THAT(work.error().message, HasSubstr("b * o * y0 * y1 * g * k0 * k1 <= 2^50 must hold"));
  // A sum of 2^27 elements, all of them one element; what a program has a tensor of may be shown.
  for (const std::int64_t real : {std::int64_t{1}, std::int64_t{1} << 13}) {
    Program p;
    p.iterations = 1;
    p.values = {{ValueKind::kInput, DType::kF32, real, "x", kNone}, {ValueKind::kTemporary, DType::kF32, 1, "", 0}};
    p.inputs = {{0, {0}, false}};
    Op sum{.kind = OpKind::kReduceSum,
           .inputs = {{0, View{0, {std::int64_t{1} << 27}, {0}}, {}}},
           .outputs = {{1, View{0, {1}, {0}}, {}}},
           .attributes = {},
           .source = kNone};
    sum.attributes.dims = {0};
    p.ops = {sum};
    EXPECT_EQ(static_cast<bool>(verify(p)), real > 1);
  }
}

}  // namespace
}  // namespace crucible::graph
