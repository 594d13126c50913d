// The ops of one module as text for people.
#include <gtest/gtest.h>

#include "core/graph/print.hpp"

namespace crucible::graph {
namespace {

Operand number(double real) {
  Operand operand;
  operand.scalar.real = real;
  return operand;
}

/// blocks.0 computes tanh(w * 0.5 + 1) in one recorded op, blocks.01 a sum of it in another phase.
Program example() {
  Program p;
  p.iterations = 1;
  const View row = View::contiguous({6});
  p.values = {{ValueKind::kState, DType::kF32, 6, "w", kNone}};
  for (OpId producer = 0; producer < 4; ++producer)
    p.values.push_back({ValueKind::kTemporary, DType::kF32, producer == 3 ? 1 : 6, "", producer});
  p.sources = {{"aten::f", "blocks.0", "train.py:3", Phase::kForward, 0},
               {"aten::sum", "blocks.01", "train.py:4", Phase::kBackward, 1}};
  p.ops = {{OpKind::kMultiply, {{0, row, {}}, number(0.5)}, {{1, row, {}}}, {}, 0},
           {OpKind::kAdd, {{1, row, {}}, number(1)}, {{2, row, {}}}, {}, 0},
           {OpKind::kTanh, {{2, row, {}}}, {{3, row, {}}}, {}, 0},
           {OpKind::kReduceSum, {{3, row, {}}}, {{4, View::contiguous({1}), {}}}, {}, 1}};
  p.ops[3].attributes.dims = {0};
  p.states = {{0, 3, 0, 0}};
  p.outputs = {{"loss", {4, View::contiguous({}), {}}, {1.0}}};
  return p;
}

TEST(ModuleText, WritesWhatOnlyTheNextOpReadsInsideIt) {
  ASSERT_TRUE(verify(example())) << verify(example()).error().message;
  EXPECT_EQ(module_text(example(), {"blocks.0", std::nullopt}),
            "blocks.0  aten::f  train.py:3\n"
            "  %3: f32[6] = tanh(add(multiply(w, 0.5), 1.0))\n");
}

TEST(ModuleText, AResultThatIsReadTwiceHasALineOfItsOwn) {
  Program p = example();
  p.outputs.push_back({"middle", {2, View{0, {}, {}}, {}}, {1.0}});
  EXPECT_EQ(module_text(p, {"blocks.0", std::nullopt}),
            "blocks.0  aten::f  train.py:3\n"
            "  %2: f32[6] = add(multiply(w, 0.5), 1.0)\n"
            "  %3: f32[6] = tanh(%2)\n");
}

TEST(ModuleText, PhasesAndModulesChoose) {
  EXPECT_EQ(module_text(example(), {"", Phase::kBackward}),
            "blocks.01  aten::sum  train.py:4\n"
            "  %4: f32[1] = reduce_sum(%3, dims=[0])\n");
  EXPECT_EQ(module_text(example(), {"blocks.0", Phase::kBackward}), "");
  EXPECT_EQ(module_text(example(), {"blocks", std::nullopt}),
            module_text(example(), {"blocks.0", std::nullopt}) + module_text(example(), {"blocks.01", std::nullopt}));
  EXPECT_EQ(module_names(example()), (std::vector<std::string>{"blocks.0", "blocks.01"}));
}

}  // namespace
}  // namespace crucible::graph
