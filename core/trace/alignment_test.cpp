// Alignment: runs are equal keys in order, as many as can be, and giving up keeps starts and ends.
#include "core/trace/alignment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace crucible::trace {
namespace {

using Keys = std::vector<std::uint64_t>;

std::size_t matched(const Alignment& alignment) {
  std::size_t count = 0;
  for (const EqualRun& run : alignment.runs) count += run.length;
  return count;
}

/// Length of the longest common subsequence, the slow way.
std::size_t longest_common(const Keys& a, const Keys& b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j)
      table[i + 1][j + 1] = a[i] == b[j] ? table[i][j] + 1 : std::max(table[i][j + 1], table[i + 1][j]);
  }
  return table[a.size()][b.size()];
}

TEST(Align, OneMoreKeyIsOneGap) {
  EXPECT_EQ(align(Keys{1, 2, 3, 4}, Keys{1, 2, 9, 3, 4}).runs, (std::vector<EqualRun>{{0, 0, 2}, {2, 3, 2}}));
  EXPECT_EQ(align(Keys{1, 2, 9, 3, 4}, Keys{1, 2, 3, 4}).runs, (std::vector<EqualRun>{{0, 0, 2}, {3, 2, 2}}));
  EXPECT_EQ(align(Keys{1, 2}, Keys{1, 2}).runs, (std::vector<EqualRun>{{0, 0, 2}}));
  EXPECT_TRUE(align(Keys{}, Keys{}).runs.empty());
  EXPECT_TRUE(align(Keys{1}, Keys{2}).runs.empty());
  EXPECT_TRUE(align(Keys{1}, Keys{}).runs.empty());
}

TEST(Align, IsAsLongAsTheLongestCommonSubsequence) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    Keys a(random() % 12), b(random() % 12);
    for (auto* keys : {&a, &b}) std::ranges::generate(*keys, [&] { return random() % 3; });
    const Alignment alignment = align(a, b);
    ASSERT_TRUE(alignment.is_shortest);
    EXPECT_EQ(matched(alignment), longest_common(a, b)) << i;
    std::size_t end_a = 0, end_b = 0;
    for (const EqualRun& run : alignment.runs) {
      ASSERT_GE(run.a, end_a);
      ASSERT_GE(run.b, end_b);
      for (std::size_t k = 0; k < run.length; ++k) ASSERT_EQ(a[run.a + k], b[run.b + k]) << i;
      end_a = run.a + run.length;
      end_b = run.b + run.length;
    }
  }
}

TEST(Align, GivesUpBetweenEqualStartAndEnd) {
  const Alignment alignment = align(Keys{1, 2, 3, 4, 5, 6, 7}, Keys{1, 12, 3, 14, 5, 16, 7}, 4);
  EXPECT_FALSE(alignment.is_shortest);
  EXPECT_EQ(alignment.runs, (std::vector<EqualRun>{{0, 0, 1}, {6, 6, 1}}));
  EXPECT_TRUE(align(Keys{1, 2, 3, 4, 5, 6, 7}, Keys{1, 12, 3, 14, 5, 16, 7}, 6).is_shortest);
}

TEST(Align, AMillionKeysWithFewEdits) {
  Keys a(1'000'000);
  std::mt19937_64 random(2);
  std::ranges::generate(a, [&] { return random() % 50; });
  Keys b = a;
  b.erase(b.begin() + 300'000);
  b.insert(b.begin() + 700'000, 99);
  const Alignment alignment = align(a, b);
  EXPECT_TRUE(alignment.is_shortest);
  EXPECT_EQ(matched(alignment), 999'999u);
}

}  // namespace
}  // namespace crucible::trace
