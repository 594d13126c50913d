// What is explained of recordings of several variants and seams: which op of which variant in which iteration is the
// first that differs, and what the reference interpreter says of the end of all iterations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/judge/explain.hpp"
#include "runtime/judge/side_by_side.hpp"
#include "runtime/testing/test_variants.hpp"

namespace crucible::runtime {
namespace {

using ::testing::HasSubstr;

/// What the interpreter runs in the place of a device: every result of all variants is kept, and of one variant an op
/// is wrong.
Result<OpCheck> checked(const VariantRecording& recording, std::uint32_t variant, graph::OpId op, double factor,
                        const ExplainOptions& options) {
  auto watched = std::make_shared<graph::Variants>(with_every_result(*recording.variants));
  auto& program = watched->programs[variant];
  if (factor != 1) program = std::make_shared<const graph::Program>(with_error(*program, op, factor));
  CRUCIBLE_TRY(const auto session, Session::create_reference(watched, recording.blobs));
  return check_ops(*recording.variants, *recording.blobs, *session, options);
}

TEST(CheckOpsOfVariants, EachOpOfEachVariantWithAnErrorIsTheFirstOne) {
  std::size_t planted = 0;
  for (std::uint32_t seed = 30; seed < 34; ++seed) {
    const VariantRecording recording = recorded_variants(seed, 10);
    for (std::uint32_t variant = 0; variant < 3; ++variant) {
      const auto first = std::ranges::find(recording.variants->turns, variant, &graph::Turn::variant);
      if (first == recording.variants->turns.end()) continue;
      for (graph::OpId op = 0; op < recording.variants->programs[variant]->ops.size(); ++op, ++planted) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed << ", variant " << variant << ", op " << op);
        const auto check = checked(recording, variant, op, 1.001, {});
        ASSERT_TRUE(check) << check.error().message;
        ASSERT_NE(check->first(), nullptr);
        EXPECT_EQ(check->first()->iteration, first->iteration);
        EXPECT_EQ(check->first()->variant, variant);
        EXPECT_EQ(check->first()->op, op);
        const std::string where = "iteration " + std::to_string(first->iteration) + " (variant " +
                                  std::to_string(variant) + "), op " + std::to_string(op) + " (";
        EXPECT_THAT(in_words(*recording.variants, *check->first()), HasSubstr(where));
      }
    }
  }
  EXPECT_GT(planted, 30U);
}

TEST(CheckOpsOfVariants, AnErrorOfOneIsFoundInEachOfItsIterations) {
  const VariantRecording recording = recorded_variants(4, 20);
  const auto check = checked(recording, 1, 0, 1.001, {.differences = 100});
  ASSERT_TRUE(check) << check.error().message;
  EXPECT_EQ(check->differences.size(), recording.variants->programs[1]->iterations);
  for (const OpDifference& difference : check->differences) {
    EXPECT_EQ(recording.variants->turns[difference.iteration].variant, 1U);
    EXPECT_EQ(difference.op, 0U) << "what follows computes rightly with what it was given";
  }
}

TEST(CheckOpsOfVariants, ARightRunIsRightInEveryResultAcrossSeams) {
  for (std::uint32_t seed = 40; seed < 46; ++seed) {
    const VariantRecording recording = recorded_variants(seed, 12);
    const auto check = checked(recording, 0, 0, 1, {});
    ASSERT_TRUE(check) << check.error().message;
    ASSERT_EQ(check->first(), nullptr) << in_words(*recording.variants, *check->first());
    EXPECT_EQ(check->iterations, 12U);
    std::size_t results = 0;
    for (const auto& program : recording.variants->programs) results += program->iterations * program->ops.size();
    EXPECT_EQ(check->results, results);
  }
}

/// A session of the recording in which an op of one variant is wrong, judged as far as the reference interpreter.
Verification judged(const VariantRecording& recording, std::uint32_t variant, graph::OpId op, double factor) {
  auto wrong = std::make_shared<graph::Variants>(*recording.variants);
  auto& program = wrong->programs[variant];
  program = std::make_shared<const graph::Program>(with_error(*program, op, factor));
  auto session = Session::create_reference(wrong, recording.blobs);
  EXPECT_TRUE(session) << session.error().message;
  std::vector<IterationResult> results;
  for (std::uint32_t i = 0; i < (*session)->iterations(); ++i) {
    results.push_back(*(*session)->run(i));
    results.back().outputs = *(*session)->compare_outputs();
  }
  Verification verdict = *(*session)->verify(results);
  const RunEnd end = *(*session)->end_of_run(results);
  EXPECT_TRUE(consider_reference(verdict, *recording.variants, *recording.blobs, end, ExplainOptions{}));
  return verdict;
}

TEST(ReferenceOfVariants, DoesNotEndWhereAWrongReplayEnds) {
  const VariantRecording recording = recorded_variants(5, 12);
  ASSERT_GT(recording.variants->programs[0]->iterations, 0U);
  const Verification verdict = judged(recording, 0, 1, 1.01);
  EXPECT_FALSE(verdict.verified);
  EXPECT_GE(verdict.rough_runs, 2U);
  ASSERT_EQ(verdict.notes.size(), 1U);
  EXPECT_THAT(verdict.notes[0], HasSubstr("the reference interpreter does not end where the replay ends"));
}

TEST(ReferenceOfVariants, EndsWhereARightReplayEndsAndNotTheRecording) {
  VariantRecording recording = recorded_variants(5, 12);
  for (auto& program : recording.variants->programs) {  // recorded with an error in one loss of a variant
    if (program->outputs[0].recorded.empty()) continue;
    auto other = std::make_shared<graph::Program>(*program);
    other->outputs[0].recorded.back() *= 1.01;
    program = other;
    break;
  }
  const Verification verdict = judged(recording, 0, 0, 1);
  EXPECT_FALSE(verdict.verified);
  ASSERT_EQ(verdict.losses.size(), 1U);
  EXPECT_EQ(recording.variants->turns[verdict.losses[0].iteration].variant, 0U);
  ASSERT_EQ(verdict.notes.size(), 1U);
  EXPECT_THAT(verdict.notes[0], HasSubstr("agrees with the replay and not with the recording"));
}

/// A state of which all variants together move a thousandth further is within the tolerance of states.
TEST(MovesOfVariants, AreJudgedWhereNothingIsGivenAnew) {
  const VariantRecording recording = recorded_variants(8, 12);
  graph::Variants without = *recording.variants;
  for (graph::Turn& turn : without.turns) turn.given.clear();
  for (std::size_t state = 0; state < 3; ++state) {
    const bool is_given = std::ranges::any_of(recording.variants->turns, [&](const graph::Turn& turn) {
      return std::ranges::find(turn.given, state, &graph::Given::state) != turn.given.end();
    });
    const std::uint32_t moves = state == 2 ? 0 : without.programs[state]->iterations;
    EXPECT_EQ(without.moves_of(state), moves);
    EXPECT_EQ(recording.variants->moves_of(state), is_given ? 0 : moves);
  }
}

}  // namespace
}  // namespace crucible::runtime
