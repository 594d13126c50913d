// The checker of schedules must see each kind of damage.
#include "core/kernel/schedule_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::OpId;
using graph::Operand;
using graph::OpKind;
using ::testing::HasSubstr;

/// Two steps: a product of matrices, then a fused update of a state.
struct Sound {
  TestProgram t;
  Operand state, product, next;
  Schedule schedule;
  Sound() {
    state = t.state(DType::kF32, {4, 4});
    const Operand x = t.input(DType::kF32, {4, 4});
    product = t.op(OpKind::kMatMul, {x, x}, {4, 4});
    next = t.op(OpKind::kAdd, {state, t.op(OpKind::kMultiply, {product, t.slot(2)}, {4, 4})}, {4, 4});
    t.end_state(state, next);
    auto made = kernel::schedule(t.program, {.epilogues = false});
    EXPECT_TRUE(made);
    schedule = *std::move(made);
  }
  std::string reason() const {
    const auto checked = check_schedule(t.program, schedule);
    return checked ? "" : checked.error().message;
  }
};

TEST(ScheduleCheck, TakesASoundSchedule) {
  const Sound sound;
  EXPECT_EQ(sound.schedule.steps.size(), 2u);
  EXPECT_EQ(sound.reason(), "");
}

TEST(ScheduleCheck, SeesStepsInTheWrongOrder) {
  Sound sound;
  std::swap(sound.schedule.steps[0], sound.schedule.steps[1]);
  EXPECT_THAT(sound.reason(), HasSubstr("which no earlier step writes"));
}

TEST(ScheduleCheck, SeesAMissingStep) {
  Sound sound;
  sound.schedule.steps.pop_back();
  sound.schedule.in_place.clear();
  EXPECT_THAT(sound.reason(), HasSubstr("is wanted at the end, and no step writes it"));
}

TEST(ScheduleCheck, SeesAnOpDoneTwiceOrNotAtAll) {
  Sound sound;
  sound.schedule.steps[1].ops.push_back(0);
  EXPECT_THAT(sound.reason(), HasSubstr("does op 0, which step 0 has done"));
  Sound other;
  other.schedule.steps[1].ops.erase(other.schedule.steps[1].ops.begin());
  EXPECT_THAT(other.reason(), HasSubstr("neither bound nor made in the step"));
}

TEST(ScheduleCheck, SeesAResultWrittenByTheWrongStep) {
  Sound sound;
  sound.schedule.steps[0].buffers.push_back({sound.next.value, true});
  EXPECT_THAT(sound.reason(), HasSubstr("without its producer"));
}

TEST(ScheduleCheck, SeesInPlacePairsThatDestroyWhatIsNeeded) {
  Sound sound;
  ASSERT_FALSE(sound.schedule.in_place.empty());
  Sound twice;
  twice.schedule.in_place.push_back(twice.schedule.in_place[0]);
  EXPECT_THAT(twice.reason(), HasSubstr("stands in two in-place pairs"));
  Sound input;
  input.schedule.in_place = {{0, input.t.program.inputs[0].value, input.product.value}};
  EXPECT_THAT(input.reason(), HasSubstr("must not be overwritten"));
  Sound early;
  early.schedule.in_place = {{0, early.state.value, early.product.value}};
  EXPECT_THAT(early.reason(), HasSubstr("is not read or"));
}

/// Two steps: what becomes the values, and an attention.
struct SoundAttention {
  TestProgram t;
  Operand values, scores, powers, output;
  Schedule schedule;
  SoundAttention() {
    const Sizes sizes{2, 24, 24}, row{2, 24, 1};
    const Operand query = t.input(DType::kF32, {2, 24, 24}), key = t.input(DType::kF32, {2, 24, 24});
    values = t.op(OpKind::kSin, {key}, {2, 24, 24});
    scores = t.op(OpKind::kMatMul, {query, permuted(key, {0, 2, 1})}, sizes);
    const Operand top = t.reduce(OpKind::kReduceMax, scores, {2});
    powers = t.op(OpKind::kExp, {t.op(OpKind::kSubtract, {scores, expanded(top, sizes)}, sizes)}, sizes);
    output = t.op(OpKind::kMatMul, {powers, values}, {2, 24, 24});
    t.keep(output);
    auto made = kernel::schedule(t.program, {});
    EXPECT_TRUE(made);
    schedule = *std::move(made);
  }
  OpId producer(const Operand& operand) const { return t.program.values[operand.value].producer; }
  std::string reason() const {
    const auto checked = check_schedule(t.program, schedule);
    return checked ? "" : checked.error().message;
  }
};

TEST(ScheduleCheck, TakesAnAttention) {
  const SoundAttention sound;
  EXPECT_EQ(sound.schedule.steps.size(), 2u);
  EXPECT_EQ(sound.reason(), "");
}

TEST(ScheduleCheck, SeesARightOperandThatTheStepMakes) {
  SoundAttention sound;
  Step moved = sound.schedule.steps[0];
  Step& attention = sound.schedule.steps[1];
  std::erase_if(attention.buffers,
                [&](const BufferArgument& argument) { return argument.value == sound.values.value; });
  attention.ops.insert(attention.ops.begin(), moved.ops.begin(), moved.ops.end());
  sound.schedule.steps.erase(sound.schedule.steps.begin());
  EXPECT_THAT(sound.reason(), HasSubstr("on its right, which the step makes row by row"));
}

TEST(ScheduleCheck, SeesRowsThatOtherItemsMake) {
  SoundAttention product;
  Operand& left = product.t.program.ops[product.producer(product.output)].inputs[0];
  std::swap(left.view.strides[1], left.view.strides[2]);
  EXPECT_THAT(product.reason(), HasSubstr("by other rows than it is made"));
  SoundAttention group;
  for (graph::Op& op : group.t.program.ops) {
    if (op.kind == OpKind::kSubtract) std::swap(op.inputs[0].view.strides[1], op.inputs[0].view.strides[2]);
  }
  EXPECT_THAT(group.reason(), HasSubstr("by other rows than it is made"));
}

TEST(ScheduleCheck, SeesAnAttentionWithoutOneOfItsProducts) {
  SoundAttention sound;
  std::erase(sound.schedule.steps[1].ops, sound.producer(sound.scores));
  EXPECT_THAT(sound.reason(), HasSubstr("neither bound nor made in the step"));
}

TEST(ScheduleCheck, SeesAProductWrittenOverItsOperand) {
  SoundAttention sound;
  sound.schedule.in_place = {{1, sound.values.value, sound.output.value}};
  EXPECT_THAT(sound.reason(), HasSubstr("whose items all read it"));
}

TEST(ScheduleCheck, SeesKernelsAndSlotsThatDoNotExist) {
  Sound sound;
  sound.schedule.steps[0].kernel = 99;
  EXPECT_THAT(sound.reason(), HasSubstr("names kernel 99 of"));
  Sound slot;
  ASSERT_EQ(slot.schedule.steps[1].scalars.size(), 1u);
  slot.schedule.steps[1].scalars[0].slot = 7;
  EXPECT_THAT(slot.reason(), HasSubstr("names slot 7 of 1"));
}

/// The same program in one step: the update is the epilogue of the product.
struct WithEpilogue : Sound {
  WithEpilogue() {
    auto made = kernel::schedule(t.program, {.epilogues = true});
    EXPECT_TRUE(made);
    schedule = *std::move(made);
  }
};

TEST(ScheduleCheck, TakesASoundEpilogue) {
  const WithEpilogue sound;
  EXPECT_EQ(sound.schedule.steps.size(), 1u);
  EXPECT_EQ(sound.schedule.in_place.size(), 1u);
  EXPECT_EQ(sound.reason(), "");
}

TEST(ScheduleCheck, SeesAnEpilogueThatReadsWhatAnotherWorkItemMakes) {
  WithEpilogue turned;
  turned.t.program.ops[1].inputs[0].view.strides = {1, 4};
  EXPECT_EQ(turned.reason(), "") << "turned as a whole";
  turned.t.program.ops[1].inputs.push_back(turned.product);
  EXPECT_THAT(turned.reason(), HasSubstr("reads an element that another work item of the product makes"));
  WithEpilogue repeated;
  repeated.t.program.ops[1].inputs[0].view.strides = {0, 1};
  repeated.t.program.ops[1].inputs.push_back(repeated.product);
  EXPECT_THAT(repeated.reason(), HasSubstr("reads an element that another work item of the product makes"));
}

TEST(ScheduleCheck, SeesAnEpilogueThatIsNotElementwiseOrOfAnotherSize) {
  WithEpilogue sum;
  sum.t.program.ops[1].kind = OpKind::kScanSum;
  EXPECT_THAT(sum.reason(), HasSubstr("is in a product's epilogue"));
  WithEpilogue small;
  small.t.program.ops[2].outputs[0].view.sizes = {4, 2};
  EXPECT_THAT(small.reason(), HasSubstr("has 8 elements in the epilogue of a product of 16"));
}

TEST(ScheduleCheck, SeesAnEpilogueOverAnOperandOfItsProduct) {
  WithEpilogue sound;
  sound.schedule.in_place[0].operand = sound.t.program.inputs[0].value;
  EXPECT_THAT(sound.reason(), HasSubstr("is an operand of the product"));
}

TEST(ScheduleCheck, SeesAnEpilogueOfALibraryCallAndOneWithTooManyBuffers) {
  WithEpilogue library;
  library.schedule.steps[0].kind = StepKind::kLibrary;
  EXPECT_THAT(library.reason(), HasSubstr("a library call has 3 buffers and 3 ops"));
  WithEpilogue many;
  for (int i = 0; i < 22; ++i)
    many.schedule.steps[0].buffers.push_back({many.t.input(DType::kF32, {4, 4}).value, false});
  EXPECT_THAT(many.reason(), HasSubstr("has 25 buffers, the most is 24"));
}

}  // namespace
}  // namespace crucible::kernel
