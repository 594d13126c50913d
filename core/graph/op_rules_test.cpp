// The table of what must hold of each op: it is complete, docs/op-rules.md shows it, and random programs of one op break each of its
// conditions and keep each. What it lets pass runs on the interpreter without leaving a buffer.
#include "core/graph/op_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>

#include "core/graph/queries.hpp"
#include "core/graph/reference.hpp"
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
           {"[s...]", ""}, {"s -> [s...]", ""}, {"[s..., t...] -> [n]", ""}, {"[n] -> [n]", "m < 2"}, {"[n] -> [n]", "n ? 2"}, {"[n] -> [n]", "n < "},
           {"[n] -> [n]", "n < 2 3"}, {"[n] -> [n]", "n < (2"}, {"[n] -> [n]", "n < 3^2"}, {"[n] -> [n]", "all(m) < 3"}, {"[n] -> [n]", "all m < 3"},
           {"[a, b, c, d, e, f, g, h, i, j, k, l, m] -> [a]", ""}}) {
    EXPECT_THROW(read_rule(OpRule{OpClass::kConversion, {}, shapes, "any -> any", "", {where}}), std::logic_error) << shapes << "; " << where;
  }
  EXPECT_THROW(read_rule(OpRule{OpClass::kConversion, {}, "[s...] -> [s...]", "any", "", {}}), std::logic_error);
  EXPECT_THROW(read_rule(OpRule{OpClass::kConversion, {}, "[s...] -> [s...]", "any -> any", "two of s", {}}), std::logic_error);
  EXPECT_THROW(read_rule(OpRule{OpClass::kConversion, {}, "[s...] -> [s...]", "any -> any", "one of t", {}}), std::logic_error);
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
  EXPECT_EQ(text.substr(from, end - from), op_rule_table()) << "write it: CRUCIBLE_WRITE_DOCS=1 graph_test --gtest_filter=OpRules.*";
}

/// Programs of one op whose extents, dtypes and attributes come from few numbers, so that what must be equal often is.
class OneOp {
 public:
  /// `line`: the kind's, read; it outlives this.
  OneOp(OpKind kind, const ReadRule& line, std::uint64_t seed) : random_(seed), line_(line) {
    const OpInfo& row = info(kind);
    op_.kind = kind;
    for (auto& extent : extents_) extent = any();
    for (auto& run : runs_) {
      for (std::uint64_t d = random_() % 3; d > 0; --d) run.push_back(any());
    }
    attributes(row.attributes);
    if (random_() % 2 == 0) solve();
    const std::uint64_t inputs = static_cast<std::uint64_t>(row.min_inputs) + (row.max_inputs > row.min_inputs ? random_() % 2 : 0);
    for (std::size_t i = 0; i < inputs; ++i) operand(i);
    for (std::size_t i = 0; i < line_.results.size(); ++i) {
      const auto made = static_cast<ValueId>(program_.values.size());
      const Sizes sizes = sizes_of(line_.results[i]);
      program_.values.push_back({ValueKind::kTemporary, dtype_of(line_.result_dtypes[i]), checked_elements(sizes).value_or(0), "", 0});
      op_.outputs.push_back({made, View::contiguous(sizes), {}});
    }
    program_.iterations = 1;
    program_.ops = {op_};
  }

  const Program& program() const { return program_; }

 private:
  std::int64_t any() {
    constexpr std::int64_t kNumbers[] = {1, 1, 2, 2, 2, 3, 4, 6, 0};
    constexpr std::int64_t kEnds[] = {(std::int64_t{1} << 31) - 1, std::int64_t{1} << 31, std::int64_t{1} << 45, -1, std::int64_t{1} << 14};
    return random_() % 60 == 0 ? kEnds[random_() % std::size(kEnds)] : kNumbers[random_() % std::size(kNumbers)];
  }

  std::int64_t& extent(std::string_view name) {
    const auto at = std::find(line_.names.begin(), line_.names.end(), name);
    return at == line_.names.end() ? unused_ : extents_[static_cast<std::size_t>(at - line_.names.begin())];
  }

  void attributes(std::uint8_t uses) {
    Attributes& a = op_.attributes;
    for (std::size_t d = 0; d < 2; ++d) {
      if (uses & kUsesConvolution) a.stride[d] = std::max<std::int64_t>(random_() % 30 == 0 ? 0 : 1, any()), a.dilation[d] = any(), a.padding[d] = random_() % 3 == 0 ? any() : 0;
      if (uses & kUsesWindow) a.kernel[d] = any();
    }
    if (uses & kUsesGroups) a.groups = random_() % 2 == 0 ? 1 : any();
    if (uses & kUsesIndex) a.index = random_() % 3 == 0 ? -1 : static_cast<std::int64_t>(random_() % 8) - 2;
    if (uses & kUsesAlpha) a.alpha = random_() % 20 == 0 ? std::numeric_limits<double>::infinity() : 0.5;
    if (!(uses & kUsesDims)) return;
    const auto rank = static_cast<std::int64_t>(runs_[*line_.dims_of].size());
    for (std::int64_t d = 0; d < rank; ++d) {
      if (random_() % 2 == 0) a.dims.push_back(d);
    }
    if (random_() % 10 == 0) a.dims.push_back(any());
  }

  /// Extents that the rules compute from others, so that not all are wrong.
  void solve() {
    extent("c") = extent("g") * op_.attributes.groups % (1 << 20);
    if (op_.attributes.groups > 0 && op_.attributes.groups < 8) extent("o") = op_.attributes.groups * (1 + static_cast<std::int64_t>(random_() % 2));
    const bool is_pool = op_.kind == OpKind::kMaxPool2d;
    constexpr const char *kX[] = {"x0", "x1"}, *kK[] = {"k0", "k1"}, *kY[] = {"y0", "y1"};
    for (std::size_t d = 0; d < 2; ++d) {
      const Attributes& a = op_.attributes;
      if (a.stride[d] < 1) continue;
      const Wide window = is_pool ? a.kernel[d] : extent(kK[d]);
      const Wide span = Wide{extent(kX[d])} + 2 * Wide{a.padding[d]} - a.dilation[d] * (window - 1) - 1;
      const Wide count = span < 0 ? 0 : span / a.stride[d] + 1 + (is_pool && random_() % 4 == 0 ? 1 : 0);
      if (count < (1 << 20)) extent(kY[d]) = static_cast<std::int64_t>(count);
    }
    const OpKind kind = op_.kind;
    if (kind == OpKind::kLu || kind == OpKind::kHouseholderQr) extent("k") = std::min(extent("m"), extent("n"));
  }

  Sizes sizes_of(const ShapePattern& pattern) {
    if (!pattern.is_tensor) return runs_[0];
    Sizes sizes;
    for (const NameId name : pattern.before) sizes.push_back(extents_[name]);
    if (pattern.run) {
      for (std::size_t d = 0; d < runs_[*pattern.run].size(); ++d) {
        const auto& dims = op_.attributes.dims;
        const bool is_one = pattern.is_kept && std::find(dims.begin(), dims.end(), static_cast<std::int64_t>(d)) != dims.end();
        sizes.push_back(is_one ? 1 : runs_[*pattern.run][d]);
      }
    }
    for (const NameId name : pattern.after) sizes.push_back(extents_[name]);
    if (!sizes.empty() && random_() % 25 == 0) sizes[random_() % sizes.size()] = any();
    if (random_() % 60 == 0) sizes.push_back(1);
    return sizes;
  }

  DType dtype_of(const DTypePattern& pattern) {
    if (pattern.is_same && same_ && random_() % 30 != 0) return pattern.may_be_wider && random_() % 3 == 0 ? DType::kF32 : *same_;
    DType dtype = DType::kF32;
    for (int tries = 0; tries < 20; ++tries) {
      dtype = static_cast<DType>(random_() % 10);
      if (pattern.classes.empty() || random_() % 100 == 0 || is_of(dtype, pattern.classes)) break;
    }
    if (pattern.is_same && !same_) same_ = dtype;
    return dtype;
  }

  void operand(std::size_t i) {
    const ShapePattern& pattern = line_.operands[std::min(i, line_.operands.size() - 1)];
    const DType dtype = dtype_of(line_.operand_dtypes[std::min(i, line_.operand_dtypes.size() - 1)]);
    const bool is_number = pattern.is_number && (!pattern.is_tensor || random_() % 4 == 0);
    if (random_() % 40 == 0 ? !is_number : is_number) {
      op_.inputs.push_back({kNone, {}, {kNone, true, 0, 2}});
      return;
    }
    const Sizes sizes = sizes_of(pattern);
    const auto value = static_cast<ValueId>(program_.values.size());
    const std::int64_t elements = checked_elements(sizes).value_or(0);
    const bool is_shown = elements > 1000;  // one element, shown as often as the sizes say
    program_.values.push_back({ValueKind::kInput, dtype, is_shown ? 1 : elements, "x", kNone});
    program_.inputs.push_back({value, {0}, false});
    op_.inputs.push_back({value, is_shown ? View{0, sizes, Sizes(sizes.size(), 0)} : View::contiguous(sizes), {}});
    if (op_.kind == OpKind::kUpdate && i == 1) op_.attributes.region = View::contiguous(sizes);
  }

  std::mt19937_64 random_;
  const ReadRule& line_;
  Op op_;
  Program program_;
  std::array<std::int64_t, kMostNames> extents_ = {};
  std::array<Sizes, kMostNames> runs_;
  std::int64_t unused_ = 0;
  std::optional<DType> same_;
};

/// Runs it on zeros: ids, pivots and indices of zero are in range.
void run(const Program& program, OpKind kind) {
  std::vector<std::vector<std::byte>> values(program.values.size());
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (program.values[v].elements > 4096) return;
    if (program.values[v].kind == ValueKind::kInput) values[v].resize(static_cast<std::size_t>(program.values[v].elements) * size_bytes(program.values[v].dtype));
  }
  for (const Operand& operand : program.ops[0].inputs) {
    if (!operand.is_scalar() && operand.view.elements() > 4096) return;
  }
  if (flops(program.ops[0]) > 1'000'000) return;
  auto result = run_iteration(program, values, {});
  EXPECT_TRUE(result || result.error().code == ErrorCode::kBadInput) << name(kind) << ": " << result.error().message;
}

TEST(OpRules, RandomOpsBreakEachConditionAndKeepEach) {
  for (int k = 0; k < kOpKindCount; ++k) {
    const auto kind = static_cast<OpKind>(k);
    const ReadRule line = read_rule(op_rules()[rule_of(kind)]);
    std::map<std::string, std::size_t> broken;
    std::size_t kept = 0;
    const std::uint64_t seeds = line.conditions.size() > 3 ? 30000 : 4000;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      const Program program = OneOp(kind, line, seed * 131 + static_cast<std::uint64_t>(k)).program();
      const Result<void> verified = verify(program);
      if (verified) {
        ++kept;
        if (kept < 200) run(program, kind);
        continue;
      }
      const std::string& message = verified.error().message;
      const auto condition = std::find_if(line.conditions.begin(), line.conditions.end(),
                                          [&](const Condition& c) { return message.find(c.text + " must hold") != std::string::npos; });
      const bool is_condition = condition != line.conditions.end();
      ++broken[is_condition ? condition->text : message.find("has sizes") != std::string::npos ? "sizes" : message.find(", needs ") != std::string::npos ? "dtypes" : "other"];
    }
    EXPECT_GT(kept, 20u) << name(kind);
    for (const Condition& condition : line.conditions) {
      // So much work needs large tensors: WorkThatNoProgramDidIsRefused.
      if (condition.text.ends_with("2^50")) continue;
      EXPECT_GT(broken[condition.text], 0u) << name(kind) << ": " << condition.text;
    }
    EXPECT_GT(broken["sizes"] + broken["dtypes"] + broken["other"], 0u) << name(kind);
  }
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
  EXPECT_THAT(size.error().message, HasSubstr("y1 = max(0, (x1 + 2 * padding1 - dilation1 * (k1 - 1) - 1) / stride1 + 1) must hold, where y1 is 4, x1 is 5, padding1 is 0"));
}

TEST(OpRules, WorkThatNoProgramDidIsRefused) {
  const std::int64_t much = std::int64_t{1} << 24;
  const Result<void> shown = verify(convolution({1, much, 4096, 4096}, {1, much, 1, 1}, {1, 1, 4096, 4096}, {}));
  ASSERT_FALSE(shown);
  EXPECT_THAT(shown.error().message, HasSubstr("operand 0: shows 281474976710656 elements of the 1 of %0; with the tensors of this program, 274877906944 are the limit"));
  const Result<void> work = verify(convolution({1, 1 << 22, 512, 512}, {1 << 14, 1 << 22, 1, 1}, {1, 1 << 14, 512, 512}, {}));
  ASSERT_FALSE(work);
  EXPECT_THAT(work.error().message, HasSubstr("b * o * y0 * y1 * g * k0 * k1 <= 2^50 must hold"));
  // A sum of 2^27 elements, all of them one element; what a program has a tensor of may be shown.
  for (const std::int64_t real : {std::int64_t{1}, std::int64_t{1} << 13}) {
    Program p;
    p.iterations = 1;
    p.values = {{ValueKind::kInput, DType::kF32, real, "x", kNone}, {ValueKind::kTemporary, DType::kF32, 1, "", 0}};
    p.inputs = {{0, {0}, false}};
    Op sum{.kind = OpKind::kReduceSum, .inputs = {{0, View{0, {std::int64_t{1} << 27}, {0}}, {}}}, .outputs = {{1, View{0, {1}, {0}}, {}}}, .attributes = {}, .source = kNone};
    sum.attributes.dims = {0};
    p.ops = {sum};
    EXPECT_EQ(static_cast<bool>(verify(p)), real > 1);
  }
}

}  // namespace
}  // namespace crucible::graph
