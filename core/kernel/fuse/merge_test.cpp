// Correspondence of dimensions between nests.
#include "core/kernel/fuse/merge.hpp"

#include <gtest/gtest.h>

#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;

TEST(CommonDivision, CutsBothListsIntoTheSamePieces) {
  EXPECT_EQ(common_division({6, 4}, {3, 8}), (Sizes{3, 2, 4}));
  EXPECT_EQ(common_division({512, 256}, {4, 128, 256}), (Sizes{4, 128, 256}));
  EXPECT_EQ(common_division({131072}, {512, 256}), (Sizes{512, 256}));
  EXPECT_EQ(common_division({}, {}), Sizes{});
}

TEST(CommonDivision, RefusesSizesThatDoNotFit) {
  EXPECT_FALSE(common_division({6, 4}, {4, 6}));
  EXPECT_FALSE(common_division({6}, {7}));
  EXPECT_FALSE(common_division({0}, {0}));
}

Group nest(const TestProgram& t, graph::OpId op) { return *make_group(t.program, op, Numerics::kFast); }

TEST(MergeGroups, JoinsAPermutedReaderInTheProducersOrder) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {4, 6, 8});
  const Operand y = t.op(OpKind::kExp, {x}, {4, 6, 8});
  t.op(OpKind::kNegate, {permuted(y, {2, 0, 1})}, {8, 4, 6});
  const auto merged = merge_groups(nest(t, 0), nest(t, 1));
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->sizes, (Sizes{4, 6, 8}));
  EXPECT_EQ(merged->members[1].output.strides, (Sizes{6, 1, 24}));
}

TEST(MergeGroups, RefusesAReaderOfAnotherPlace) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {8, 8});
  const Operand y = t.op(OpKind::kExp, {x}, {8, 8});
  t.op(OpKind::kAdd, {y, permuted(y, {1, 0})}, {8, 8});
  EXPECT_FALSE(merge_groups(nest(t, 0), nest(t, 1)));
}

TEST(MergeGroups, RunsOpsOnRowSumsOverTheRows) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {10, 12});
  const Operand sum = t.reduce(OpKind::kReduceSum, x, {1});
  t.op(OpKind::kSqrt, {reshaped(sum, {10})}, {10});
  const auto merged = merge_groups(nest(t, 0), nest(t, 1));
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->rows(), 10);
  EXPECT_FALSE(merged->members[0].over_rows);
  EXPECT_TRUE(merged->members[1].over_rows);
}

TEST(MergeGroups, KeepsRowAndColumnSumsApart) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {10, 12});
  t.reduce(OpKind::kReduceSum, x, {1});
  t.reduce(OpKind::kReduceSum, x, {0});
  EXPECT_FALSE(merge_groups(nest(t, 0), nest(t, 1)));
}

TEST(MergeGroups, JoinsABroadcastReaderOfRowSums) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {10, 12}), other = t.input(DType::kF32, {120});
  const Operand sum = t.reduce(OpKind::kReduceSum, x, {1});
  t.op(OpKind::kMultiply, {expanded(sum, {10, 12}), reshaped(other, {10, 12})}, {10, 12});
  const auto merged = merge_groups(nest(t, 0), nest(t, 1));
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->reduced, (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace crucible::kernel
