// Sessions in turns: every one runs every round, from the recorded start, and the statistics are those of the rounds.
#include "core/runtime/rounds.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "core/runtime/test_programs.hpp"

namespace crucible::runtime {
namespace {

std::unique_ptr<Session> session_of(const Recording& recording) {
  auto made = Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs);
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : nullptr;
}

TEST(Rounds, QuantilesAreLinearBetweenRounds) {
  const Timing timing{{40, 10, 30, 20}};
  EXPECT_EQ(timing.quantile(0), 10);
  EXPECT_EQ(timing.quantile(1), 40);
  EXPECT_EQ(timing.median(), 25);
  EXPECT_EQ(timing.quantile(0.25), 17.5);
  EXPECT_EQ(Timing{}.median(), 0);
}

/// A machine that became ten times slower in the second of three rounds: the quotient of each round is the same.
TEST(Rounds, RatiosAreThoseOfTheRounds) {
  EXPECT_DOUBLE_EQ(median_ratio({{10, 100, 10}}, {{5, 50, 5}}), 2);
  EXPECT_EQ(median_ratio({}, {}), 0);
}

TEST(Rounds, EverybodyRunsInTurns) {
  const Recording recording = record(training_step(), 3, 1);
  const auto a = session_of(recording), b = session_of(recording);
  std::vector<std::pair<std::uint32_t, std::size_t>> heard;
  Session* const sessions[] = {a.get(), b.get()};
  const auto timings = run_rounds(sessions, 2, 3, [&](std::uint32_t round, std::size_t session) { heard.emplace_back(round, session); });
  ASSERT_TRUE(timings) << timings.error().message;
  EXPECT_EQ(heard, (std::vector<std::pair<std::uint32_t, std::size_t>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}));
  ASSERT_EQ(timings->size(), 2u);
  for (const Timing& timing : *timings) {
    ASSERT_EQ(timing.rounds.size(), 3u);
    for (const double round : timing.rounds) EXPECT_GT(round, 0);
  }
  // Two of three iterations have run since the last reset, so that the third may follow.
  EXPECT_TRUE(a->run(2));
}

TEST(Rounds, HashesTellStatesApart) {
  const Recording recording = record(training_step(), 2, 1);
  const auto hash_after = [&](std::uint32_t iterations) {
    const auto session = session_of(recording);
    for (std::uint32_t i = 0; i < iterations; ++i) EXPECT_TRUE(session->run(i));
    return *result_sha256(*session, recording.program, {});
  };
  EXPECT_EQ(hash_after(2), hash_after(2));
  EXPECT_NE(hash_after(2), hash_after(1));
  const auto session = session_of(recording);
  EXPECT_NE(*result_sha256(*session, recording.program, {{.losses = {1.0}, .recorded_losses = {}}}), hash_after(0));
}

}  // namespace
}  // namespace crucible::runtime
