// The shrinker, on passes that are broken on purpose.
#include "core/graph/testing/shrink.hpp"

#include <gtest/gtest.h>

#include <array>

#include "core/graph/testing/pass_check.hpp"
#include "core/graph/testing/wild_program.hpp"

namespace crucible::graph {
namespace {

/// Every kind `from` becomes `to`, whose rules are the same.
template <OpKind kFrom, OpKind kTo>
Result<void> confuse(Program& program, const PassContext&) {
  for (Op& op : program.ops) {
    if (op.kind == kFrom) op.kind = kTo;
  }
  return {};
}

/// Removes what only a state depends on.
Result<void> forget_states(Program& program, const PassContext&) {
  for (State& state : program.states) state.end = state.start;
  eliminate_dead(program);
  return {};
}

/// The smallest program on which `pass` is caught, from the first seeds on which it is.
std::vector<RandomProgram> smallest(const Pass& pass, int count) {
  const std::array passes = {pass};
  const auto fails = [&](const RandomProgram& r) {
    const auto failure = check_passes(r, passes);
    return failure && failure->pass == pass.name;
  };
  std::vector<RandomProgram> found;
  for (std::uint64_t seed = 0; seed < 2000 && static_cast<int>(found.size()) < count; ++seed) {
    const RandomProgram random = wild_program({.seed = seed});
    if (fails(random)) found.push_back(shrink(random, fails));
  }
  EXPECT_EQ(static_cast<int>(found.size()), count) << "too few programs show that " << pass.name << " is broken";
  for (const RandomProgram& r : found) EXPECT_TRUE(fails(r));
  return found;
}

TEST(Shrink, LeavesTheBrokenOpAlone) {
  for (const RandomProgram& r : smallest({"swaps", "", &confuse<OpKind::kMaximum, OpKind::kMinimum>}, 3)) {
    ASSERT_EQ(r.program.ops.size(), 1u) << with_data(r);
    const Op& op = r.program.ops[0];
    EXPECT_EQ(op.kind, OpKind::kMaximum);
    EXPECT_EQ(op.outputs[0].view.elements(), 1) << with_data(r);
    EXPECT_EQ(r.program.outputs.size() + r.program.states.size(), 1u) << with_data(r);
    EXPECT_LE(r.program.values.size(), 3u) << with_data(r);
  }
}

TEST(Shrink, KeepsWhatTheFailureNeeds) {
  for (const RandomProgram& r : smallest({"forgets", "", &forget_states}, 5)) {
    EXPECT_EQ(r.program.ops.size(), 1u) << with_data(r);
    ASSERT_EQ(r.program.states.size(), 1u) << with_data(r);
    EXPECT_NE(r.program.states[0].end, r.program.states[0].start);
    EXPECT_TRUE(r.program.outputs.empty()) << with_data(r);
  }
}

TEST(Shrink, SaysWhatValuesHold) {
  const std::string text = with_data(smallest({"swaps", "", &confuse<OpKind::kMaximum, OpKind::kMinimum>}, 1).at(0));
  EXPECT_NE(text.find("= maximum("), std::string::npos) << text;
  EXPECT_NE(text.find(" holds "), std::string::npos) << text;
}

}  // namespace
}  // namespace crucible::graph
