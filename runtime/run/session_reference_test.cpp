// Sessions of the reference interpreter: no plugin anywhere, the same results and verdicts as with a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/run/session.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Session> open(const Recording& recording) {
  auto session = Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs);
  EXPECT_TRUE(session) << session.error().message;
  return session ? *std::move(session) : nullptr;
}

std::vector<IterationResult> run_all(Session& session, std::uint32_t iterations) {
  std::vector<IterationResult> results;
  for (std::uint32_t i = 0; i < iterations; ++i) {
    auto result = session.run(i);
    EXPECT_TRUE(result) << result.error().message;
    if (!result) return results;
    auto outputs = session.compare_outputs();
    EXPECT_TRUE(outputs) << outputs.error().message;
    if (outputs) result->outputs = *std::move(outputs);
    results.push_back(*std::move(result));
  }
  return results;
}

/// What the interpreter recorded it gives again, bit by bit; a second round after reset() too.
void expect_bit_equal(const Recording& recording) {
  const auto session = open(recording);
  ASSERT_NE(session, nullptr);
  EXPECT_TRUE(session->is_reference());
  for (int round = 0; round < 2; ++round) {
    const auto results = run_all(*session, recording.program.iterations);
    for (const IterationResult& result : results) {
      EXPECT_EQ(result.losses, result.recorded_losses);
      for (const OutputDifference& output : result.outputs) EXPECT_TRUE(output.bit_equal) << output.name;
    }
    const auto verdict = session->verify(results);
    ASSERT_TRUE(verdict) << verdict.error().message;
    EXPECT_TRUE(verdict->verified) << verdict->reason;
    for (const StateDifference& state : verdict->states) EXPECT_TRUE(state.bit_equal) << state.name;
    ASSERT_TRUE(session->reset());
  }
}

TEST(ReferenceSession, ReplaysATrainingStepBitByBit) { expect_bit_equal(record(training_step(), 4, 1)); }

TEST(ReferenceSession, ReplaysRandomPrograms) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    graph::RandomOptions options;
    options.seed = seed;
    options.ops = static_cast<std::uint32_t>(10 + 4 * seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    expect_bit_equal(record(graph::random_program(options), 3));
  }
}

/// The kernels of the program instead of its ops, with the sums that strict numerics name.
TEST(ReferenceSession, RunsKernelsInStrictNumerics) {
  const Recording recording = record(training_step(), 4, 1);
  auto made = Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs,
                                        kernel::Numerics::kStrict);
  ASSERT_TRUE(made) << made.error().message;
  std::vector<std::vector<double>> losses;
  for (int round = 0; round < 2; ++round) {
    const auto results = run_all(**made, recording.program.iterations);
    for (const IterationResult& result : results) losses.push_back(result.losses);
    const auto verdict = (*made)->verify(results);
    ASSERT_TRUE(verdict) << verdict.error().message;
    EXPECT_TRUE(verdict->verified) << verdict->reason;
    ASSERT_TRUE((*made)->reset());
  }
  ASSERT_EQ(losses.size(), 8u);
  EXPECT_EQ(std::vector(losses.begin(), losses.begin() + 4), std::vector(losses.begin() + 4, losses.end()));
}

/// What the next iteration begins with is read as an output of this one.
TEST(ReferenceSession, AnOutputMayBeTheStateAfterwards) {
  ProgramBuilder b;
  const graph::ValueId counter = b.state("counter", {3}), x = b.input("x", {3});
  const graph::ValueId next = b.op(graph::OpKind::kAdd, {b.whole(counter), b.whole(x)}, {3});
  b.end_state(counter, next);
  b.output("after", b.whole(next));
  const Recording recording = record(std::move(b.program), 3, 2);
  expect_bit_equal(recording);
}

TEST(ReferenceSession, AWrongProgramIsNotVerified) {
  Recording recording = record(training_step(), 3, 3);
  for (graph::Number& value : recording.program.slots[0].values) value = recording.program.slots[0].values[0];
  const auto session = open(recording);
  ASSERT_NE(session, nullptr);
  const auto verdict = session->verify(run_all(*session, 3));
  ASSERT_TRUE(verdict) << verdict.error().message;
  EXPECT_FALSE(verdict->verified);
  EXPECT_EQ(verdict->first_bad_iteration, 2u);
}

TEST(ReferenceSession, HasNeitherStepsNorArena) {
  const auto session = open(record(training_step(), 1, 4));
  ASSERT_NE(session, nullptr);
  EXPECT_TRUE(session->schedule().steps.empty());
  EXPECT_EQ(session->arena_bytes(), 0u);
  const auto profile = session->profile();
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, ErrorCode::kUsage);
}

TEST(ReferenceSession, RefusesABlobOfTheWrongSize) {
  Recording recording = record(training_step(), 1, 5);
  recording.program.states[1].initial_blob = recording.program.states[0].initial_blob;
  const auto session =
      Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs);
  ASSERT_FALSE(session);
  EXPECT_THAT(session.error().message, HasSubstr("starting state: w2 has 400 bytes"));
}

/// Bytes that are missing stop the iteration; reset() makes the session usable again.
TEST(ReferenceSession, AFailedIterationCanBeReset) {
  ProgramBuilder b;
  const graph::ValueId x = b.input("x", {4});
  b.loss("loss", x);
  Recording recording = record(std::move(b.program), 2, 6);
  recording.program.inputs[0].blobs.resize(1);
  const auto session = open(recording);
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(session->run(0));
  const auto failed = session->run(1);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("input x was recorded 1 times"));
  ASSERT_TRUE(session->reset());
  EXPECT_TRUE(session->run(0));
}

}  // namespace
}  // namespace crucible::runtime
