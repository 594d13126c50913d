// Views whose offset differs between iterations: read, written, and what is refused about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontends/aten/lower.hpp"
#include "frontends/aten/trace_builder.hpp"

namespace crucible::aten {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using B = TraceBuilder;
using Floats = std::vector<float>;

constexpr const char* kSelect = "aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)";

/// The first state after all iterations.
Floats final_state(TraceBuilder& b) {
  const auto program = lower(b.trace());
  EXPECT_TRUE(program) << program.error().message;
  if (!program) return {};
  EXPECT_EQ(program->slots.size(), 1u);
  auto replay = graph::replay_reference(*program, *b.trace().blob_store, program->iterations);
  EXPECT_TRUE(replay) << replay.error().message;
  return replay && !replay->states.empty() ? floats(replay->states[0]) : Floats{};
}

TEST(MovingViews, AreReadWhereEachIterationHasThem) {
  TraceBuilder b;
  const auto sum = b.fresh({2});
  const auto table = b.fresh({3, 2});
  b.external(b.storage_of(sum), {0, 0}, trace::Role::kParameter, "sum");
  b.external(b.storage_of(table), {1, 2, 10, 20, 100, 200}, trace::Role::kParameter, "table");
  for (int i = 0; i < 3; ++i) {
    const std::int64_t row = 2 - i;
    const auto part = b.view(b.storage_of(table), {2}, {1}, 2 * row);
    b.op(kSelect, {B::tensor(table), B::integer(0), B::integer(row)}, {B::tensor(part)});
    b.op(kAddInPlace, {B::tensor(sum), B::tensor(part), B::integer(i + 1)}, {B::tensor(sum)});
    b.end_iteration();
  }
  const auto program = lower(b.trace());
  ASSERT_TRUE(program) << program.error().message;
  auto replay = graph::replay_reference(*program, *b.trace().blob_store, 3);
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_THAT(floats(replay->states[0]), ElementsAre(100 + 2 * 10 + 3 * 1, 200 + 2 * 20 + 3 * 2));
}

TEST(MovingViews, AreWrittenWhereEachIterationHasThem) {
  TraceBuilder b;
  const auto table = b.fresh({2, 2});
  const auto x = b.fresh({2});
  b.external(b.storage_of(table), {1, 2, 3, 4}, trace::Role::kBuffer, "table");
  b.external(b.storage_of(x), {7, 8}, trace::Role::kParameter, "x");
  for (int i = 0; i < 2; ++i) {
    const auto column = b.view(b.storage_of(table), {2}, {2}, i);
    b.op(kSelect, {B::tensor(table), B::integer(1), B::integer(i)}, {B::tensor(column)});
    b.op(kAddInPlace, {B::tensor(column), B::tensor(x), B::integer(1)}, {B::tensor(column)});
    b.end_iteration();
  }
  EXPECT_THAT(final_state(b), ElementsAre(8, 9, 11, 12));
}

TEST(MovingViews, OneViewThatBecomesTwoIsRefused) {
  TraceBuilder b;
  const auto table = b.fresh({2, 2});
  b.external(b.storage_of(table), {1, 2, 3, 4}, trace::Role::kParameter);
  for (int i = 0; i < 2; ++i) {
    const auto fixed = b.view(b.storage_of(table), {2}, {1}, 0);
    const auto moving = i == 0 ? fixed : b.view(b.storage_of(table), {2}, {1}, 2);
    b.op(kAdd, {B::tensor(fixed), B::tensor(moving), B::integer(1)}, {B::tensor(b.fresh({2}))});
    b.end_iteration();
  }
  const auto program = lower(b.trace());
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(program.error().message, HasSubstr("one view of the first iteration stands for two of the other"));
}

TEST(MovingViews, AViewThatLeavesItsStorageIsRefused) {
  TraceBuilder b;
  const auto table = b.fresh({2, 2});
  const auto sum = b.fresh({2});
  b.external(b.storage_of(table), {1, 2, 3, 4}, trace::Role::kParameter, "table");
  b.external(b.storage_of(sum), {0, 0}, trace::Role::kParameter, "sum");
  for (int i = 0; i < 2; ++i) {
    const auto part = b.view(b.storage_of(table), {2}, {1}, 3 * i);
    b.op(kAddInPlace, {B::tensor(sum), B::tensor(part), B::integer(1)}, {B::tensor(sum)});
    b.end_iteration();
  }
  const auto program = lower(b.trace());
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message,
              HasSubstr("a view that starts at element 3 in another iteration does not fit its storage of 4"));
}

}  // namespace
}  // namespace crucible::aten
