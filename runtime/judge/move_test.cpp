// How far a state moved: a wrong step is found where the parameter hides it, and roundings and other branches are none.
#include "runtime/judge/move.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/run/session.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using graph::OpKind;
using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(const std::vector<float>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

/// Parameters of about 1 and the ends of three steps, each stored in f32: of `size` times the drawn ones, times
/// `factor`.
struct Steps {
  std::vector<float> start, step;

  explicit Steps(std::size_t count, double size) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < count; ++i)
      start.push_back(normal(random)), step.push_back(normal(random) * static_cast<float>(size));
  }
  std::vector<float> end(double factor) const {
    std::vector<float> end = start;
    for (int iteration = 0; iteration < 3; ++iteration) {
      for (std::size_t i = 0; i < end.size(); ++i) end[i] = static_cast<float>(end[i] - step[i] * factor);
    }
    return end;
  }
  Move move(const std::vector<float>& actual) const {
    return move_between(DType::kF32, bytes_of(start), bytes_of(actual), bytes_of(end(1)), 3);
  }
};

TEST(Move, AWrongStepIsFoundWhereTheParameterHidesIt) {
  const Steps steps(1000, 1e-3);
  const Move move = steps.move(steps.end(1.001));
  EXPECT_NEAR(move.factor, 1e-3, 2e-5);
  EXPECT_GT(move.middle, 5e-4) << "less what storing may round";
  EXPECT_FALSE(is_same_move(move, {}));
  EXPECT_TRUE(is_same_move(steps.move(steps.end(1 + 1e-6)), {}));
}

TEST(Move, AStepThatIsAThousandRoundingsIsFoundByAllElementsTogether) {
  const Steps steps(20000, 1e-5);
  const Move move = steps.move(steps.end(1.001));
  EXPECT_LT(move.middle, 1e-4) << "of any one element it could be the rounding";
  EXPECT_NEAR(move.factor, 1e-3, 1e-4);
  EXPECT_FALSE(is_same_move(move, {}));
}

TEST(Move, WhatStoringRoundsIsNoDifference) {
  for (const std::size_t count : {1U, 5U, 64U, 4096U}) {
    for (const double size : {1e-3, 1e-5, 1e-7}) {
      const Steps steps(count, size);
      std::vector<float> other = steps.end(1);
      for (std::size_t i = 0; i < other.size(); i += 2) other[i] = std::nextafter(other[i], i % 4 == 0 ? 9.0F : -9.0F);
      EXPECT_TRUE(is_same_move(steps.move(other), {})) << count << " elements, steps of " << size;
    }
  }
}

TEST(Move, EqualElementsAreRoundedAlike) {
  const std::vector<float> start(64, 1.0F), end(64, 1.0F - 1e-4F), other(64, std::nextafter(1.0F - 1e-4F, 0.0F));
  EXPECT_TRUE(is_same_move(move_between(DType::kF32, bytes_of(start), bytes_of(other), bytes_of(end), 1), {}));
}

TEST(Move, AnotherBranchInSomeElementsIsNoFactor) {
  const Steps steps(1000, 1e-3);
  std::vector<float> other = steps.end(1);
  for (std::size_t i = 0; i < 100; ++i) other[7 * i] = steps.start[7 * i];
  EXPECT_EQ(steps.move(other).middle, 0);
  const std::vector<float> one = steps.end(1);
  std::vector<float> far = one;
  far[5] += 1;
  EXPECT_TRUE(is_same_move(steps.move(far), {})) << "the tolerance of the state is what judges this";
}

TEST(Move, RunsThatPartExplainIt) {
  const Move off{.middle = 1e-3, .factor = 1e-3};
  EXPECT_FALSE(is_same_move(off, {}));
  EXPECT_TRUE(is_same_move(off, {}, {.middle = 3e-4, .factor = 3e-4}));
  EXPECT_FALSE(is_same_move(off, {}, {.middle = 3e-4, .factor = 1e-4}));
  EXPECT_TRUE(is_same_move({.factor = 1e-3, .noise = 1e-3}, {}));
}

TEST(Move, ZerosNaNAndIntegers) {
  const float nan = std::nanf("");
  EXPECT_NEAR(move_between(DType::kF32, {}, bytes_of({1.001F, nan}), bytes_of({1, 1}), 1).factor, 1e-3, 1e-6)
      << "from zero, the other one left out";
  EXPECT_FALSE(
      is_same_move(move_between(DType::kF32, bytes_of({1, 1}), bytes_of({1.001F, 1.001F}), bytes_of({1, 1}), 1), {}))
      << "it should not have moved";
  EXPECT_TRUE(is_same_move(move_between(DType::kI32, {}, bytes_of({1}), bytes_of({2}), 1), {}));
}

/// A bias whose gradient cancels: what one run moved it by is less than what is rounded, and another one does not move
/// it.
TEST(Move, IsNoneWhereAllOfItIsRounded) {
  std::vector<float> before, moved, far;
  for (int i = 0; i < 32; ++i) {
    before.push_back(0.25F + 0.01F * static_cast<float>(i));
    moved.push_back(std::nextafter(before.back(), i % 3 == 0 ? 0.0F : 1.0F));
    far.push_back(before.back() + 1e-3F);
  }
  EXPECT_TRUE(is_same_move(move_between(DType::kF32, bytes_of(before), bytes_of(before), bytes_of(moved), 200), {}));
  EXPECT_FALSE(is_same_move(move_between(DType::kF32, bytes_of(before), bytes_of(far), bytes_of(moved), 200), {}));
}

/// w becomes w - 1e-3 x, of which the device makes `factor` times that.
Verification judged(double factor) {
  const auto program = [](double step) {
    ProgramBuilder b;
    const graph::ValueId w = b.state("w", {256}), x = b.input("x", {256});
    const graph::ValueId scaled = b.op(OpKind::kMultiply, {b.whole(x), ProgramBuilder::number(step)}, {256});
    b.end_state(w, b.op(OpKind::kSubtract, {b.whole(w), b.whole(scaled)}, {256}));
    return b.program;
  };
  Recording recording = record(program(1e-3), 3, 4);
  recording.program.ops = program(1e-3 * factor).ops;
  auto session = Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs);
  std::vector<IterationResult> results;
  for (std::uint32_t i = 0; i < 3; ++i) results.push_back(*(*session)->run(i));
  Verification verdict = *(*session)->verify(results);
  if (!verdict.differs()) return verdict;
  Spread spread;
  EXPECT_TRUE((*session)->start_spread(results, spread));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE((*session)->widen_spread(spread));
  consider_spread(verdict, spread);
  return verdict;
}

TEST(Move, TheVerdictNamesIt) {
  EXPECT_EQ(judged(1).verdict, "yes");
  EXPECT_EQ(judged(1 + 1e-6).verdict, "yes");
  const Verification verdict = judged(1.001);
  EXPECT_LT(verdict.states[0].max_rel_diff, verdict.state_tolerance);
  EXPECT_FALSE(verdict.verified);
  EXPECT_THAT(verdict.verdict, HasSubstr("no: after iteration 2: 1 of 1 states moved otherwise than recorded, w most "
                                         "(by 0.001 of its move; runs one rounding apart"));
}

}  // namespace
}  // namespace crucible::runtime
