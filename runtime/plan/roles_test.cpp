// Roles of a whole training step whose phases and modules are known, of states that the recording names, and of odd
// programs.
#include "runtime/plan/roles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using graph::Phase;
using graph::ValueId;
using ::testing::HasSubstr;

/// training_step() as if it had been recorded: ops 0 to 5 are the forward, 6 to 12 the backward, the rest the
/// optimizer.
graph::Program recorded_step() {
  graph::Program program = training_step();
  for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
    const Phase phase = op < 6 ? Phase::kForward : op < 13 ? Phase::kBackward : Phase::kOptimizer;
    const std::string module = phase != Phase::kForward ? "" : op < 2 ? "body.first" : op < 3 ? "body.second" : "loss";
    program.sources.push_back({"aten::op" + std::to_string(op), module, "train.py:" + std::to_string(op), phase, op});
    program.ops[op].source = op;
  }
  for (graph::Value& value : program.values) {
    if (value.name == "w1") value.name = "body.first.w1";
    if (value.name == "w2") value.name = "body.second.w2";
    if (value.name == "momentum of w1") value.name = "momentum of body.first.w1";
  }
  return program;
}

struct Planned {
  graph::Program program;
  kernel::Schedule schedule;
  Placement placement;
  PlanRoles roles;
};

Planned plan(graph::Program program, const RecordedRoles& recorded = {}, bool in_place = true,
             std::uint64_t scratch = 0) {
  Planned planned{std::move(program), {}, {}, {}};
  planned.schedule = naive_schedule(planned.program, in_place);
  Result<Placement> placed =
      place(planned.program, planned.schedule, std::vector<std::uint64_t>(planned.schedule.steps.size(), scratch));
  EXPECT_TRUE(placed) << placed.error().message;
  if (placed) planned.placement = *std::move(placed);
  planned.roles = assign_roles(planned.program, planned.schedule, planned.placement, recorded);
  return planned;
}

/// The role of what op number `op` makes.
const ValueRole& of_op(const Planned& planned, std::size_t op) {
  return planned.roles.values[planned.program.ops[op].outputs[0].value];
}

const ValueRole& of_name(const Planned& planned, const std::string& name) {
  const auto found = std::ranges::find(planned.program.values, name, &graph::Value::name);
  EXPECT_NE(found, planned.program.values.end()) << name;
  return planned.roles.values[static_cast<std::size_t>(found - planned.program.values.begin())];
}

TEST(Roles, FollowWhatIsCopiedFromTheHostAndBack) {
  ProgramBuilder b;
  const ValueId w = b.state("body.w", {64}), loaded = b.op(graph::OpKind::kCopy, {b.whole(w)}, {64});
  const ValueId next = b.op(graph::OpKind::kMultiply, {b.whole(loaded), b.number(0.5)}, {64});
  const ValueId stored = b.op(graph::OpKind::kCopy, {b.whole(next)}, {64});
  b.loss("loss", b.op(graph::OpKind::kNegate, {b.whole(loaded)}, {64}));
  b.end_state(w, stored);
  Planned planned{std::move(b.program), {}, {}, {}};
  planned.schedule = naive_schedule(planned.program, false);
  planned.schedule.is_on_host.assign(planned.program.values.size(), false);
  planned.schedule.is_on_host[w] = planned.schedule.is_on_host[stored] = true;
  planned.schedule.steps[0].kind = planned.schedule.steps[2].kind = kernel::StepKind::kTransfer;
  Result<Placement> placed =
      place(planned.program, planned.schedule, std::vector<std::uint64_t>(planned.schedule.steps.size(), 0));
  ASSERT_TRUE(placed) << placed.error().message;
  planned.placement = *std::move(placed);
  const PlanRoles roles =
      assign_roles(planned.program, planned.schedule, planned.placement, {{"body.w", trace::Role::kOptimizerState}});
  for (const ValueId value : {loaded, next}) {
    EXPECT_EQ(roles.values[value].role, Role::kOptimizerState) << value;
    EXPECT_EQ(roles.values[value].name, "body.w");
    EXPECT_EQ(roles.buffers[planned.placement.buffer_of[value]], Role::kOptimizerState);
  }
}

TEST(Roles, OfATrainingStep) {
  const Planned planned = plan(recorded_step());
  EXPECT_EQ(of_name(planned, "body.first.w1").role, Role::kParameter);
  EXPECT_EQ(of_name(planned, "body.second.w2").role, Role::kParameter);
  EXPECT_EQ(of_name(planned, "momentum of body.first.w1").role, Role::kOptimizerState);
  EXPECT_EQ(of_name(planned, "x").role, Role::kInput);
  EXPECT_EQ(of_op(planned, 0).role, Role::kTemporary);   // h: the forward alone reads it
  EXPECT_EQ(of_op(planned, 1).role, Role::kActivation);  // a
  EXPECT_EQ(of_op(planned, 2).role, Role::kTemporary);   // y
  EXPECT_EQ(of_op(planned, 3).role, Role::kActivation);  // error
  EXPECT_EQ(of_op(planned, 6).role, Role::kTemporary);   // dy
  EXPECT_EQ(of_op(planned, 7).role, Role::kGradient);    // g2
  EXPECT_EQ(of_op(planned, 11).role, Role::kTemporary);  // dh
  EXPECT_EQ(of_op(planned, 12).role, Role::kGradient);   // g1
  for (const graph::State& state : planned.program.states) {
    EXPECT_EQ(planned.roles.values[state.end].role, planned.roles.values[state.start].role);
  }
}

TEST(Roles, NamesAndModulesReachTheBackward) {
  const Planned planned = plan(recorded_step());
  EXPECT_EQ(of_op(planned, 12).name, "grad of body.first.w1");
  EXPECT_EQ(of_op(planned, 12).module, "body.first");
  EXPECT_EQ(of_op(planned, 7).name, "grad of body.second.w2");
  EXPECT_EQ(of_op(planned, 1).name, "aten::op1 of body.first");
  EXPECT_EQ(of_op(planned, 9).name, "aten::op9 of body.first");
  EXPECT_EQ(of_op(planned, 8).module, "body.second");   // da = dy w2^T: of the parameter that it reads
  EXPECT_EQ(of_op(planned, 9).module, "body.first");    // a * a: of the activation
  EXPECT_EQ(of_op(planned, 11).module, "body.second");  // da * slope: of the first that it reads
  EXPECT_EQ(of_name(planned, "momentum of body.first.w1").module, "body.first");
  EXPECT_EQ(planned.program.sources[of_op(planned, 12).source].site, "train.py:12");
}

TEST(Roles, TheRecordingsWordGoesBeforeWhatTheStepsDo) {
  const Planned planned = plan(recorded_step(), {{"body.first.w1", trace::Role::kBuffer},
                                                 {"momentum of body.first.w1", trace::Role::kParameter},
                                                 {"body.second.w2", trace::Role::kInput}});
  EXPECT_EQ(of_name(planned, "body.first.w1").role, Role::kModuleBuffer);
  EXPECT_EQ(of_name(planned, "momentum of body.first.w1").role, Role::kParameter);
  EXPECT_EQ(of_name(planned, "body.second.w2").role, Role::kParameter);
}

TEST(Roles, ClippingBetweenBackwardAndOptimizerMakesGradients) {
  graph::Program program = recorded_step();
  // As recorded: the op that adds weight decay to the gradient ran outside of optimizer and backward.
  program.sources[14].phase = Phase::kForward;
  const Planned planned = plan(std::move(program));
  EXPECT_EQ(of_op(planned, 12).role, Role::kGradient);
  EXPECT_EQ(of_op(planned, 14).role, Role::kGradient);
  EXPECT_EQ(of_op(planned, 14).name, "grad of body.first.w1");
  EXPECT_EQ(planned.roles.steps[14], Phase::kOptimizer);
}

TEST(Roles, AGradientThatStaysInAKernelIsHeldAsWhatItIsMadeOf) {
  const graph::Program program = recorded_step();
  kernel::Schedule schedule = naive_schedule(program, false);
  // Automatic mixed precision ends with a conversion of each gradient; here op 14, of the backward, in the kernel of
  // op 16.
  graph::Program converted = program;
  converted.sources[14].phase = Phase::kBackward;
  const ValueId full = program.ops[14].outputs[0].value, decayed = program.ops[13].outputs[0].value,
                made = program.ops[12].outputs[0].value;
  std::erase_if(schedule.steps[16].buffers,
                [&](const kernel::BufferArgument& argument) { return argument.value == full; });
  schedule.steps[16].buffers.push_back({made, false});
  schedule.steps[16].buffers.push_back({decayed, false});
  schedule.steps.erase(schedule.steps.begin() + 14);
  const Result<Placement> placed = place(converted, schedule, std::vector<std::uint64_t>(schedule.steps.size(), 0));
  ASSERT_TRUE(placed) << placed.error().message;
  ASSERT_EQ(placed->buffer_of[full], graph::kNone);
  const PlanRoles roles = assign_roles(converted, schedule, *placed, {});
  EXPECT_EQ(roles.values[made].role, Role::kGradient);
  EXPECT_EQ(roles.values[made].name, "grad of body.first.w1");
}

TEST(Roles, WhatIsFusedIntoTheForwardIsMadeThere) {
  graph::Program program = recorded_step();
  kernel::Schedule schedule = naive_schedule(program, false);
  // As the scheduler does it with derivatives: op 9, a * a of the backward, in the step that makes a.
  schedule.steps[1].ops.push_back(9);
  schedule.steps[1].buffers.push_back({program.ops[9].outputs[0].value, true});
  schedule.steps.erase(schedule.steps.begin() + 9);
  const Result<Placement> placed = place(program, schedule, std::vector<std::uint64_t>(schedule.steps.size(), 0));
  ASSERT_TRUE(placed) << placed.error().message;
  const PlanRoles roles = assign_roles(program, schedule, *placed, {});
  EXPECT_EQ(roles.steps[1], Phase::kForward);
  EXPECT_EQ(roles.values[program.ops[9].outputs[0].value].role, Role::kActivation);
}

TEST(Roles, CarriedGradientsAndBuffersWithoutTheRecordingsWord) {
  ProgramBuilder b;
  const ValueId grad = b.state("grad of w", {8}), mean = b.state("norm.running_mean", {8}),
                frozen = b.state("frozen", {8});
  const ValueId next = b.op(graph::OpKind::kAdd, {b.whole(mean), b.whole(frozen)}, {8});
  b.loss("loss", b.op(graph::OpKind::kAdd, {b.whole(next), b.whole(grad)}, {8}));
  b.end_state(mean, next);
  const Planned planned = plan(std::move(b.program));
  EXPECT_EQ(of_name(planned, "grad of w").role, Role::kGradient);
  EXPECT_EQ(of_name(planned, "norm.running_mean").role, Role::kModuleBuffer);
  EXPECT_EQ(of_name(planned, "frozen").role, Role::kParameter);
  EXPECT_THAT(of_op(planned, 1).name, HasSubstr("%"));  // no source: its number
}

TEST(Roles, OfBuffersWithWorkspaces) {
  const Planned planned = plan(recorded_step(), {}, true, 300);
  std::size_t workspaces = 0;
  for (std::size_t buffer = 0; buffer < planned.roles.buffers.size(); ++buffer) {
    if (planned.roles.buffers[buffer] != Role::kWorkspace) continue;
    ++workspaces;
    EXPECT_EQ(planned.roles.value_of[buffer], graph::kNone);
  }
  EXPECT_EQ(workspaces, planned.schedule.steps.size());
  // A buffer that several values share is the state's, where one lies in it.
  for (const graph::State& state : planned.program.states) {
    const std::uint32_t buffer = planned.placement.buffer_of[state.start];
    EXPECT_EQ(planned.roles.value_of[buffer], state.start);
    EXPECT_GE(planned.roles.members[buffer], 2u);
  }
  EXPECT_EQ(planned.roles.steps.front(), Phase::kForward);
  EXPECT_EQ(planned.roles.steps[8], Phase::kBackward);
  EXPECT_EQ(planned.roles.steps.back(), Phase::kOptimizer);
}

TEST(Roles, WhatTheBackwardComputesAgainIsMadeThere) {
  const graph::Program program = recorded_step();
  kernel::Schedule schedule = naive_schedule(program, false);
  // As the scheduler does it with what costs little: op 1 of the forward once more in the step of op 11, which reads
  // da.
  schedule.steps[11].ops.insert(schedule.steps[11].ops.begin(), 1);
  const Result<Placement> placed = place(program, schedule, std::vector<std::uint64_t>(schedule.steps.size(), 0));
  ASSERT_TRUE(placed) << placed.error().message;
  const PlanRoles roles = assign_roles(program, schedule, *placed, {});
  EXPECT_EQ(roles.steps[11], Phase::kBackward);
  EXPECT_EQ(roles.values[program.ops[11].outputs[0].value].role, Role::kTemporary);
}

TEST(Roles, ABufferTakesTurns) {
  ProgramBuilder b;
  const ValueId w = b.state("w", {8}), x = b.input("x", {8});
  const ValueId a = b.op(graph::OpKind::kMultiply, {b.whole(x), b.whole(w)}, {8});  // over x
  const ValueId t = b.op(graph::OpKind::kExp, {b.whole(a)}, {8});                   // over a
  const ValueId g = b.op(graph::OpKind::kNegate, {b.whole(t)}, {8});                // over t
  b.end_state(w, b.op(graph::OpKind::kAdd, {b.whole(w), b.whole(g)}, {8}));
  for (std::uint32_t op = 0; op < b.program.ops.size(); ++op) {
    b.program.sources.push_back({"aten::op", "", "",
                                 op < 1   ? Phase::kForward
                                 : op < 3 ? Phase::kBackward
                                          : Phase::kOptimizer,
                                 op});
    b.program.ops[op].source = op;
  }
  const Planned planned = plan(std::move(b.program));
  const std::uint32_t shared = planned.placement.buffer_of[x];
  ASSERT_EQ(planned.placement.buffer_of[a], shared);
  ASSERT_EQ(planned.placement.buffer_of[g], shared);
  // x is replaced by a at step 0, which the backward reads; t and g are of the backward, and g is a gradient.
  const std::vector<Turn>& turns = planned.roles.turns[shared];
  EXPECT_EQ(role_at(turns, 0), Role::kActivation);
  EXPECT_EQ(role_at(turns, 1), Role::kTemporary);
  EXPECT_EQ(role_at(turns, 2), Role::kGradient);
  EXPECT_EQ(role_at(turns, 3), Role::kGradient);
  EXPECT_EQ(planned.roles.turns[planned.placement.buffer_of[w]], (std::vector<Turn>{{0, Role::kParameter}}));
  for (const std::vector<Turn>& each : planned.roles.turns) EXPECT_FALSE(each.empty());
}

TEST(Roles, TheMostBytesAliveAreTheLowerBound) {
  for (const bool in_place : {false, true}) {
    const Planned planned = plan(recorded_step(), {}, in_place, 1000);
    const std::vector<std::uint64_t> live = live_bytes(planned.placement, planned.schedule.steps.size());
    ASSERT_EQ(live.size(), planned.schedule.steps.size() + 1);
    EXPECT_EQ(std::ranges::max(live), planned.placement.plan.lower_bound_bytes);
    EXPECT_EQ(live[planned.placement.plan.lower_bound_time], planned.placement.plan.lower_bound_bytes);
  }
}

}  // namespace
}  // namespace crucible::runtime
