// Random ops break each condition of the table of op rules and keep each. What the verifier lets pass runs on the
// interpreter without leaving a buffer, and ops without elements end at once, however large the extents beside the one
// of 0.
#include "core/graph/testing/one_op.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/graph/op_rules.hpp"
#include "core/graph/queries.hpp"
#include "core/graph/reference.hpp"

namespace crucible::graph {
namespace {

/// Runs it on zeros: ids, pivots and indices of zero are in range.
void run(const Program& program, OpKind kind) {
  std::vector<std::vector<std::byte>> values(program.values.size());
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (program.values[v].elements > 4096) return;
    if (program.values[v].kind == ValueKind::kInput)
      values[v].resize(static_cast<std::size_t>(program.values[v].elements) * size_bytes(program.values[v].dtype));
  }
  for (const Operand& operand : program.ops[0].inputs) {
    if (!operand.is_scalar() && operand.view.elements() > 4096) return;
  }
  if (flops(program.ops[0]) > 1'000'000) return;
  auto result = run_iteration(program, values, {});
  EXPECT_TRUE(result || result.error().code == ErrorCode::kBadInput) << name(kind) << ": " << result.error().message;
}

TEST(OneOp, RandomOpsBreakEachConditionAndKeepEach) {
  for (int k = 0; k < kOpKindCount; ++k) {
    const auto kind = static_cast<OpKind>(k);
    const ReadRule line = read_rule(op_rules()[rule_of(kind)]);
    std::map<std::string, std::size_t> broken;
    std::size_t kept = 0;
    const std::uint64_t seeds = line.conditions.size() > 3 ? 30000 : 4000;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      const Program program = one_op(kind, line, seed * 131 + static_cast<std::uint64_t>(k));
      const Result<void> verified = verify(program);
      if (verified) {
        ++kept;
        if (kept < 200) run(program, kind);
        continue;
      }
      const std::string& message = verified.error().message;
      const auto condition = std::find_if(line.conditions.begin(), line.conditions.end(), [&](const Condition& c) {
        return message.find(c.text + " must hold") != std::string::npos;
      });
      const bool is_condition = condition != line.conditions.end();
      ++broken[is_condition                                     ? condition->text
               : message.find("has sizes") != std::string::npos ? "sizes"
               : message.find(", needs ") != std::string::npos  ? "dtypes"
                                                                : "other"];
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

}  // namespace
}  // namespace crucible::graph
