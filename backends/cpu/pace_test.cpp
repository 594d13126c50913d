// The number of threads on simulated machines: what a replay costs with each number is given, and how often its threads
// wait for a processor.
#include "backends/cpu/pace.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

namespace crucible_cpu {
namespace {

using Machine = std::function<Pace::Facts(int threads)>;

constexpr Pace::Settings kTwo{.most = 2, .first = 2, .is_fixed = false, .shared_ns = 50e6};

/// The mean of so many replays, ns, and how many of them had each number of threads.
double run(Pace& pace, const Machine& machine, int replays, std::map<int, int>* used = nullptr) {
  double sum = 0;
  for (int i = 0; i < replays; ++i) {
    if (used != nullptr) ++(*used)[pace.threads()];
    const Pace::Facts facts = machine(pace.threads());
    sum += static_cast<double>(facts.ns);
    pace.took(facts);
  }
  return sum / replays;
}

Machine steady(std::map<int, double> ms) {
  return
      [ms = std::move(ms)](int threads) { return Pace::Facts{.ns = static_cast<std::int64_t>(ms.at(threads) * 1e6)}; };
}

/// `stalled` of `every` replays with more than one thread wait for a time slice.
Machine busy(std::map<int, double> ms, double share, double slice_ms) {
  auto random = std::make_shared<std::mt19937>(1);
  return [ms = std::move(ms), share, slice_ms, random](int threads) {
    const bool waits = threads > 1 && std::uniform_real_distribution<>(0, 1)(*random) < share;
    const auto lost = static_cast<std::int64_t>(waits ? slice_ms * 1e6 : 0);
    return Pace::Facts{
        .ns = static_cast<std::int64_t>(ms.at(threads) * 1e6) + lost, .stalls = waits ? 1u : 0u, .stalled_ns = lost};
  };
}

TEST(Pace, StaysWithAllThreadsOfAQuietMachine) {
  Pace pace(kTwo);
  std::map<int, int> used;
  run(pace, steady({{1, 61}, {2, 35}}), 500, &used);
  EXPECT_EQ(used[2], 500);
  EXPECT_EQ(pace.in_words(), "2 of 2");
}

TEST(Pace, TriesFewerForASmallPlanAndKeepsWhatIsFaster) {
  Pace::Settings small = kTwo;
  small.shared_ns = 200e3;
  Pace slower(small);
  EXPECT_LT(run(slower, steady({{1, 0.2}, {2, 0.12}}), 5000), 0.12e6 * 1.02) << "trials of one thread cost too much";
  EXPECT_EQ(slower.threads(), 2);
  Pace faster(small);
  EXPECT_LT(run(faster, steady({{1, 0.05}, {2, 0.09}}), 5000), 0.05e6 * 1.05);
  EXPECT_EQ(faster.threads(), 1);
}

TEST(Pace, LeavesANumberThatWaitsForProcessorsAtOnce) {
  Pace pace(kTwo);
  const Machine machine = busy({{1, 61}, {2, 35}}, 1, 1000);
  run(pace, machine, 2);
  EXPECT_EQ(pace.threads(), 1) << "two replays of a second each are enough";
  Pace tried(kTwo);
  EXPECT_LT(run(tried, machine, 1000), 61e6 * 1.3);
  EXPECT_NE(tried.in_words().find("1 of 2; in "), std::string::npos) << tried.in_words();
  EXPECT_NE(tried.in_words().find("a thread had no processor"), std::string::npos) << tried.in_words();
}

TEST(Pace, IsNearTheBestFixedNumberHoweverOftenThreadsWait) {
  for (const double share : {0.0, 0.01, 0.05, 0.2, 0.5, 1.0}) {
    for (const double slice : {1.0, 4.0, 20.0}) {
      for (const std::map<int, double>& ms :
           {std::map<int, double>{{1, 61}, {2, 35}}, {{1, 2.4}, {2, 1.2}}, {{1, 0.05}, {2, 0.04}}}) {
        Pace::Settings settings = kTwo;
        settings.shared_ns = ms.at(1) * 0.8e6;
        Pace pace(settings);
        const double mean = run(pace, busy(ms, share, slice), std::max(1000, static_cast<int>(4000 / ms.at(1))));
        const double best = std::min(ms.at(1), ms.at(2) + share * slice) * 1e6;
        EXPECT_LT(mean, 1.3 * best) << share << " of the replays wait " << slice << " ms, " << ms.at(1)
                                    << " ms on one thread";
      }
    }
  }
}

TEST(Pace, ComesBackWhenTheMachineIsQuietAgain) {
  Pace pace(kTwo);
  run(pace, busy({{1, 61}, {2, 35}}, 1, 1000), 100);
  EXPECT_EQ(pace.threads(), 1);
  run(pace, steady({{1, 61}, {2, 35}}), 300);
  EXPECT_EQ(pace.threads(), 2);
}

TEST(Pace, ClimbsFromWhereItBegan) {
  Pace pace({.most = 12, .first = 3, .is_fixed = false, .shared_ns = 50e6});
  EXPECT_EQ(pace.threads(), 2) << "1, 2, 4, 8, 12";
  const Machine machine = steady({{1, 100}, {2, 50}, {4, 26}, {8, 14}, {12, 13.9}});
  run(pace, machine, 400);
  EXPECT_EQ(pace.threads(), 8) << "four more threads for less than a hundredth";
}

TEST(Pace, AFixedNumberStays) {
  Pace pace({.most = 3, .first = 1, .is_fixed = true, .shared_ns = 1e6});
  std::map<int, int> used;
  run(pace, busy({{3, 1}}, 1, 20), 100, &used);
  EXPECT_EQ(used[3], 100);
  EXPECT_EQ(pace.stalls(), 100u);
  EXPECT_EQ(pace.in_words(),
            "3 of 3, as the option threads says; in 100 replays a thread had no processor, 2000.0 ms were lost");
}

TEST(Pace, NothingToShareIsOneThread) {
  Pace pace({.most = 1, .first = 1, .is_fixed = false, .shared_ns = 0});
  run(pace, steady({{1, 1}}), 10);
  EXPECT_EQ(pace.in_words(), "1 of 1: there is nothing that threads could share");
  EXPECT_EQ(Pace({.most = 1, .first = 1, .is_fixed = false, .shared_ns = 1e6}).in_words(),
            "1 of 1: the process may use one processor");
}

}  // namespace
}  // namespace crucible_cpu
