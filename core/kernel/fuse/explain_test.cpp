// Each reason for which steps stay apart, reached by a small program.
#include "core/kernel/fuse/explain.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;

Schedule scheduled(const TestProgram& t) {
  Result<Schedule> made = schedule(t.program, {.epilogues = true});
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : Schedule();
}

/// The step that makes a value.
std::uint32_t step_of(const TestProgram& t, const Schedule& schedule, const Operand& made) {
  const graph::OpId op = t.program.values[made.value].producer;
  const auto has = [&](const Step& step) { return std::ranges::find(step.ops, op) != step.ops.end(); };
  return static_cast<std::uint32_t>(std::ranges::find_if(schedule.steps, has) - schedule.steps.begin());
}

/// Why the steps that make the two values are two.
Apart between(const TestProgram& t, const Operand& a, const Operand& b) {
  const Schedule made = scheduled(t);
  const std::uint32_t one = step_of(t, made, a), other = step_of(t, made, b);
  EXPECT_NE(one, other);
  for (const Explanation::Beside& beside : explain(t.program, made, one).apart) {
    if (beside.step == other) return beside.apart;
  }
  ADD_FAILURE() << "step " << other << " is not beside step " << one;
  return Apart::kNot;
}

TEST(Explain, SaysWhatAFusedStepSaves) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {64, 32});
  const Operand a = t.op(OpKind::kSin, {x}, {64, 32}), b = t.op(OpKind::kMultiply, {a, a}, {64, 32});
  t.keep(t.op(OpKind::kAdd, {b, x}, {64, 32}));
  const Schedule made = scheduled(t);
  ASSERT_EQ(made.steps.size(), 1u);
  const Explanation explanation = explain(t.program, made, 0);
  EXPECT_EQ(explanation.inside, (std::vector<graph::ValueId>{a.value, b.value}));
  EXPECT_EQ(explanation.launches_saved, 2u);
  EXPECT_EQ(explanation.bytes_saved, (3u + 2u) * 64 * 32 * 4) << "a: written once, read twice; b: written, read";
  EXPECT_TRUE(explanation.apart.empty());
}

TEST(Explain, WhatAContractionReadsIsNoPartOfIt) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {8, 8});
  const Operand y = t.op(OpKind::kSin, {x}, {8, 8}), product = t.op(OpKind::kMatMul, {y, y}, {8, 8});
  t.keep(product);
  EXPECT_EQ(between(t, y, product), Apart::kOwnKind);
  EXPECT_EQ(between(t, product, y), Apart::kOwnKind);
}

TEST(Explain, SaysWhyAReaderIsNoEpilogue) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {8, 8});
  const Operand product = t.op(OpKind::kMatMul, {x, x}, {8, 8});
  const Operand sum = t.reduce(OpKind::kReduceSum, product, {0}), y = t.op(OpKind::kSin, {product}, {8, 8});
  t.keep(sum);
  t.keep(y);
  EXPECT_EQ(between(t, sum, product), Apart::kNotElementwise);
  EXPECT_EQ(between(t, product, sum), Apart::kNotElementwise);
}

TEST(Explain, SaysWhatAnEpilogueSaves) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {8, 8});
  const Operand product = t.op(OpKind::kMatMul, {x, x}, {8, 8});
  t.keep(t.op(OpKind::kSin, {product}, {8, 8}));
  const Schedule made = scheduled(t);
  ASSERT_EQ(made.steps.size(), 1u);
  const Explanation explanation = explain(t.program, made, 0);
  EXPECT_EQ(explanation.inside, std::vector<graph::ValueId>{product.value});
  EXPECT_EQ(explanation.launches_saved, 1u);
  EXPECT_EQ(explanation.bytes_saved, 2u * 8 * 8 * 4);
}

TEST(Explain, APathThroughAThirdStepKeepsTwoApart) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {8, 8});
  const Operand a = t.op(OpKind::kSin, {x}, {8, 8});
  const Operand product = t.op(OpKind::kMatMul, {a, a}, {8, 8});
  const Operand b = t.op(OpKind::kAdd, {product, a}, {8, 8});
  t.keep(b);
  EXPECT_EQ(between(t, a, b), Apart::kPath);
}

TEST(Explain, LoopsThatDoNotMatchStayApart) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {12, 12});
  const Operand a = t.op(OpKind::kSin, {x}, {12, 12});
  t.keep(a);
  const Operand b = t.op(OpKind::kAdd, {a, permuted(a, {1, 0})}, {12, 12});
  t.keep(b);
  EXPECT_EQ(between(t, a, b), Apart::kShape);
}

TEST(Explain, LargeTensorsDoNotAllWait) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {64, 64});
  Operand sum = t.op(OpKind::kMatMul, {x, x}, {64, 64});
  std::vector<Operand> sums;
  for (int i = 0; i < 12; ++i) {
    sum = t.op(OpKind::kAdd, {sum, t.op(OpKind::kMatMul, {x, permuted(x, {1, 0})}, {64, 64})}, {64, 64});
    sums.push_back(sum);
  }
  t.keep(sum);
  const Schedule made = scheduled(t);
  const std::uint32_t last = step_of(t, made, sum);
  const std::vector<Explanation::Beside> apart = explain(t.program, made, last).apart;
  EXPECT_TRUE(std::ranges::any_of(apart, [](const auto& beside) { return beside.apart == Apart::kWaiting; }));
}

TEST(Explain, AKernelHasItsLimits) {
  TestProgram many(1);
  const Operand x = many.input(DType::kF32, {16});
  Operand y = x;
  std::vector<Operand> all;
  for (int i = 0; i < 200; ++i) all.push_back(y = many.op(OpKind::kSin, {y}, {16}));
  many.keep(y);
  EXPECT_EQ(between(many, all.front(), all.back()), Apart::kMembers);
  TestProgram wide(2);
  Operand sum = wide.input(DType::kF32, {16});
  for (int i = 0; i < 80; ++i) sum = wide.op(OpKind::kAdd, {sum, wide.input(DType::kF32, {16})}, {16});
  wide.keep(sum);
  const Schedule made = scheduled(wide);
  ASSERT_GT(made.steps.size(), 1u);
  for (const Explanation::Beside& beside : explain(wide.program, made, 0).apart)
    EXPECT_EQ(beside.apart, Apart::kBuffers);
  EXPECT_EQ(explain(wide.program, made, 0).apart.size(), 1u);
}

TEST(Explain, EveryReasonHasWords) {
  for (int apart = 0; apart <= static_cast<int>(Apart::kParallelism); ++apart)
    EXPECT_FALSE(words(static_cast<Apart>(apart)).empty());
}

}  // namespace
}  // namespace crucible::kernel
