// Lowering for a program that runs on in the process that was recorded: what agreed in all recorded iterations is not
// taken for what will be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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

TEST(Live, HowManyElementsAreFoundIsWatched) {
  TraceBuilder b;
  const auto x = b.fresh({4}), found = b.fresh({2, 1}, DType::kI64);
  for (int i = 0; i < 2; ++i) {
    if (i == 0) b.external(b.storage_of(x), {1, 0, 1, 0}, trace::Role::kParameter, "x");
    b.op(kAddInPlace, {B::tensor(x), B::tensor(x), B::number(1)}, {B::tensor(x)});
    b.op("aten::nonzero(Tensor self) -> Tensor", {B::tensor(x)}, {B::tensor(found)});
    b.end_iteration();
  }
  const auto is_bounds = [](const graph::Output& output) { return output.is_bounds(); };
  const auto live = lower_live(b.trace());
  ASSERT_TRUE(live) << live.error().message;
  const auto& outputs = live->programs[0]->outputs;
  const auto bounds = std::ranges::find_if(outputs, is_bounds);
  ASSERT_NE(bounds, outputs.end());
  EXPECT_EQ(bounds->bounds[0].low, 2);
  EXPECT_EQ(bounds->bounds[0].high, 2);
  const auto usual = lower(b.trace());
  ASSERT_TRUE(usual) << usual.error().message;
  EXPECT_TRUE(std::ranges::none_of(usual->outputs, is_bounds));
}

}  // namespace
}  // namespace crucible::aten
