// The pass split_reductions: what is cut, and that the result stays.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/graph/passes.hpp"
#include "core/graph/reference.hpp"

namespace crucible::graph {
namespace {

/// One reduction of all of x, a tensor of these sizes and strides.
Program whole(OpKind kind, View view, std::int64_t elements) {
  Program p;
  p.iterations = 1;
  p.values = {{ValueKind::kInput, DType::kF32, elements, "", kNone}, {ValueKind::kTemporary, DType::kF32, 1, "", 0}};
  p.inputs = {{0, {0}, false}};
  Op op{.kind = kind, .inputs = {{0, view, {}}}, .outputs = {}, .attributes = {}};
  const std::size_t rank = view.sizes.size();
  for (std::size_t d = 0; d < rank; ++d) op.attributes.dims.push_back(static_cast<std::int64_t>(d));
  op.outputs = {{1, View{0, std::vector<std::int64_t>(rank, 1), std::vector<std::int64_t>(rank, 0)}, {}}};
  p.ops = {op};
  p.outputs = {{"result", {1, View::contiguous({}), {}}, {0}}};
  return p;
}

double result(const Program& p, std::int64_t elements) {
  std::vector<Bytes> values(1);
  for (std::int64_t i = 0; i < elements; ++i) {
    const float number = static_cast<float>((i * 7919) % 1000) / 500.0f - 0.9f;
    values[0].resize(values[0].size() + sizeof number);
    std::memcpy(values[0].data() + values[0].size() - sizeof number, &number, sizeof number);
  }
  const auto after = run_iteration(p, values, {});
  EXPECT_TRUE(after) << after.error().message;
  return after ? read_output(p, p.outputs[0], *after) : 0;
}

TEST(SplitReductions, CutsLargeSumsAndMaximaAndKeepsTheirResult) {
  for (OpKind kind : {OpKind::kReduceSum, OpKind::kReduceMax}) {
    for (const View& view : {View::contiguous({96, 1024}), View{0, {1024, 96}, {1, 1024}}, View::contiguous({98304})}) {
      const Program before = whole(kind, view, 98304);
      Program after = before;
      split_reductions(after);
      const auto valid = verify(after);
      ASSERT_TRUE(valid) << valid.error().message;
      ASSERT_EQ(after.ops.size(), 2u);
      EXPECT_GE(after.values[2].elements, 4);
      EXPECT_LE(after.values[2].elements, 8);
      EXPECT_NEAR(result(after, 98304), result(before, 98304), 1e-2);
    }
  }
}

TEST(SplitReductions, LeavesSmallTensorsAndOddSizesAlone) {
  Program small = whole(OpKind::kReduceSum, View::contiguous({100, 100}), 10000);
  split_reductions(small);
  EXPECT_EQ(small.ops.size(), 1u);
  Program prime = whole(OpKind::kReduceSum, View::contiguous({65537}), 65537);
  split_reductions(prime);
  EXPECT_EQ(prime.ops.size(), 1u);
}

}  // namespace
}  // namespace crucible::graph
