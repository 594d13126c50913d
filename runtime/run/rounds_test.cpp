// Sessions in turns: every one runs every round, from the recorded start, and the statistics are those of the rounds.
#include "runtime/run/rounds.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

std::unique_ptr<Session> session_of(const Recording& recording) {
  auto made = Session::create_reference(std::make_shared<const graph::Program>(recording.program), recording.blobs);
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : nullptr;
}

TEST(Rounds, QuantilesAreLinearBetweenRounds) {
  const Timing timing{.rounds = {40, 10, 30, 20}};
  EXPECT_EQ(timing.quantile(0), 10);
  EXPECT_EQ(timing.quantile(1), 40);
  EXPECT_EQ(timing.median(), 25);
  EXPECT_EQ(timing.quantile(0.25), 17.5);
  EXPECT_EQ(Timing{}.median(), 0);
}

/// A machine that became ten times slower in the second of three rounds: the quotient of each round is the same.
TEST(Rounds, RatiosAreThoseOfTheRounds) {
  EXPECT_DOUBLE_EQ(median_ratio({.rounds = {10, 100, 10}}, {.rounds = {5, 50, 5}}), 2);
  EXPECT_DOUBLE_EQ(median_ratio({.rounds = {10, 100, 10}}, {.rounds = {5, 50}}),
                   2);  // the other one failed in the third
  EXPECT_EQ(median_ratio({}, {}), 0);
}

TEST(Rounds, EverybodyRunsInTurns) {
  const Recording recording = record(training_step(), 3, 1);
  const auto a = session_of(recording), b = session_of(recording);
  std::vector<std::pair<std::uint32_t, std::size_t>> heard;
  const Turn turns[] = {turn_of(*a, 2), turn_of(*b, 2)};
  const std::vector<Timing> timings =
      run_rounds(turns, 3, [&](std::uint32_t round, std::size_t turn) { heard.emplace_back(round, turn); });
  EXPECT_EQ(heard,
            (std::vector<std::pair<std::uint32_t, std::size_t>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}));
  ASSERT_EQ(timings.size(), 2u);
  for (const Timing& timing : timings) {
    ASSERT_EQ(timing.rounds.size(), 3u);
    for (const double round : timing.rounds) EXPECT_GT(round, 0);
    EXPECT_FALSE(timing.error);
    EXPECT_FALSE(timing.median_joules());
  }
  // Two of three iterations have run since the last reset, so that the third may follow.
  EXPECT_TRUE(a->run(2));
}

/// A peer process that dies in its second round: the other one has all of its rounds.
TEST(Rounds, WhoFailsTakesNoMoreTurns) {
  int calls = 0;
  const Turn turns[] = {[&]() -> Result<TurnResult> {
                          if (++calls == 2) return Error{ErrorCode::kUnavailable, "it is gone"};
                          return TurnResult{.iteration_ns = 5};
                        },
                        [] { return Result<TurnResult>(TurnResult{.iteration_ns = 10}); }};
  const std::vector<Timing> timings = run_rounds(turns, 3);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(timings[0].rounds, (std::vector<double>{5}));
  ASSERT_TRUE(timings[0].error);
  EXPECT_EQ(timings[0].error->message, "it is gone");
  EXPECT_EQ(timings[1].rounds, (std::vector<double>{10, 10, 10}));
  EXPECT_FALSE(timings[1].error);
}

/// A counter that shows 3 J more at each reading: of two iterations each takes a half of it.
TEST(Rounds, EnergyIsThatOfAnIteration) {
  const Recording recording = record(training_step(), 2, 1);
  const auto session = session_of(recording);
  double shown = 0;
  const Turn turns[] = {turn_of(*session, 2, [&]() -> std::optional<double> { return shown += 3; }),
                        turn_of(*session, 2, []() -> std::optional<double> { return std::nullopt; })};
  const std::vector<Timing> timings = run_rounds(turns, 2);
  EXPECT_EQ(timings[0].joules, (std::vector<double>{1.5, 1.5}));
  EXPECT_EQ(timings[0].median_joules(), 1.5);
  EXPECT_TRUE(timings[1].joules.empty());
  EXPECT_EQ(timings[1].rounds.size(), 2u);
}

}  // namespace
}  // namespace crucible::runtime
