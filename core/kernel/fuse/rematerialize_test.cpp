// Programs with copies of cheap forward ops in the backward pass compute the same bits, and their kernels move fewer
// bytes.
#include "core/kernel/fuse/rematerialize.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/random_program.hpp"
#include "core/graph/reference.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::OpKind;
using graph::Operand;
using graph::Phase;
using graph::Program;

/// Ops from `first_later` on are of the backward pass.
void set_phases(Program& program, graph::OpId first_later) {
  program.sources.assign(2, {});
  program.sources[1].phase = Phase::kBackward;
  for (graph::OpId op = 0; op < program.ops.size(); ++op) program.ops[op].source = op < first_later ? 0 : 1;
}

std::size_t count(const Program& program, OpKind kind, Phase phase) {
  return static_cast<std::size_t>(std::ranges::count_if(
      program.ops, [&](const graph::Op& op) { return op.kind == kind && program.sources[op.source].phase == phase; }));
}

/// "" when both give the user the same bits.
std::string difference_of_results(const Program& a, const Program& b, std::vector<graph::Bytes> values,
                                  const std::vector<graph::Number>& slots) {
  auto more = values;
  more.resize(b.values.size());
  const auto first = graph::run_iteration(a, std::move(values), slots),
             second = graph::run_iteration(b, std::move(more), slots);
  if (!first) return first.error().message;
  if (!second) return second.error().message;
  for (const graph::State& state : a.states) {
    if ((*first)[state.end] != (*second)[state.end]) return "a state differs";
  }
  for (const graph::Output& output : a.outputs) {
    if ((*first)[output.operand.value] != (*second)[output.operand.value]) return "an output differs";
  }
  return "";
}

class Layer {
 public:
  static constexpr std::int64_t kRows = 64, kColumns = 128;
  const Sizes sizes{kRows, kColumns};
  TestProgram t;

  Operand product() {
    const Operand x = t.input(DType::kF32, {kRows, 16}), w = t.input(DType::kF32, {16, kColumns});
    return t.op(OpKind::kMatMul, {x, w}, sizes);
  }
  Operand op(OpKind kind, const Operand& a, const Operand& b) { return t.op(kind, {a, b}, sizes); }
  Operand op(OpKind kind, const Operand& a) { return t.op(kind, {a}, sizes); }
  /// Into which the forward pass ends, and what the backward pass begins with.
  Operand gradient_after(const Operand& result) {
    const Operand w = t.input(DType::kF32, {kColumns, kColumns});
    const Operand end = t.op(OpKind::kMatMul, {result, w}, sizes);
    first_later_ = static_cast<graph::OpId>(t.program.ops.size());
    return t.op(OpKind::kMatMul, {end, w}, sizes);
  }
  void finish(const Operand& gradient) {
    const Operand w = t.input(DType::kF32, {kColumns, 16});
    t.keep(t.op(OpKind::kMatMul, {gradient, w}, {kRows, 16}));
    set_phases(t.program, first_later_);
  }

 private:
  graph::OpId first_later_ = 0;
};

TEST(Rematerialize, OfAGeluTheProductAndTheHyperbolicTangentAreKept) {
  Layer layer;
  const Operand u = layer.product();
  const Operand half = layer.op(OpKind::kMultiply, u, layer.t.scalar(0.5)), square = layer.op(OpKind::kMultiply, u, u);
  const Operand tanh = layer.op(OpKind::kTanh, layer.op(OpKind::kMultiply, square, u));
  const Operand one_more = layer.op(OpKind::kAdd, tanh, layer.t.scalar(1));
  const Operand dy = layer.gradient_after(layer.op(OpKind::kMultiply, half, one_more));
  const Operand a = layer.op(OpKind::kMultiply, dy, half), b = layer.op(OpKind::kMultiply, dy, one_more);
  const Operand slope = layer.op(OpKind::kMultiply, layer.op(OpKind::kMultiply, tanh, tanh), square);
  layer.finish(layer.op(OpKind::kAdd, layer.op(OpKind::kMultiply, a, slope), b));
  const Program& before = layer.t.program;
  ASSERT_TRUE(graph::verify(before));
  const auto after = rematerialize(before, Numerics::kStrict).program;
  ASSERT_TRUE(after);
  ASSERT_TRUE(graph::verify(*after)) << graph::verify(*after).error().message;
  EXPECT_EQ(count(*after, OpKind::kTanh, Phase::kBackward), 0u);  // too dear
  EXPECT_EQ(count(*after, OpKind::kMultiply, Phase::kForward), 4u);
  EXPECT_EQ(count(*after, OpKind::kMultiply, Phase::kBackward), 5u + 2);
  EXPECT_EQ(count(*after, OpKind::kAdd, Phase::kBackward), 1u + 1);
  // Before: four tensors written and read. After: one written, two read.
  const std::uint64_t tensor = Layer::kRows * Layer::kColumns * 4;
  const std::uint64_t saved = bytes_of_groups(before, make_units(before, true, Numerics::kStrict)) -
                              bytes_of_groups(*after, make_units(*after, true, Numerics::kStrict));
  EXPECT_EQ(saved, 5 * tensor);
  EXPECT_EQ(difference_of_results(before, *after, layer.t.values, layer.t.slots), "");
}

TEST(Rematerialize, AFactorOfTheGradientThatTheForwardPassKnowsIsItsWork) {
  Layer layer;
  const Operand u = layer.product(), v = layer.product(), w = layer.product();
  const Operand product = layer.op(OpKind::kMultiply, layer.op(OpKind::kMultiply, u, v), w);
  const Operand dy = layer.gradient_after(layer.op(OpKind::kErf, product));
  // One tensor instead of three that the backward pass would have to read.
  const Operand sum = layer.op(OpKind::kAdd, layer.op(OpKind::kAdd, u, w), layer.op(OpKind::kExp, v));
  const Operand slope = layer.op(OpKind::kExp, layer.op(OpKind::kNegate, sum));
  layer.finish(layer.op(OpKind::kMultiply, dy, slope));
  const Program& before = layer.t.program;
  const auto after = rematerialize(before, Numerics::kStrict).program;
  ASSERT_TRUE(after);
  ASSERT_TRUE(graph::verify(*after)) << graph::verify(*after).error().message;
  EXPECT_EQ(after->ops.size(), before.ops.size());
  EXPECT_EQ(count(*after, OpKind::kExp, Phase::kForward), 2u);
  EXPECT_EQ(count(*after, OpKind::kMultiply, Phase::kBackward), 1u);
  EXPECT_EQ(difference_of_results(before, *after, layer.t.values, layer.t.slots), "");
}

TEST(Rematerialize, WhatIsInMemoryAnywayIsReadThere) {
  Layer layer;
  const Operand u = layer.op(OpKind::kMultiply, layer.product(), layer.product());
  const Operand dy = layer.gradient_after(u);
  layer.finish(layer.op(OpKind::kMultiply, dy, u));
  EXPECT_FALSE(rematerialize(layer.t.program, Numerics::kStrict).program);
}

TEST(Rematerialize, AForwardPassAloneStaysAsItIs) {
  Layer layer;
  const Operand u = layer.product();
  const Operand dy = layer.gradient_after(layer.op(OpKind::kTanh, layer.op(OpKind::kMultiply, u, u)));
  layer.finish(layer.op(OpKind::kMultiply, dy, u));
  for (graph::Op& op : layer.t.program.ops) op.source = 0;
  EXPECT_FALSE(rematerialize(layer.t.program, Numerics::kFast).program);
}

TEST(Rematerialize, RandomProgramsHaveTheSameBits) {
  std::size_t changed = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    graph::RandomProgram random = graph::random_program({.seed = seed, .ops = 40, .largest_side = 30});
    set_phases(random.program, static_cast<graph::OpId>(random.program.ops.size() * (1 + seed % 3) / 4));
    const auto after = rematerialize(random.program, Numerics::kStrict).program;
    if (!after) continue;
    ++changed;
    const auto verified = graph::verify(*after);
    ASSERT_TRUE(verified) << "seed " << seed << ": " << verified.error().message;
    EXPECT_LT(bytes_of_groups(*after, make_units(*after, true, Numerics::kStrict)),
              bytes_of_groups(random.program, make_units(random.program, true, Numerics::kStrict)));
    EXPECT_EQ(difference_of_results(random.program, *after, random.values, random.slots), "") << "seed " << seed;
  }
  EXPECT_GT(changed, 10u);
}

}  // namespace
}  // namespace crucible::kernel
