// Lowering for a program that runs on in the process that was recorded: what agreed in all recorded iterations is not
// taken for what will be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontends/aten/lower.hpp"
#include "frontends/aten/testing/lowered_trace.hpp"

namespace crucible::aten {
namespace {

using B = TraceBuilder;

TEST(Live, NumbersOfOptimizersAreFree) {
  TraceBuilder b;
  const auto w = b.fresh({2}), factor = b.fresh({1});
  for (int i = 0; i < 2; ++i) {
    if (i == 0) {
      b.external(b.storage_of(w), {0, 0}, trace::Role::kParameter, "w");
      b.external(b.storage_of(factor), {3}, trace::Role::kBuffer, "factor");
    }
    b.op(kAddInPlace, {B::tensor(w), B::tensor(factor), B::number(0.25)}, {B::tensor(w)});
    b.op(kAddInPlace, {B::tensor(w), B::tensor(factor), B::number(0.5)}, {B::tensor(w)}, trace::Phase::kOptimizer);
    b.op(kAddInPlace, {B::tensor(w), B::tensor(factor), B::number(-1)}, {B::tensor(w)}, trace::Phase::kOptimizer);
    b.end_iteration();
  }
  const auto live = lower_live(b.trace());
  ASSERT_TRUE(live) << live.error().message;
  const graph::Program& program = *live->programs[0];
  ASSERT_EQ(program.slots.size(), 1u) << graph::to_text(program);
  EXPECT_EQ(program.slots[0].values, (std::vector<graph::Number>{0.5, 0.5}));
  const auto usual = lower(b.trace());
  ASSERT_TRUE(usual) << usual.error().message;
  EXPECT_TRUE(usual->slots.empty());
}

}  // namespace
}  // namespace crucible::aten
