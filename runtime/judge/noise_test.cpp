// Elements of noise: which they are, and that they may differ only as noise may.
#include "runtime/judge/noise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/run/session.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

std::vector<std::byte> bytes_of(const std::vector<float>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

struct Blobs : trace::BlobStore {
  std::vector<std::vector<std::byte>> bytes;
  Result<std::vector<std::byte>> load(trace::BlobId id) const override {
    if (id >= bytes.size()) return Error{ErrorCode::kBadInput, "no such blob"};
    return bytes[id];
  }
};

/// "weight" moves by 1e-3; the gradient of its second element is 1e-8 of the first one's.
struct Optimized {
  graph::Program program;
  Blobs blobs;

  Optimized() {
    blobs.bytes = {bytes_of({1, 2}), bytes_of({1.001F, 2.0005F}), bytes_of({1, 1e-16F}), bytes_of({0.5F, 1e-9F})};
    const auto add = [&](std::string name, std::uint32_t initial, std::uint32_t final_blob) {
      const auto id = static_cast<graph::ValueId>(program.values.size());
      program.values.push_back({graph::ValueKind::kState, DType::kF32, 2, std::move(name), graph::kNone});
      program.states.push_back({id, id, initial, final_blob});
    };
    add("weight", 0, 1);
    add("exp_avg_sq of weight", graph::kNone, 2);
    add("exp_avg of weight", graph::kNone, 3);
    add("other", 0, 1);
  }

  std::size_t place_of(std::string_view name) const {
    return static_cast<std::size_t>(
        std::ranges::find_if(program.states,
                             [&](const graph::State& s) { return program.values[s.start].name == name; }) -
        program.states.begin());
  }

  double difference(std::string_view name, const std::vector<float>& actual, std::size_t expected) const {
    const auto noise = Noise::find(program, blobs, 1e-5);
    EXPECT_TRUE(noise);
    return noise->gap(place_of(name), DType::kF32, bytes_of(actual), blobs.bytes[expected]).largest;
  }
};

TEST(Noise, IsFoundByTheSecondMoment) {
  const Optimized recording;
  const auto noise = Noise::find(recording.program, recording.blobs, 1e-5);
  ASSERT_TRUE(noise);
  EXPECT_EQ(noise->count(), 1u);
  EXPECT_EQ(noise->elements(0), (std::vector<bool>{false, true}));
  EXPECT_EQ(noise->elements(2), (std::vector<bool>{false, true}));
  EXPECT_TRUE(noise->elements(3).empty());
}

TEST(Noise, AParameterMayGoAnotherWayButNoFurther) {
  const Optimized recording;
  EXPECT_EQ(recording.difference("weight", {1.001F, 1.9995F}, 1), 0);
  EXPECT_NEAR(recording.difference("weight", {1.001F, 1.99F}, 1), 0.0105 / 2.0005, 1e-6)
      << "a difference as any other, with its size";
  EXPECT_NEAR(recording.difference("weight", {1.011F, 2.0005F}, 1), 0.005, 1e-4) << "an element that is determined";
}

TEST(Noise, MomentsStayNoise) {
  const Optimized recording;
  EXPECT_EQ(recording.difference("exp_avg of weight", {0.5F, -3e-8F}, 3), 0);
  EXPECT_NEAR(recording.difference("exp_avg of weight", {0.5F, 2e-4F}, 3), 4e-4, 1e-6);
  EXPECT_EQ(recording.difference("exp_avg_sq of weight", {1, 9e-17F}, 2), 0);
  EXPECT_NEAR(recording.difference("exp_avg_sq of weight", {1, 2e-8F}, 2), 2e-8, 1e-12);
  EXPECT_TRUE(std::isinf(recording.difference("exp_avg of weight", {0.5F, std::nanf("")}, 3)));
}

TEST(Noise, StepsAreAsLargeAsOtherSteps) {
  Optimized recording;
  recording.blobs.bytes.push_back(bytes_of({0.8F, -0.9F}));
  const auto id = static_cast<graph::ValueId>(recording.program.values.size());
  recording.program.values.push_back(
      {graph::ValueKind::kState, DType::kF32, 2, "momentum_buffer of weight", graph::kNone});
  recording.program.states.push_back({id, id, graph::kNone, 4});
  EXPECT_EQ(recording.difference("momentum_buffer of weight", {0.8F, 0.9F}, 4), 0);
  EXPECT_NEAR(recording.difference("momentum_buffer of weight", {0.8F, 1.9F}, 4), 2.8 / 0.9, 1e-5);
  EXPECT_NEAR(recording.difference("momentum_buffer of weight", {0.89F, -0.9F}, 4), 0.1, 1e-6)
      << "an element that is determined";
}

/// Two optimizers over one parameter: each one's moments are judged by its own, the parameter by both.
TEST(Noise, StatesOfOneNameAreKnownByTheirPlace) {
  Optimized recording;
  recording.blobs.bytes.push_back(bytes_of({1e-16F, 1}));
  for (const auto& [name, blob] : {std::pair("exp_avg_sq of weight", 4U), std::pair("exp_avg of weight", 3U)}) {
    const auto id = static_cast<graph::ValueId>(recording.program.values.size());
    recording.program.values.push_back({graph::ValueKind::kState, DType::kF32, 2, name, graph::kNone});
    recording.program.states.push_back({id, id, graph::kNone, blob});
  }
  const auto noise = Noise::find(recording.program, recording.blobs, 1e-5);
  ASSERT_TRUE(noise);
  EXPECT_EQ(noise->elements(2), (std::vector<bool>{false, true}));
  EXPECT_EQ(noise->elements(4), (std::vector<bool>{true, false}));
  EXPECT_EQ(noise->elements(5), (std::vector<bool>{true, false}));
  EXPECT_EQ(noise->elements(0), (std::vector<bool>{false, false})) << "what one of them determines is determined";
}

TEST(Noise, OthersAreComparedAsTheyAre) {
  EXPECT_NEAR(Optimized().difference("other", {1.001F, 2.0105F}, 1), 0.005, 1e-4);
}

TEST(Noise, AMissingBlobIsAnError) {
  Optimized recording;
  recording.program.states[1].final_blob = 9;
  EXPECT_FALSE(Noise::find(recording.program, recording.blobs, 1e-5));
}

TEST(Tolerances, FollowTheNarrowestDtype) {
  graph::Program program = Optimized().program;
  EXPECT_EQ(tolerances_of(program).loss, 1e-5);
  program.was_tf32 = true;
  EXPECT_EQ(tolerances_of(program).loss, 1e-3);
  EXPECT_EQ(tolerances_of(program).state, 8e-3);
  program.was_tf32 = false;
  program.values[3].dtype = DType::kF16;
  EXPECT_EQ(tolerances_of(program).loss, 1e-3);
  program.values[2].dtype = DType::kBF16;
  EXPECT_EQ(tolerances_of(program).state, 6e-2);
}

/// A cross entropy of a kind: the sum of scaled logarithms of `x`, put through `last` where one is given.
graph::Program loss_of_logarithms(bool is_scaled_by_a_number, bool is_squared) {
  ProgramBuilder b;
  const graph::ValueId x = b.input("x", {8, 6});
  const graph::ValueId log = b.op(graph::OpKind::kLog, {b.whole(x)}, {8, 6});
  const graph::ValueId scaled = b.op(
      graph::OpKind::kMultiply,
      {b.whole(log), is_scaled_by_a_number ? ProgramBuilder::number(-0.125) : b.whole(is_squared ? log : x)}, {8, 6});
  b.loss("loss", scaled);
  return std::move(b.program);
}

TEST(RoundingOfLoss, OfLogarithmsIsAbsolute) {
  const graph::Program program = loss_of_logarithms(true, false);
  EXPECT_EQ(rounding_of_loss(program, program.outputs[0]), 4 * 0x1p-23);
}

TEST(RoundingOfLoss, OfSquaresAndOfOtherLossesIsNone) {
  for (const bool is_squared : {false, true}) {
    const graph::Program program = loss_of_logarithms(false, is_squared);
    EXPECT_EQ(rounding_of_loss(program, program.outputs[0]), 0) << is_squared;
  }
  const graph::Program squares = training_step();
  EXPECT_EQ(rounding_of_loss(squares, squares.outputs[0]), 0);
}

/// A small loss of logarithms: what a rounding leaves open is excused and counted, the next larger difference is not.
TEST(RoundingOfLoss, IsWhatVerificationAllows) {
  const auto verdict_of = [](double away) {
    Recording recording = record(loss_of_logarithms(true, false), 1, 5);
    recording.program.outputs[0].recorded = {6e-4};
    auto session =
        Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs);
    EXPECT_TRUE(session) << session.error().message;
    std::vector<IterationResult> results = {*(*session)->run(0)};
    results[0].losses[0] = 6e-4 + away;
    return *(*session)->verify(results);
  };
  const Verification within = verdict_of(4e-7), beyond = verdict_of(6e-7);
  EXPECT_TRUE(within.verified) << within.reason;
  EXPECT_EQ(within.losses_rounded, 1u);
  EXPECT_EQ(within.loss_rounding, 4 * 0x1p-23);
  EXPECT_FALSE(beyond.verified);
  EXPECT_EQ(beyond.losses_rounded, 0u);
  EXPECT_EQ(verdict_of(1e-9).losses_rounded, 0u) << "within the relative tolerance";
}

}  // namespace
}  // namespace crucible::runtime
