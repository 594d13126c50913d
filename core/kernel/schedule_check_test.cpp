// The checker of schedules must see each kind of damage.
#include "core/kernel/schedule_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/kernel/test_program.hpp"

namespace crucible::kernel {
namespace {

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
    auto made = kernel::schedule(t.program, {});
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

TEST(ScheduleCheck, SeesKernelsAndSlotsThatDoNotExist) {
  Sound sound;
  sound.schedule.steps[0].kernel = 99;
  EXPECT_THAT(sound.reason(), HasSubstr("names kernel 99 of"));
  Sound slot;
  ASSERT_EQ(slot.schedule.steps[1].scalars.size(), 1u);
  slot.schedule.steps[1].scalars[0].slot = 7;
  EXPECT_THAT(slot.reason(), HasSubstr("names slot 7 of 1"));
}

}  // namespace
}  // namespace crucible::kernel
