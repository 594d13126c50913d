// Passes on small programs; random programs are in random_program_test.cpp.
#include "core/graph/passes.hpp"

#include <gtest/gtest.h>

namespace crucible::graph {
namespace {

Operand number(double real) {
  Operand o;
  o.scalar.real = real;
  return o;
}

/// Two fills of 1 with different layouts, their sum, a dead exp, a state w that becomes w + sum.
Program example() {
  Program p;
  p.iterations = 1;
  const View row = View::contiguous({2, 3}), column{0, {2, 3}, {1, 2}};
  const auto temporary = [&](OpId producer) { return Value{ValueKind::kTemporary, DType::kF32, 6, "", producer}; };
  p.values = {{ValueKind::kState, DType::kF32, 6, "w", kNone},
              temporary(0),
              temporary(1),
              temporary(2),
              temporary(3),
              temporary(4),
              {ValueKind::kInput, DType::kF32, 1, "unused", kNone}};
  p.states = {{0, 5, 0, 0}};
  p.inputs = {{6, {0}, false}};
  p.slots = {{"unused", {1}}};
  p.sources = {{"dead", "", "", Phase::kForward, 0}, {"live", "", "", Phase::kForward, 1}};
  p.ops = {{OpKind::kFill, {number(1)}, {{1, row, {}}}, {}, kNone},
           {OpKind::kFill, {number(1)}, {{2, column, {}}}, {}, kNone},
           {OpKind::kExp, {{0, row, {}}}, {{3, row, {}}}, {}, 0},
           {OpKind::kAdd, {{1, row, {}}, {2, column, {}}}, {{4, row, {}}}, {}, 1},
           {OpKind::kAdd, {{0, row, {}}, {4, row, {}}}, {{5, row, {}}}, {}, 1}};
  return p;
}

TEST(Passes, DeadCodeGoesAndNumbersStayInOrder) {
  Program p = example();
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  eliminate_dead(p);
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  EXPECT_EQ(p.ops.size(), 4u);
  EXPECT_EQ(p.values.size(), 5u);
  EXPECT_TRUE(p.inputs.empty());
  EXPECT_TRUE(p.slots.empty());
  ASSERT_EQ(p.sources.size(), 1u);
  EXPECT_EQ(p.sources[0].op, "live");
}

TEST(Passes, EqualFillsMergeWhateverTheirLayout) {
  Program p = example();
  merge_generators(p);
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  eliminate_dead(p);
  EXPECT_EQ(p.ops.size(), 3u) << to_text(p);
}

TEST(Passes, FillsOfOtherNumbersStayApart) {
  Program p = example();
  p.ops[1].inputs[0] = number(-0.0);
  p.ops[0].inputs[0] = number(0.0);
  merge_generators(p);
  eliminate_dead(p);
  EXPECT_EQ(p.ops.size(), 4u) << "0.0 and -0.0 are different numbers";
}

TEST(Passes, AFillThatEndsAStateStaysItsOwn) {
  Program p = example();
  p.states[0].end = 1;
  p.values.push_back({ValueKind::kState, DType::kF32, 6, "v", kNone});
  p.states.push_back({7, 2, 0, 0});
  merge_generators(p);
  eliminate_dead(p);
  ASSERT_TRUE(verify(p)) << verify(p).error().message;
  EXPECT_NE(p.states[0].end, p.states[1].end);
}

TEST(Passes, AllRunAndReport) {
  Program p = example();
  std::size_t seen = 0;
  auto result = run_passes(p, [&](const Pass& pass, const Program&, std::uint64_t) {
    EXPECT_FALSE(pass.name.empty());
    ++seen;
  });
  ASSERT_TRUE(result);
  EXPECT_EQ(seen, passes().size());
}

}  // namespace
}  // namespace crucible::graph
