#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "runtime/run/session.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using graph::kNone;
using graph::OpKind;
using graph::ValueId;
using ::testing::AllOf;
using ::testing::HasSubstr;

Placement place_or_fail(const graph::Program& program, const kernel::Schedule& schedule) {
  const Result<void> valid = graph::verify(program);
  EXPECT_TRUE(valid) << valid.error().message;
  Result<Placement> placed = place(program, schedule, std::vector<std::uint64_t>(schedule.steps.size(), 0));
  EXPECT_TRUE(placed) << placed.error().message;
  if (placed) return *std::move(placed);
  Placement none;  // of the right shape, so that the test fails and does not crash
  none.buffers.resize(program.values.size());
  none.plan.offsets.resize(program.values.size());
  none.buffer_of.resize(program.values.size());
  std::iota(none.buffer_of.begin(), none.buffer_of.end(), 0u);
  none.scratch_of.resize(schedule.steps.size(), kNone);
  return none;
}

std::uint64_t offset(const Placement& placement, ValueId value) {
  return placement.plan.offsets[placement.buffer_of[value]];
}

TEST(Placement, UpdatesStatesInTheirOwnBuffers) {
  const graph::Program program = training_step();
  for (const bool in_place : {false, true}) {
    const Placement placement = place_or_fail(program, naive_schedule(program, in_place));
    EXPECT_EQ(placement.home_copies.size(), in_place ? 0u : 2u);
    EXPECT_EQ(placement.plan.peak_bytes, placement.plan.lower_bound_bytes);
    for (const graph::State& state : program.states) {
      // The old momentum is done before the new one is written; the old weight is read by the very step.
      const bool is_weight = program.values[state.start].name.starts_with("w");
      EXPECT_EQ(placement.buffer_of[state.start] == placement.buffer_of[state.end], in_place || !is_weight);
    }
  }
}

TEST(Placement, InPlaceReuseLowersThePeak) {
  const graph::Program program = training_step();
  const Placement apart = place_or_fail(program, naive_schedule(program, false));
  const Placement shared = place_or_fail(program, naive_schedule(program, true));
  EXPECT_LT(shared.plan.peak_bytes, apart.plan.peak_bytes);
}

// One is read while the other one is written, so that nothing else may ever lie in either.
TEST(Placement, InputsHaveTwoPlacesOfTheirOwn) {
  const graph::Program program = training_step();
  for (const bool in_place : {false, true}) {
    const kernel::Schedule schedule = naive_schedule(program, in_place);
    const std::vector<std::uint64_t> no_scratch(schedule.steps.size(), 0);
    const Result<Placement> two = place(program, schedule, no_scratch, 0, InputPlaces::kTwo);
    ASSERT_TRUE(two) << two.error().message;
    const Placement one = place_or_fail(program, schedule);
    EXPECT_FALSE(one.has_two_places());
    ASSERT_TRUE(two->has_two_places());
    std::uint64_t input_bytes = 0;
    for (const graph::Input& input : program.inputs) {
      for (const std::uint32_t place : {0u, 1u}) {
        const memory::Buffer& buffer = two->buffers[two->buffer_at(input.value, place)];
        EXPECT_EQ(buffer.begin, 0u);
        EXPECT_EQ(buffer.end, schedule.steps.size() + 1);
        EXPECT_EQ(buffer.size_bytes, two->buffers[two->buffer_of[input.value]].size_bytes);
      }
      EXPECT_NE(two->buffer_at(input.value, 0), two->buffer_at(input.value, 1));
      input_bytes += (two->buffers[two->buffer_of[input.value]].size_bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    for (const graph::State& state : program.states)
      EXPECT_EQ(two->buffer_at(state.start, 1), two->buffer_at(state.start, 0));
    EXPECT_GE(two->plan.peak_bytes, one.plan.peak_bytes + input_bytes);
    EXPECT_LE(two->plan.peak_bytes, one.plan.peak_bytes + 2 * input_bytes);
  }
}

TEST(Placement, ASecondPlaceThatSomethingElseUsesIsFound) {
  const graph::Program program = training_step();
  const kernel::Schedule schedule = naive_schedule(program, false);
  Result<Placement> placed =
      place(program, schedule, std::vector<std::uint64_t>(schedule.steps.size(), 0), 0, InputPlaces::kTwo);
  ASSERT_TRUE(placed) << placed.error().message;
  const ValueId input = std::ranges::max(program.inputs, {}, [&](const graph::Input& each) {
                          return program.values[each.value].elements;
                        }).value;
  // Of the iterations in the second place, what lies over the first one; and the other way round.
  for (const std::uint32_t place : {0u, 1u}) {
    Placement damaged = *placed;
    const ValueId last = program.states[0].end;
    damaged.plan.offsets[damaged.buffer_at(input, place)] = damaged.plan.offsets[damaged.buffer_of[last]];
    EXPECT_FALSE(check_placement(program, schedule, damaged)) << place;
  }
  Placement damaged = *placed;  // a temporary that is dead before the end, over the next iteration's input
  for (ValueId value = 0; value < program.values.size(); ++value) {
    if (program.values[value].kind != graph::ValueKind::kTemporary || damaged.buffer_of[value] == kNone) continue;
    const memory::Buffer& buffer = damaged.buffers[damaged.buffer_of[value]];
    if (buffer.end > schedule.steps.size() ||
        buffer.size_bytes > damaged.buffers[damaged.buffer_at(input, 1)].size_bytes)
      continue;
    damaged.plan.offsets[damaged.buffer_of[value]] = damaged.plan.offsets[damaged.buffer_at(input, 1)];
    break;
  }
  const Result<void> checked = check_placement(program, schedule, damaged);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("the next iteration"));
}

TEST(Placement, AStateThatIsReadAfterItsUpdateIsCopiedHome) {
  ProgramBuilder b;
  const ValueId w = b.state("w", {8});
  const ValueId next = b.op(OpKind::kMultiply, {b.whole(w), b.number(0.5)}, {8});
  b.loss("loss", b.op(OpKind::kAdd, {b.whole(w), b.whole(next)}, {8}));
  b.end_state(w, next);
  const Placement placement = place_or_fail(b.program, naive_schedule(b.program, true));
  ASSERT_EQ(placement.home_copies.size(), 1u);
  EXPECT_EQ(placement.home_copies[0].from, placement.buffer_of[next]);
  EXPECT_EQ(placement.home_copies[0].to, placement.buffer_of[w]);
}

TEST(Placement, AStateThatIsDoneBeforeItsEndIsWrittenNeedsNoPair) {
  ProgramBuilder b;
  const ValueId w = b.state("w", {8});
  const ValueId doubled = b.op(OpKind::kMultiply, {b.whole(w), b.number(2)}, {8});
  b.loss("loss", doubled);
  const ValueId next = b.op(OpKind::kNegate, {b.whole(doubled)}, {8});
  b.end_state(w, next);
  const Placement placement = place_or_fail(b.program, naive_schedule(b.program, false));
  EXPECT_EQ(placement.buffer_of[w], placement.buffer_of[next]);
  EXPECT_TRUE(placement.home_copies.empty());
}

TEST(Placement, StatesMaySwap) {
  ProgramBuilder b;
  const ValueId x = b.state("x", {4}), y = b.state("y", {4});
  const ValueId old_x = b.op(OpKind::kCopy, {b.whole(x)}, {4}), old_y = b.op(OpKind::kCopy, {b.whole(y)}, {4});
  b.loss("loss", old_x);
  b.end_state(x, old_y);
  b.end_state(y, old_x);
  const Placement placement = place_or_fail(b.program, naive_schedule(b.program, true));
  EXPECT_EQ(placement.buffer_of[old_y], placement.buffer_of[x]);  // only one of the two can be written at home
  ASSERT_EQ(placement.home_copies.size(), 1u);
  EXPECT_EQ(placement.home_copies[0].to, placement.buffer_of[y]);
}

TEST(Placement, RefusesAStateThatEndsAsWhatIsNotComputed) {
  ProgramBuilder b;
  const ValueId w = b.state("w", {4}), in = b.input("in", {4});
  b.loss("loss", in);
  b.end_state(w, in);
  const kernel::Schedule schedule = naive_schedule(b.program, true);
  const Result<Placement> placed = place(b.program, schedule, std::vector<std::uint64_t>(schedule.steps.size(), 0));
  ASSERT_FALSE(placed);
  EXPECT_THAT(placed.error().message, HasSubstr("state w ends as value 1"));
}

TEST(Placement, WhatNothingReadsHasNoBuffer) {
  ProgramBuilder b;
  const ValueId unused = b.input("unused", {1000}), used = b.input("used", {4});
  const ValueId idle = b.state("idle", {4});
  b.loss("loss", used);
  const Placement placement = place_or_fail(b.program, naive_schedule(b.program, true));
  EXPECT_EQ(placement.buffer_of[unused], kNone);
  EXPECT_NE(placement.buffer_of[used], kNone);
  EXPECT_NE(placement.buffer_of[idle], kNone);  // carried all the same
}

/// A weight that lives on the host: loaded, halved, stored; `late` loads the old one once more behind that.
struct HostState {
  ProgramBuilder b;
  ValueId w = b.state("w", {64}), loaded = b.op(OpKind::kCopy, {b.whole(w)}, {64});
  ValueId next = b.op(OpKind::kMultiply, {b.whole(loaded), b.number(0.5)}, {64});
  ValueId stored = b.op(OpKind::kCopy, {b.whole(next)}, {64});
  kernel::Schedule schedule;

  explicit HostState(bool late) {
    const ValueId again = late ? b.op(OpKind::kCopy, {b.whole(w)}, {64}) : next;
    b.loss("loss", b.op(OpKind::kNegate, {b.whole(again)}, {64}));
    b.end_state(w, stored);
    schedule = naive_schedule(b.program, true);
    schedule.in_place.clear();
    schedule.is_on_host.assign(b.program.values.size(), false);
    schedule.is_on_host[w] = schedule.is_on_host[stored] = true;
    for (kernel::Step& step : schedule.steps) {
      if (b.program.ops[step.ops[0]].kind == OpKind::kCopy) step.kind = kernel::StepKind::kTransfer;
    }
  }
  Result<Placement> place() const {
    return runtime::place(b.program, schedule, std::vector<std::uint64_t>(schedule.steps.size(), 0));
  }
};

TEST(Placement, AStateOnTheHostTakesNothingOfTheDevice) {
  const HostState it(false);
  const Result<Placement> placed = it.place();
  ASSERT_TRUE(placed) << placed.error().message;
  EXPECT_EQ(placed->buffer_of[it.w], kNone);
  EXPECT_EQ(placed->buffer_of[it.stored], kNone);
  EXPECT_EQ(placed->host_of[it.w], placed->host_of[it.stored]);
  EXPECT_TRUE(placed->home_copies.empty());
  EXPECT_EQ(placed->host_plan.peak_bytes, 256u);
  EXPECT_EQ(placed->host_buffers.size(), 1u);
  const memory::Buffer& home = placed->host_buffers[placed->host_of[it.w]];
  EXPECT_EQ(home.begin, 0u);
  EXPECT_EQ(home.end, it.schedule.steps.size() + 1);  // all the time
}

TEST(Placement, RefusesAStateOnTheHostThatDoesNotEndThere) {
  const Result<Placement> late = HostState(true).place();
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("state w lives on the host and does not end in its place there"));
  HostState away(false);
  away.schedule.is_on_host[away.stored] = false;
  const Result<Placement> ends_on_device = away.place();
  ASSERT_FALSE(ends_on_device);
  EXPECT_THAT(ends_on_device.error().message, HasSubstr("state w lives on the host"));
}

TEST(Placement, IsRefusedWhenAStateDoesNotComeHomeToTheHost) {
  const HostState it(false);
  Result<Placement> placed = it.place();
  ASSERT_TRUE(placed);
  Placement behind = *placed, elsewhere = *placed, forgotten = *placed;
  behind.host_plan.offsets[0] += kAlignment;
  elsewhere.host_buffers.push_back(elsewhere.host_buffers[0]);
  elsewhere.host_plan.offsets.push_back(kAlignment);
  elsewhere.host_plan.peak_bytes += kAlignment;
  elsewhere.host_of[it.stored] = 1;
  forgotten.host_of[it.stored] = kNone;
  const auto words = [&](const Placement& placement) {
    const Result<void> checked = check_placement(it.b.program, it.schedule, placement);
    return checked ? "no error" : checked.error().message;
  };
  EXPECT_EQ(words(*placed), "no error");
  EXPECT_THAT(words(behind), HasSubstr("buffer 0 of the host ends behind its arena of 256 bytes"));
  EXPECT_THAT(words(elsewhere), HasSubstr("state %0 (w) should come home as"));
  EXPECT_THAT(words(forgotten), HasSubstr("which has no buffer"));
}

TEST(Placement, ScratchIsAliveInItsStepAlone) {
  const graph::Program program = training_step();
  const kernel::Schedule schedule = naive_schedule(program, true);
  std::vector<std::uint64_t> scratch(schedule.steps.size(), 0);
  scratch[0] = 100000, scratch[5] = 100000;
  const Result<Placement> placed = place(program, schedule, scratch);
  ASSERT_TRUE(placed) << placed.error().message;
  EXPECT_EQ(placed->buffers[placed->scratch_of[5]].begin, 5u);
  EXPECT_EQ(placed->buffers[placed->scratch_of[5]].end, 6u);
  EXPECT_EQ(placed->scratch_of[1], kNone);
  EXPECT_LT(placed->plan.peak_bytes, 200000u);
}

TEST(Placement, IgnoresPairsThatAreNotLegal) {
  ProgramBuilder b;
  const ValueId c = b.constant("c", {8}), x = b.input("x", {8});
  const ValueId from_constant = b.op(OpKind::kNegate, {b.whole(c)}, {8});
  const ValueId early = b.op(OpKind::kNegate, {b.whole(x)}, {8});
  const ValueId late = b.op(OpKind::kAdd, {b.whole(x), b.whole(early)}, {8});
  b.loss("a", from_constant);
  b.loss("b", late);
  kernel::Schedule schedule = naive_schedule(b.program, false);
  schedule.in_place = {{0, c, from_constant}, {1, x, early}, {7, x, early}, {2, 99, late}};
  const Placement placement = place_or_fail(b.program, schedule);
  EXPECT_NE(placement.buffer_of[c], placement.buffer_of[from_constant]);
  EXPECT_NE(placement.buffer_of[x], placement.buffer_of[early]);
}

TEST(Placement, RefusesAScheduleThatReadsBeforeItWrites) {
  const graph::Program program = training_step();
  kernel::Schedule schedule = naive_schedule(program, true);
  std::swap(schedule.steps[0], schedule.steps[1]);
  const Result<Placement> placed = place(program, schedule, std::vector<std::uint64_t>(schedule.steps.size(), 0));
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, ErrorCode::kInternal);
  EXPECT_THAT(placed.error().message, HasSubstr("step 0 reads value"));
}

TEST(Placement, HoldsOnRandomPrograms) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    graph::RandomOptions options;
    options.seed = seed;
    options.ops = static_cast<std::uint32_t>(5 + 2 * seed);
    const graph::RandomProgram random = graph::random_program(options);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Placement apart = place_or_fail(random.program, naive_schedule(random.program, false));
    const Placement shared = place_or_fail(random.program, naive_schedule(random.program, true));
    EXPECT_LE(shared.plan.lower_bound_bytes, apart.plan.lower_bound_bytes);
  }
}

class CheckPlacement : public testing::Test {
 protected:
  void SetUp() override { placement_ = place_or_fail(program_, schedule_); }
  std::string refusal() const {
    const Result<void> checked = check_placement(program_, schedule_, placement_);
    EXPECT_FALSE(checked);
    if (checked) return "";
    EXPECT_EQ(checked.error().code, ErrorCode::kCheckFailed);
    return checked.error().message;
  }
  ValueId named(const std::string& name) const {
    for (ValueId value = 0; value < program_.values.size(); ++value) {
      if (program_.values[value].name == name) return value;
    }
    return kNone;
  }
  const graph::Program program_ = training_step();
  const kernel::Schedule schedule_ = naive_schedule(program_, true);
  Placement placement_;
};

TEST_F(CheckPlacement, RefusesTwoStatesAtOnePlace) {
  placement_.plan.offsets[placement_.buffer_of[named("w1")]] = offset(placement_, named("momentum of w1"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("the start of the iteration reads"), HasSubstr("w1")));
}

TEST_F(CheckPlacement, RefusesATemporaryOverAState) {
  const ValueId activation = program_.ops[1].outputs[0].value;
  placement_.plan.offsets[placement_.buffer_of[activation]] = offset(placement_, named("w2"));
  EXPECT_THAT(refusal(), HasSubstr("(w2)"));
}

TEST_F(CheckPlacement, RefusesASkippedCopyHome) {
  // As if the update had not been done in place: the new weight stays in a buffer of its own.
  const graph::State& state = program_.states[0];
  placement_.buffer_of[state.end] = static_cast<std::uint32_t>(placement_.buffers.size());
  placement_.buffers.push_back({static_cast<std::uint64_t>(program_.values[state.end].elements) * 4, 0, 1});
  placement_.plan.offsets.push_back(placement_.plan.peak_bytes);
  placement_.plan.peak_bytes += 4096;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("state"), HasSubstr("(w1)"), HasSubstr("should come home as")));
}

TEST_F(CheckPlacement, RefusesScratchOverAnOperand) {
  placement_.scratch_of[4] = placement_.buffer_of[schedule_.steps[4].buffers[0].value];
  EXPECT_THAT(refusal(), HasSubstr("the scratch of step 4 (multiply)"));
}

TEST_F(CheckPlacement, RefusesScratchOverAState) {
  placement_.scratch_of[4] = placement_.buffer_of[named("w1")];
  EXPECT_THAT(refusal(), HasSubstr("(w1)"));
}

TEST_F(CheckPlacement, RefusesAResultOverAnOperandThatIsNotPaired) {
  const kernel::Step& product = schedule_.steps[0];  // a matrix product can never be done in place
  placement_.plan.offsets[placement_.buffer_of[product.buffers.back().value]] =
      offset(placement_, product.buffers[0].value);
  EXPECT_THAT(refusal(), HasSubstr("step 0 (matmul) writes"));
}

TEST_F(CheckPlacement, RefusesAMissingHomeCopy) {
  const kernel::Schedule schedule = naive_schedule(program_, false);
  Placement placement = place_or_fail(program_, schedule);
  ASSERT_EQ(placement.home_copies.size(), 2u);
  placement.home_copies.pop_back();
  const Result<void> checked = check_placement(program_, schedule, placement);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, AllOf(HasSubstr("(w2) should come home as"), HasSubstr("which hold")));
}

TEST_F(CheckPlacement, RefusesABufferBehindTheArena) {
  placement_.plan.peak_bytes -= 4;
  EXPECT_THAT(refusal(), HasSubstr("ends behind the arena"));
}

/// The definition of a correct placement, executed: values are written as patterns into real bytes, step by step.
bool survives_execution(const graph::Program& program, const kernel::Schedule& schedule, const Placement& placement) {
  std::vector<std::uint32_t> arena(placement.plan.peak_bytes / 4, 0xffffffffu);
  const auto words = [&](ValueId value) {
    return std::span(arena).subspan(
        offset(placement, value) / 4,
        static_cast<std::size_t>(program.values[value].elements) * size_bytes(program.values[value].dtype) / 4);
  };
  const auto store = [&](ValueId value, std::uint32_t content) { std::ranges::fill(words(value), content); };
  const auto holds = [&](ValueId value, std::uint32_t content) {
    return std::ranges::all_of(words(value), [&](std::uint32_t word) { return word == content; });
  };
  for (const graph::State& state : program.states) store(state.start, state.start);
  for (const graph::Constant& constant : program.constants) store(constant.value, constant.value);
  for (const graph::Input& input : program.inputs) {
    if (placement.buffer_of[input.value] != kNone) store(input.value, input.value);
  }
  for (std::uint32_t step = 0; step < schedule.steps.size(); ++step) {
    for (const auto& argument : schedule.steps[step].buffers) {
      if (!argument.written && !holds(argument.value, argument.value)) return false;
    }
    for (const auto& argument : schedule.steps[step].buffers) {
      if (argument.written) store(argument.value, argument.value);
    }
    for (const auto& argument : schedule.steps[step].buffers) {
      if (argument.written && !holds(argument.value, argument.value)) return false;
    }
  }
  for (const graph::Output& output : program.outputs) {
    if (!holds(output.operand.value, output.operand.value)) return false;
  }
  for (const HomeCopy& copy : placement.home_copies) {
    const auto* from = &arena[placement.plan.offsets[copy.from] / 4];
    std::copy(from, from + copy.size_bytes / 4, &arena[placement.plan.offsets[copy.to] / 4]);
  }
  for (const graph::State& state : program.states) {
    if (!holds(state.start, state.end)) return false;
  }
  return std::ranges::all_of(program.constants,
                             [&](const graph::Constant& constant) { return holds(constant.value, constant.value); });
}

TEST_F(CheckPlacement, CatchesEveryMutationThatExecutionCatches) {
  std::mt19937 random(5);
  int broken = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    graph::RandomOptions options;
    options.seed = seed;
    options.ops = 20;
    const graph::Program program = graph::random_program(options).program;
    const kernel::Schedule schedule = naive_schedule(program, true);
    const Placement placement = place_or_fail(program, schedule);
    if (std::ranges::any_of(program.values, [](const graph::Value& value) { return size_bytes(value.dtype) < 4; }))
      continue;
    ASSERT_TRUE(survives_execution(program, schedule, placement)) << "seed " << seed;
    for (int attempt = 0; attempt < 10; ++attempt) {
      Placement mutated = placement;
      const std::size_t moved = random() % mutated.buffers.size(), onto = random() % mutated.buffers.size();
      mutated.plan.offsets[moved] = mutated.plan.offsets[onto];
      mutated.plan.peak_bytes += 65536;
      const bool refused = !check_placement(program, schedule, mutated);
      const bool survived = survives_execution(program, schedule, mutated);
      broken += !survived;
      EXPECT_TRUE(survived || refused) << "seed " << seed << ": buffer " << moved << " moved onto " << onto;
    }
  }
  EXPECT_GT(broken, 100);
}

}  // namespace
}  // namespace crucible::runtime
