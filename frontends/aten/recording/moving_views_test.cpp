// Views whose offset differs between iterations: read, written, and what is refused about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "frontends/aten/lower.hpp"
#include "frontends/aten/testing/trace_builder.hpp"

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

TEST(MovingViews, OneViewThatBecomesTwoIsReadAsTwo) {
  TraceBuilder b;
  const auto table = b.fresh({2, 2});
  b.external(b.storage_of(table), {1, 2, 3, 4}, trace::Role::kParameter);
  const std::vector<Floats> sums = {{2, 4}, {4, 6}, {6, 8}};
  for (int i = 0; i < 3; ++i) {
    const auto one = b.view(b.storage_of(table), {2}, {1}, i == 2 ? 2 : 0);
    const auto other = b.view(b.storage_of(table), {2}, {1}, i == 0 ? 0 : 2);
    const auto sum = b.fresh({2});
    b.op(kAdd, {B::tensor(one), B::tensor(other), B::integer(1)}, {B::tensor(sum)});
    b.output(sum, sums[static_cast<std::size_t>(i)], "sum");
    b.end_iteration();
  }
  const auto variants = lower_variants(b.trace());
  ASSERT_TRUE(variants) << variants.error().message;
  ASSERT_EQ(variants->programs.size(), 1u);
  const auto replay = graph::replay_reference(*variants, *b.trace().blob_store, 3);
  ASSERT_TRUE(replay) << replay.error().message;
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(floats(*replay->tensors[i][0]), sums[i]) << "iteration " << i;
}

TEST(MovingViews, OneWrittenViewThatBecomesTwoIsAnotherVariant) {
  TraceBuilder b;
  const auto table = b.fresh({2, 2});
  b.external(b.storage_of(table), {1, 2, 3, 4}, trace::Role::kParameter);
  for (int i = 0; i < 2; ++i) {
    const auto fixed = b.view(b.storage_of(table), {2}, {1}, 0);
    const auto moving = i == 0 ? fixed : b.view(b.storage_of(table), {2}, {1}, 2);
    b.op(kMulInPlace, {B::tensor(table), B::number(2)}, {B::tensor(table)});
    b.op(kAdd, {B::tensor(fixed), B::tensor(moving), B::integer(1)}, {B::tensor(b.fresh({2}))});
    b.end_iteration();
  }
  const auto variants = lower_variants(b.trace());
  ASSERT_TRUE(variants) << variants.error().message;
  ASSERT_EQ(variants->programs.size(), 2u);
  EXPECT_THAT(variants->differences[1], HasSubstr("one view of the first iteration stands for two of the other"));
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

/// Found by the structured fuzzer: a schema of a file's own leaves the dimension out.
TEST(MovingViews, PartsOfNoDimensionAreRefused) {
  const std::pair<const char*, std::size_t> calls[] = {
      {"aten::select_copy.int(Tensor self, SymInt index) -> Tensor", 1},
      {"aten::slice_copy.Tensor(Tensor self, SymInt? step) -> Tensor", 1},
      {"aten::diagonal_copy(Tensor self, int offset) -> Tensor", 1},
      {"aten::unfold_copy(Tensor self, int size, int step) -> Tensor", 2}};
  for (const auto& [schema, numbers] : calls) {
    for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{}, std::vector<std::int64_t>{3}}) {
      TraceBuilder b;
      const auto x = b.fresh(sizes), y = b.fresh({});
      b.external(b.storage_of(x), sizes.empty() ? Floats{1} : Floats{1, 2, 3}, trace::Role::kParameter, "x");
      std::vector<trace::Arg> arguments = {B::tensor(x)};
      for (std::size_t i = 0; i < numbers; ++i) arguments.push_back(B::integer(1));
      b.op(schema, arguments, {B::tensor(y)});
      b.output(y, {1}, "Part.0");
      b.end_iteration();
      const auto program = lower(b.trace());
      ASSERT_FALSE(program) << schema;
      EXPECT_THAT(program.error().message, testing::AnyOf(HasSubstr("argument dim"), HasSubstr("has 0 dimensions"),
                                                          HasSubstr("has 1 dimensions")))
          << schema;
    }
  }
}

}  // namespace
}  // namespace crucible::aten
