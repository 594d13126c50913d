// The pass merge_equal: what becomes one, and what must not.
#include <gtest/gtest.h>

#include "core/graph/passes.hpp"

namespace crucible::graph {
namespace {

/// y = exp(x), z = exp(x), sum = y + z over four elements; `view` is how z reads x.
Program two_exponentials(View view) {
  Program p;
  p.iterations = 1;
  const View row = View::contiguous({4});
  p.values = {{ValueKind::kInput, DType::kF32, 4, "", kNone}, {ValueKind::kTemporary, DType::kF32, 4, "", 0},
              {ValueKind::kTemporary, DType::kF32, 4, "", 1}, {ValueKind::kTemporary, DType::kF32, 4, "", 2}};
  p.inputs = {{0, {0}, false}};
  Op y{.kind = OpKind::kExp, .inputs = {{0, row, {}}}, .outputs = {{1, row, {}}}, .attributes = {}};
  Op z{.kind = OpKind::kExp, .inputs = {{0, std::move(view), {}}}, .outputs = {{2, row, {}}}, .attributes = {}};
  Op sum{.kind = OpKind::kAdd, .inputs = {{1, row, {}}, {2, row, {}}}, .outputs = {{3, row, {}}}, .attributes = {}};
  p.ops = {y, z, sum};
  p.outputs = {{"sum", {3, View::contiguous({}), {}}, {0}}};
  return p;
}

TEST(MergeEqual, ReadersOfTheSecondReadTheFirst) {
  Program p = two_exponentials(View::contiguous({4}));
  merge_equal(p);
  ASSERT_TRUE(verify(p));
  EXPECT_EQ(p.ops[2].inputs[0].value, 1u);
  EXPECT_EQ(p.ops[2].inputs[1].value, 1u);
  eliminate_dead(p);
  EXPECT_EQ(p.ops.size(), 2u);
}

TEST(MergeEqual, EmptyViewsAreEqualWhateverTheirStrides) {
  Program p = two_exponentials(View::contiguous({4}));
  for (const ValueId v : {1u, 2u, 3u}) p.values[v].elements = 0;
  for (Op& op : p.ops) {
    for (auto* operands : {&op.inputs, &op.outputs}) {
      for (Operand& operand : *operands) operand.view = View::contiguous({2, 0});
    }
  }
  p.ops[1].inputs[0].view = View{3, {2, 0}, {7, 5}};
  p.outputs.clear();
  ASSERT_TRUE(verify(p));
  merge_equal(p);
  EXPECT_EQ(p.ops[2].inputs[1].value, 1u);
}

TEST(MergeEqual, OtherElementsAreAnotherOp) {
  Program p = two_exponentials(View{0, {4}, {0}});
  merge_equal(p);
  EXPECT_EQ(p.ops[2].inputs[1].value, 2u);
}

TEST(MergeEqual, AnotherDtypeIsAnotherOp) {
  Program p = two_exponentials(View::contiguous({4}));
  p.values[2].dtype = DType::kF64;
  merge_equal(p);
  EXPECT_EQ(p.ops[2].inputs[1].value, 2u);
}

TEST(MergeEqual, TwoStatesNeverEndInOneValue) {
  Program p = two_exponentials(View::contiguous({4}));
  for (ValueId end : {ValueId{1}, ValueId{2}}) {
    p.values.push_back({ValueKind::kState, DType::kF32, 4, "", kNone});
    p.states.push_back({static_cast<ValueId>(p.values.size() - 1), end, 0, 0});
  }
  merge_equal(p);
  ASSERT_TRUE(verify(p));
  EXPECT_EQ(p.states[0].end, 1u);
  EXPECT_EQ(p.states[1].end, 2u);
  EXPECT_EQ(p.ops[2].inputs[1].value, 2u);
}

}  // namespace
}  // namespace crucible::graph
