// Sessions of several programs over the same states: random turns and seams, recorded by the reference interpreter and
// replayed by it, by the interpreter of kernels and by the CPU plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "plugins/loader/testing/kept.hpp"
#include "runtime/run/session.hpp"
#include "runtime/testing/test_variants.hpp"

namespace crucible::runtime {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<backend::Device> open_cpu() {
  auto loaded = backend::Backend::load(CRUCIBLE_TEST_CPU_PLUGIN, {{"threads", "2"}}, backend::shared_store());
  EXPECT_TRUE(loaded) << loaded.error().message;
  if (!loaded) return nullptr;
  auto opened = (*loaded)->open("");
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? *opened : nullptr;
}

enum class Where : std::uint8_t { kReference, kStrictReference, kCpu, kCpuWithPoison, kCpuOneAtATime };

std::unique_ptr<Session> open(const VariantRecording& recording, Where where) {
  Result<std::unique_ptr<Session>> session =
      where == Where::kReference || where == Where::kStrictReference
          ? Session::create_reference(recording.variants, recording.blobs,
                                      where == Where::kReference ? kernel::Numerics::kFast : kernel::Numerics::kStrict)
          : Session::create(recording.variants, recording.blobs, open_cpu(),
                            {.poison = where == Where::kCpuWithPoison,
                             .resident_ops = where == Where::kCpuOneAtATime ? 1U : 50'000U});
  EXPECT_TRUE(session) << session.error().message;
  return session ? *std::move(session) : nullptr;
}

std::vector<IterationResult> run(Session& session, std::uint32_t from, std::uint32_t to) {
  std::vector<IterationResult> results;
  for (std::uint32_t i = from; i < to; ++i) {
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

void PrintTo(Where where, std::ostream* out) {
  constexpr const char* kNames[] = {"Reference", "StrictReference", "Cpu", "CpuWithPoison", "CpuOneAtATime"};
  *out << kNames[static_cast<std::size_t>(where)];
}

class SessionOfVariants : public testing::TestWithParam<Where> {};

TEST_P(SessionOfVariants, EndsAsTheReferenceInterpreterDoes) {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const VariantRecording recording = recorded_variants(seed, 1 + seed);
    const auto session = open(recording, GetParam());
    ASSERT_NE(session, nullptr);
    EXPECT_EQ(session->iterations(), 1 + seed);
    for (int round = 0; round < 2; ++round) {
      const auto results = run(*session, 0, session->iterations());
      const auto verdict = session->verify(results);
      ASSERT_TRUE(verdict) << verdict.error().message;
      EXPECT_TRUE(verdict->verified) << verdict->reason;
      EXPECT_EQ(verdict->states.size(), 3u);
      ASSERT_TRUE(session->reset());
    }
  }
}

TEST_P(SessionOfVariants, GoesOnFromACheckpoint) {
  const VariantRecording recording = recorded_variants(3, 20);
  for (const std::uint32_t at : {1u, 7u, 13u, 20u}) {
    SCOPED_TRACE(at);
    const auto first = open(recording, GetParam()), second = open(recording, GetParam());
    ASSERT_TRUE(first && second);
    std::vector<IterationResult> results = run(*first, 0, at);
    Checkpoint checkpoint;
    ASSERT_TRUE(first->save(checkpoint));
    ASSERT_TRUE(second->restore(checkpoint));
    for (IterationResult& result : run(*second, at, 20)) results.push_back(std::move(result));
    const auto verdict = second->verify(results);
    ASSERT_TRUE(verdict) << verdict.error().message;
    EXPECT_TRUE(verdict->verified) << verdict->reason;
  }
}

TEST_P(SessionOfVariants, ASeamThatIsLeftOutIsSeen) {
  int seen = 0, left_out = 0;
  for (std::uint32_t seed = 20; seed < 26; ++seed) {
    VariantRecording recording = recorded_variants(seed, 12);
    for (graph::Turn& turn : recording.variants->turns) {
      left_out += !turn.given.empty();
      turn.given.clear();
    }
    const auto session = open(recording, GetParam());
    ASSERT_NE(session, nullptr);
    const auto verdict = session->verify(run(*session, 0, 12));
    ASSERT_TRUE(verdict) << verdict.error().message;
    seen += !verdict->verified;
  }
  EXPECT_GT(left_out, 6);
  EXPECT_EQ(seen, 6);
}

TEST_P(SessionOfVariants, RunsOneRoundingApartAreOfAll) {
  const VariantRecording recording = recorded_variants(6, 14);
  const auto session = open(recording, GetParam());
  ASSERT_NE(session, nullptr);
  const auto results = run(*session, 0, 14);
  Spread spread;
  ASSERT_TRUE(session->start_spread(results, spread, true));
  for (int i = 0; i < 3; ++i) {
    const auto widened = session->widen_spread(spread);
    ASSERT_TRUE(widened) << widened.error().message;
  }
  const Gap& gap = spread.states[0];
  EXPECT_GT(gap.largest, 0);
  EXPECT_LT(gap.largest, 1e-4) << "all that was moved lies a rounding away";
  ASSERT_TRUE(session->reset());
  const auto verdict = session->verify(run(*session, 0, 14));  // nothing of it is left
  ASSERT_TRUE(verdict) << verdict.error().message;
  EXPECT_TRUE(verdict->verified) << verdict->reason;
}

INSTANTIATE_TEST_SUITE_P(Everywhere, SessionOfVariants,
                         testing::Values(Where::kReference, Where::kStrictReference, Where::kCpu, Where::kCpuWithPoison,
                                         Where::kCpuOneAtATime),
                         testing::PrintToStringParamName());

TEST(SessionTurns, RunInTheOrderOfTheRecordingAlone) {
  const VariantRecording recording = recorded_variants(1, 3);
  const auto session = open(recording, Where::kReference);
  ASSERT_NE(session, nullptr);
  const auto later = session->run(1);
  ASSERT_FALSE(later);
  EXPECT_THAT(later.error().message, HasSubstr("iteration 1 cannot run now"));
  run(*session, 0, 3);
  const auto beyond = session->run(3);
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message, HasSubstr("iteration 3 was not recorded: there are 3"));
}

}  // namespace
}  // namespace crucible::runtime
