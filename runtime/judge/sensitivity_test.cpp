// How far runs spread that start one rounding apart, and what verification makes of it: on the reference interpreter,
// so that every number is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/run/session.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using ::testing::HasSubstr;

/// x becomes rate x (1 - x): for rate 4 runs part by a factor of two per iteration, for rate 2 they come together.
/// `steps` times in each iteration.
Recording logistic(double rate, int steps) {
  ProgramBuilder b;
  const graph::ValueId x = b.state("x", {4});
  graph::ValueId now = x;
  for (int i = 0; i < steps; ++i) {
    const graph::ValueId rest = b.op(graph::OpKind::kSubtract, {ProgramBuilder::number(1), b.whole(now)}, {4});
    const graph::ValueId product = b.op(graph::OpKind::kMultiply, {b.whole(now), b.whole(rest)}, {4});
    now = b.op(graph::OpKind::kMultiply, {b.whole(product), ProgramBuilder::number(rate)}, {4});
  }
  b.end_state(x, now);
  Recording recording = record(b.program, 2, 7);
  // Starting values that are inside of the unit interval, whatever the recorder of tests chose.
  std::vector<std::byte> start(16);
  const float values[4] = {0.3f, 0.4f, 0.55f, 0.7f};
  std::memcpy(start.data(), values, sizeof(values));
  recording.program.states[0].initial_blob = recording.blobs->add(start);
  return recording;
}

Result<Spread> measure_spread(Session& session, const std::vector<IterationResult>& results, std::uint32_t runs) {
  Spread spread;
  CRUCIBLE_TRY_VOID(session.start_spread(results, spread));
  while (spread.runs < runs) CRUCIBLE_TRY_VOID(session.widen_spread(spread));
  return spread;
}

struct Judged {
  std::unique_ptr<Session> session;
  Verification verification;
  std::vector<IterationResult> results;
};

/// A replay whose recorded end is a plain evaluation in f32, times `factor`.
Judged verified(Recording& recording, float factor) {
  std::vector<float> x = {0.3f, 0.4f, 0.55f, 0.7f};
  for (std::size_t step = 0; step < recording.program.ops.size() / 3 * recording.program.iterations; ++step) {
    const double rate = recording.program.ops[2].inputs[1].scalar.real;
    for (float& v : x) v = static_cast<float>(static_cast<float>(v * (1 - v)) * rate);
  }
  for (float& v : x) v *= factor;
  std::vector<std::byte> end(16);
  std::memcpy(end.data(), x.data(), 16);
  recording.program.states[0].final_blob = recording.blobs->add(end);
  auto session = Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs);
  EXPECT_TRUE(session) << session.error().message;
  std::vector<IterationResult> results;
  for (std::uint32_t i = 0; i < recording.program.iterations; ++i) {
    auto result = (*session)->run(i);
    EXPECT_TRUE(result) << result.error().message;
    results.push_back(*std::move(result));
  }
  auto verification = (*session)->verify(results);
  EXPECT_TRUE(verification) << verification.error().message;
  return {*std::move(session), *verification, std::move(results)};
}

TEST(Sensitivity, ADifferenceThatOneRoundingMakesIsNotDetermined) {
  Recording recording = logistic(4, 20);
  Judged judged =
      verified(recording, 1.5f);  // far from it, as another order of roundings would be after forty doublings
  EXPECT_FALSE(judged.verification.verified);
  EXPECT_THAT(judged.verification.reason, HasSubstr("after iteration 1: 1 of 1 states"));
  const auto spread = measure_spread(*judged.session, judged.results, 3);
  ASSERT_TRUE(spread) << spread.error().message;
  EXPECT_GT(spread->states.at(0).largest, 0.1);
  consider_spread(judged.verification, *spread);
  EXPECT_TRUE(judged.verification.verified) << judged.verification.reason;
  EXPECT_EQ(judged.verification.states_undetermined, 1u);
  EXPECT_EQ(judged.verification.spread_runs, 3u);
}

TEST(Sensitivity, ADifferenceThatNoRoundingMakesStaysOne) {
  Recording recording = logistic(2, 3);
  Judged judged = verified(recording, 1.01f);
  EXPECT_FALSE(judged.verification.verified);
  const auto spread = measure_spread(*judged.session, judged.results, 3);
  ASSERT_TRUE(spread) << spread.error().message;
  EXPECT_LT(spread->states.at(0).largest, 1e-6);
  consider_spread(judged.verification, *spread);
  EXPECT_FALSE(judged.verification.verified);
  EXPECT_EQ(judged.verification.states_undetermined, 0u);
  EXPECT_THAT(judged.verification.reason, HasSubstr("runs one rounding apart"));
}

/// `logistic` with a loss, its recorded number `factor` times the true one, the judged device's `wrong` times. The
/// spread is a right device's.
Verification judged_loss(double rate, int steps, double factor, double wrong = 1) {
  Recording made = logistic(rate, steps);
  graph::Output loss;
  loss.operand = {made.program.states[0].end, graph::View::contiguous({}), {}};
  loss.operand.view.offset = 3;  // of 0.7 the first step keeps what one rounding adds
  loss.name = "loss";
  loss.recorded.assign(made.program.iterations, 0);
  made.program.outputs.push_back(loss);
  const auto losses_of = [&] {
    auto session = *Session::create_reference(std::make_shared<const graph::Program>(made.program), made.blobs);
    std::vector<IterationResult> results;
    for (std::uint32_t i = 0; i < made.program.iterations; ++i) results.push_back(*session->run(i));
    return std::pair(std::move(session), std::move(results));
  };
  const auto truth = losses_of().second;
  for (std::uint32_t i = 0; i < made.program.iterations; ++i)
    made.program.outputs.back().recorded[i] = truth[i].losses[0] * factor;
  auto [session, results] = losses_of();
  std::vector<IterationResult> judged = results;
  for (IterationResult& result : judged) result.losses[0] *= wrong;
  auto verdict = session->verify(judged);
  EXPECT_TRUE(verdict) << verdict.error().message;
  verdict->states.clear();  // states are the other tests' matter
  const auto spread = measure_spread(*session, results, 3);
  EXPECT_TRUE(spread) << spread.error().message;
  consider_spread(*verdict, *spread);
  return *verdict;
}

TEST(Sensitivity, LossesAreJudgedLikeStates) {
  const Verification chaotic = judged_loss(4, 30, 1.001);
  EXPECT_EQ(chaotic.losses.size(), 2u);
  EXPECT_EQ(chaotic.losses_undetermined, 2u);
  EXPECT_TRUE(chaotic.verified) << chaotic.reason;
  const Verification tame = judged_loss(2, 3, 1.001);
  EXPECT_EQ(tame.losses_undetermined, 0u);
  EXPECT_FALSE(tame.verified);
  EXPECT_EQ(tame.first_bad_iteration, 0u);
  EXPECT_THAT(tame.reason, HasSubstr("iteration 0: loss is"));
  EXPECT_THAT(tame.reason, HasSubstr("runs one rounding apart"));
}

TEST(Sensitivity, RunsOfAnotherDeviceDoNotExcuseWhatTheJudgedOneGotWrong) {
  const Verification tame = judged_loss(2, 3, 1, 1.001);
  EXPECT_EQ(tame.losses.size(), 2u);
  EXPECT_EQ(tame.losses_undetermined, 0u);
  EXPECT_FALSE(tame.verified);
}

TEST(Sensitivity, WhatAgreesStaysVerifiedAndTheSessionCanGoOn) {
  Recording recording = logistic(2, 3);
  Judged judged = verified(recording, 1.0f);
  EXPECT_TRUE(judged.verification.verified) << judged.verification.reason;
  const auto spread = measure_spread(*judged.session, judged.results, 2);
  ASSERT_TRUE(spread) << spread.error().message;
  EXPECT_EQ(spread->runs, 2u);
  consider_spread(judged.verification, *spread);
  EXPECT_TRUE(judged.verification.verified);
  ASSERT_TRUE(judged.session->reset());
  EXPECT_TRUE(judged.session->run(0));
  const auto early = measure_spread(*judged.session, judged.results, 1);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kUsage);
  EXPECT_THAT(early.error().message, HasSubstr("after all 2 iterations, 1 have run"));
}

}  // namespace
}  // namespace crucible::runtime
