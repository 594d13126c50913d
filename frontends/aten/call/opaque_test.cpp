// Ops without a lowering in hand-made traces: refused, or kept as opaque ops with their arguments, aliases and effects.
#include "core/graph/opaque.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/passes.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/aten/testing/trace_builder.hpp"

namespace crucible::aten {
namespace {

using graph::OpKind;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using B = TraceBuilder;
using Kind = graph::OpaqueArg::Kind;

graph::Program lowered(TraceBuilder& b, Opaques opaques = Opaques::kMissing) {
  auto program = lower(b.trace(), opaques);
  EXPECT_TRUE(program) << program.error().message;
  return program ? *std::move(program) : graph::Program{};
}

std::vector<const graph::Op*> opaque_ops(const graph::Program& program) {
  std::vector<const graph::Op*> ops;
  for (const auto& op : program.ops) {
    if (op.kind == OpKind::kOpaque) ops.push_back(&op);
  }
  return ops;
}

/// w += spin(w, x, rate) in two iterations, with a rate of its own each.
TraceBuilder spinning(const std::string& schema) {
  TraceBuilder b;
  const auto w = b.fresh({4}), x = b.fresh({2, 2});
  for (int i = 0; i < 2; ++i) {
    const auto y = b.fresh({4});
    if (i == 0) b.external(b.storage_of(w), {1, 2, 3, 4}, trace::Role::kParameter, "w");
    b.external(b.storage_of(x), {1, 2, 3, static_cast<float>(i)}, trace::Role::kInput, "x");
    b.op(schema,
         {B::tensor(w), B::list({B::tensor(x), B::none()}), B::number(0.5 + i), B::integers({0, -1}), B::none()},
         {B::tensor(y)});
    b.op(kAddInPlace, {B::tensor(w), B::tensor(y), B::integer(1)}, {B::tensor(w)});
    b.end_iteration();
  }
  return b;
}

TEST(OpaqueLowering, KeepsArgumentsAndMakesNumbersThatDifferSlots) {
  TraceBuilder b =
      spinning("aten::spin(Tensor self, Tensor?[] others, float rate, int[] dims, ScalarType? dtype=None) -> Tensor");
  const auto refused = lower(b.trace());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("1 op has no lowering:\n  aten::spin: 1 per iteration"));
  const graph::Program program = lowered(b);
  const auto ops = opaque_ops(program);
  ASSERT_EQ(ops.size(), 1u) << graph::to_text(program);
  const graph::Opaque& opaque = graph::opaque_of(program, *ops[0]);
  EXPECT_EQ(opaque.name(), "aten::spin");
  EXPECT_EQ(opaque.effect, graph::OpaqueEffect::kPure);
  ASSERT_EQ(opaque.args.size(), 5u);
  EXPECT_EQ(opaque.args[0].kind, Kind::kTensor);
  EXPECT_EQ(opaque.args[1].items[0].operand, 1u);
  EXPECT_EQ(opaque.args[1].items[1].kind, Kind::kNone);
  EXPECT_EQ(opaque.args[2].kind, Kind::kNumber);
  EXPECT_EQ(opaque.args[3].items[1].integer, -1);
  const graph::Scalar& rate = ops[0]->inputs[opaque.args[2].operand].scalar;
  ASSERT_NE(rate.slot, graph::kNone);
  EXPECT_THAT(program.slots[rate.slot].values, ElementsAre(0.5, 1.5));
  ASSERT_EQ(opaque.results.size(), 1u);
  EXPECT_EQ(opaque.results[0].returned, 0u);
  EXPECT_EQ(program.states.size(), 1u);
  EXPECT_NE(program.states[0].end, program.states[0].start);
}

TEST(OpaqueLowering, OwnLibrariesMayHaveAnyEffectAndGeneratorsDraw) {
  const std::string rest =
      "(Tensor self, Tensor?[] others, float rate, int[] dims, Generator? generator=None) -> Tensor";
  TraceBuilder own = spinning("acme::spin" + rest), random = spinning("aten::spin" + rest);
  const graph::Program a = lowered(own), b = lowered(random);
  EXPECT_EQ(a.opaques.at(0)->effect, graph::OpaqueEffect::kUnknown);
  EXPECT_EQ(b.opaques.at(0)->effect, graph::OpaqueEffect::kRandom);
}

TEST(OpaqueLowering, InPlaceWritesBecomeNewValues) {
  TraceBuilder b;
  const auto w = b.fresh({2, 3});
  const auto row = b.view(b.storage_of(w), {3}, {1}, 3);
  const auto sum = b.fresh({});
  b.external(b.storage_of(w), {1, 2, 3, 4, 5, 6}, trace::Role::kParameter, "w");
  // The returned tensor is the argument: no result of its own.
  b.op("aten::spin_(Tensor(a!) self, int turns) -> Tensor(a!)", {B::tensor(row), B::integer(2)}, {B::tensor(row)});
  b.op(kSum, {B::tensor(w), B::none()}, {B::tensor(sum)});
  b.loss(sum, 1);
  b.end_iteration();
  const graph::Program program = lowered(b);
  const auto ops = opaque_ops(program);
  ASSERT_EQ(ops.size(), 1u) << graph::to_text(program);
  EXPECT_EQ(graph::opaque_of(program, *ops[0]).results[0].written, 0u);
  EXPECT_EQ(ops[0]->outputs.size(), 1u);
  EXPECT_THAT(ops[0]->outputs[0].view.sizes, ElementsAre(3));
  // The row goes back into the whole matrix, which the sum and the state's end read.
  const auto updates = std::ranges::count(program.ops, OpKind::kUpdate, &graph::Op::kind);
  EXPECT_EQ(updates, 1);
  EXPECT_NE(program.states.at(0).end, program.states.at(0).start);
}

TEST(OpaqueLowering, ViewsNeedNoOp) {
  TraceBuilder b;
  const auto w = b.fresh({2, 3});
  const auto turned = b.view(b.storage_of(w), {3, 2}, {1, 3});
  const auto sum = b.fresh({});
  b.external(b.storage_of(w), {1, 2, 3, 4, 5, 6}, trace::Role::kParameter, "w");
  b.op("aten::turn(Tensor(a) self) -> Tensor(a)", {B::tensor(w)}, {B::tensor(turned)});
  b.op(kSum, {B::tensor(turned), B::none()}, {B::tensor(sum)});
  b.loss(sum, 21);
  b.end_iteration();
  const graph::Program program = lowered(b);
  EXPECT_TRUE(opaque_ops(program).empty());
  const auto replay = graph::replay_reference(program, *b.trace().blob_store, 1);
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_THAT(replay->outputs[0], ElementsAre(21));
}

TEST(OpaqueLowering, ALoweringThatGivesUpSaysWhy) {
  TraceBuilder b;
  const auto x = b.fresh({2}), y = b.fresh({5}), z = b.fresh({});
  b.external(b.storage_of(x), {1, 2}, trace::Role::kInput, "x");
  b.op(kMul, {B::tensor(x), B::tensor(x)}, {B::tensor(y)});  // no product of two by two has five elements
  b.op(kSum, {B::tensor(y), B::none()}, {B::tensor(z)});
  b.loss(z, 1);
  b.end_iteration();
  EXPECT_THAT(lower(b.trace()).error().message, HasSubstr("result 0 was recorded as [5]"));
  const graph::Program program = lowered(b);
  ASSERT_EQ(opaque_ops(program).size(), 1u);
  EXPECT_THAT(graph::opaque_list(program), AllOf(HasSubstr("1 op has no lowering:"),
                                                 HasSubstr("aten::mul.Tensor: 1 per iteration, first at train.py:"),
                                                 HasSubstr("(result 0 was recorded as [5], its lowering makes [2])")));
}

TEST(OpaqueLowering, AllOfThemStayAsTheyWere) {
  TraceBuilder b;
  const auto w = b.fresh({4}), x = b.fresh({4}), product = b.fresh({4}), sum = b.fresh({});
  b.external(b.storage_of(w), {1, 2, 3, 4}, trace::Role::kParameter, "w");
  b.external(b.storage_of(x), {1, 1, 2, 2}, trace::Role::kInput, "x");
  b.op(kMul, {B::tensor(w), B::tensor(b.python_number(2))}, {B::tensor(product)});
  b.op(kAddInPlace, {B::tensor(w), B::tensor(product), B::integer(1)}, {B::tensor(w)});
  b.op(kSum, {B::tensor(w), B::none()}, {B::tensor(sum)});
  b.loss(sum, 30);
  b.end_iteration();
  const graph::Program program = lowered(b, Opaques::kAll);
  EXPECT_EQ(opaque_ops(program).size(), 3u) << graph::to_text(program);
  EXPECT_EQ(program.ops.size(), 3u);
  // A number of the language is an operand that is a number, where the schema has a tensor.
  const graph::Opaque& product_op = graph::opaque_of(program, program.ops[0]);
  EXPECT_EQ(product_op.args[1].kind, Kind::kTensor);
  EXPECT_TRUE(program.ops[0].inputs[1].is_scalar());
}

TEST(OpaqueLowering, WhatWasNotRecordedCannotBeKept) {
  TraceBuilder b;
  const auto x = b.fresh({2}), y = b.fresh({2});
  b.external(b.storage_of(x), {1, 2}, trace::Role::kInput, "x");
  trace::Arg object;
  object.kind = trace::Arg::Kind::kOpaque;
  object.text = "__torch__.Packed";
  b.op("acme::packed(Tensor self, Any what) -> Tensor", {B::tensor(x), object}, {B::tensor(y)});
  b.end_iteration();
  const auto program = lower(b.trace(), Opaques::kMissing);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(program.error().message,
              AllOf(HasSubstr("acme::packed"), HasSubstr("argument what (__torch__.Packed) was not recorded")));
}

}  // namespace
}  // namespace crucible::aten
