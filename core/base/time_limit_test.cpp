// Time that others have does not count; a process that only waits is not waited for without end.
#include "core/base/time_limit.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace crucible {
namespace {

bool is_over(double limit, double passed, double processor) {
  const auto after = [](double seconds) { return std::chrono::duration<double>(seconds); };
  return TimeLimit(limit, {after(100), after(7)}).is_over({after(100 + passed), after(7 + processor)});
}

TEST(TimeLimit, CountsWhatTheProcessHadOfAProcessor) {
  EXPECT_FALSE(is_over(30, 29, 58)) << "two threads, and the time has not passed";
  EXPECT_TRUE(is_over(30, 31, 31));
  EXPECT_FALSE(is_over(30, 31, 10)) << "others had the processor";
  EXPECT_FALSE(is_over(30, 119, 29));
}

TEST(TimeLimit, HasAnEndWhereTheProcessWaits) { EXPECT_TRUE(is_over(30, 121, 0)); }

TEST(TimeLimit, MayBeNone) { EXPECT_FALSE(is_over(std::numeric_limits<double>::infinity(), 1e9, 1e9)); }

TEST(TimeLimit, ReadsClocksThatGrow) {
  const TimeLimit limit(0);
  const Clocks start = Clocks::now();
  Clocks now = start;
  for (volatile int i = 0; now.processor == start.processor || now.passed == start.passed; i = i + 1)
    now = Clocks::now();
  EXPECT_TRUE(limit.is_over(now));
}

}  // namespace
}  // namespace crucible
