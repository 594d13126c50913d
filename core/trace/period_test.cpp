// Against a search by hand on random sequences, and on what programs look like.
#include "core/trace/period.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace crucible::trace {
namespace {

/// How many numbers at the end have this period.
std::uint64_t run_by_hand(const std::vector<std::uint64_t>& numbers, std::uint64_t period) {
  std::uint64_t run = period;
  while (run < numbers.size() && numbers[numbers.size() - 1 - (run - period)] == numbers[numbers.size() - 1 - run])
    ++run;
  return std::min<std::uint64_t>(run, numbers.size());
}

/// True when no shorter period divides the last `length` numbers.
bool is_shortest(const std::vector<std::uint64_t>& numbers, std::uint64_t period, std::uint64_t length) {
  for (std::uint64_t shorter = 1; shorter < period; ++shorter) {
    if (period % shorter == 0 && run_by_hand(numbers, shorter) >= length) return false;
  }
  return true;
}

void compare_with_search(const std::vector<std::uint64_t>& all, std::uint64_t longest) {
  PeriodFinder finder(longest);
  std::vector<std::uint64_t> numbers;
  for (const std::uint64_t number : all) {
    numbers.push_back(number);
    finder.push(number);
    std::vector<std::uint64_t> found;
    finder.for_each_confirmed([&](PeriodFinder::Run run) {
      found.push_back(run.period);
      EXPECT_GE(run.length, 3 * run.period);
      EXPECT_GE(run_by_hand(numbers, run.period), run.length);
      EXPECT_TRUE(is_shortest(numbers, run.period, 3 * run.period)) << run.period << " at " << numbers.size();
    });
    for (std::uint64_t period = 1; period <= longest && 5 * period <= numbers.size(); ++period) {
      if (run_by_hand(numbers, period) < 5 * period || !is_shortest(numbers, period, 5 * period)) continue;
      EXPECT_NE(std::find(found.begin(), found.end(), period), found.end()) << period << " at " << numbers.size();
    }
  }
}

TEST(PeriodFinder, AgreesWithASearchOnRandomSequences) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::uint64_t> all;
    while (all.size() < 260) {
      // Noise, then a block of few different numbers, repeated.
      for (std::size_t noise = random() % 9; noise > 0; --noise) all.push_back(random() % 3);
      std::vector<std::uint64_t> block(1 + random() % 17);
      for (std::uint64_t& number : block) number = random() % (1 + random() % 3);
      for (std::size_t repeats = 1 + random() % 9; repeats > 0; --repeats)
        all.insert(all.end(), block.begin(), block.end());
    }
    compare_with_search(all, 20);
  }
}

TEST(PeriodFinder, FindsAnIterationWithEqualLayersInside) {
  PeriodFinder finder(1 << 10);
  std::uint64_t longest = 0;
  const auto iteration = [&] {
    finder.push(1);
    for (int layer = 0; layer < 12; ++layer) {
      for (const std::uint64_t op : {2, 3, 4}) finder.push(op);
    }
    finder.push(5);
  };
  for (int i = 0; i < 7; ++i) iteration();
  finder.for_each_confirmed([&](PeriodFinder::Run run) { longest = std::max(longest, run.period); });
  EXPECT_EQ(longest, 38u);
  EXPECT_GE(finder.run_of(38).length, 3u * 38);
  finder.push(77);
  EXPECT_EQ(finder.run_of(38).length, 0u) << "it holds no longer";
}

TEST(PeriodFinder, FindsNothingInASequenceThatDoesNotRepeat) {
  PeriodFinder finder(64);
  for (std::uint64_t i = 0; i < 5000; ++i) finder.push(i);
  finder.for_each_confirmed([](PeriodFinder::Run run) { ADD_FAILURE() << run.period; });
}

TEST(PeriodFinder, LongestPeriodIsALimit) {
  PeriodFinder finder(8);
  for (std::uint64_t i = 0; i < 1000; ++i) finder.push(i % 9);
  finder.for_each_confirmed([](PeriodFinder::Run run) { ADD_FAILURE() << run.period; });
}

}  // namespace
}  // namespace crucible::trace
