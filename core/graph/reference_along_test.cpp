// Places of extrema, running totals and extrema, and sorting in the interpreter, against results worked out by hand.
#include "core/graph/reference_along.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace crucible::graph {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Index = std::vector<std::int64_t>;

Numbers reals(std::vector<double> numbers) { return {false, std::move(numbers), {}}; }
Numbers integers(Index numbers) { return {true, {}, std::move(numbers)}; }

AlongResult line(OpKind kind, const Numbers& x) {
  return reference_along(kind, x, {static_cast<std::int64_t>(x.size())}, 0);
}

void expect_same(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << i << ": " << got[i];
  }
}

TEST(ReferenceAlong, FirstExtremumOrFirstNan) {
  const Numbers x = reals({1, 3, 3, -2, -2});
  EXPECT_EQ(line(OpKind::kArgMax, x).index.integer, Index{1});
  EXPECT_EQ(line(OpKind::kArgMin, x).index.integer, Index{3});
  const Numbers odd = reals({kInfinity, kNan, 7, kNan, -kInfinity});
  EXPECT_EQ(line(OpKind::kArgMax, odd).index.integer, Index{1});
  EXPECT_EQ(line(OpKind::kArgMin, odd).index.integer, Index{1});
  EXPECT_EQ(line(OpKind::kArgMax, reals({-0.0, 0.0})).index.integer, Index{0});
}

TEST(ReferenceAlong, EveryLineOfEveryDimension) {
  const Numbers x = integers({5, 1, 4, 2, 6, 3});  // [2, 3]
  EXPECT_EQ(reference_along(OpKind::kArgMax, x, {2, 3}, 0).index.integer, (Index{0, 1, 0}));
  EXPECT_EQ(reference_along(OpKind::kArgMax, x, {2, 3}, 1).index.integer, (Index{0, 1}));
  EXPECT_EQ(reference_along(OpKind::kScanSum, x, {2, 3}, 0).values.integer, (Index{5, 1, 4, 7, 7, 7}));
  EXPECT_EQ(reference_along(OpKind::kScanSum, x, {2, 3}, 1).values.integer, (Index{5, 6, 10, 2, 8, 11}));
  EXPECT_EQ(reference_along(OpKind::kScanProduct, x, {1, 6}, 1).values.integer, (Index{5, 5, 20, 40, 240, 720}));
}

TEST(ReferenceAlong, RunningExtremaTakeTheLastOfEqualOnes) {
  const AlongResult top = line(OpKind::kScanMax, reals({1, 3, 2, 3, kNan, 5, kNan}));
  expect_same(top.values.real, {1, 3, 3, 3, kNan, kNan, kNan});
  EXPECT_EQ(top.index.integer, (Index{0, 1, 1, 3, 4, 4, 6}));
  const AlongResult least = line(OpKind::kScanMin, integers({4, 2, 3, 2}));
  EXPECT_EQ(least.values.integer, (Index{4, 2, 2, 2}));
  EXPECT_EQ(least.index.integer, (Index{0, 1, 1, 3}));
}

TEST(ReferenceAlong, SortingIsStableWithNanAtTheLargeEnd) {
  const Numbers x = reals({2, kNan, -0.0, kInfinity, 0.0, kNan, 2});
  const AlongResult up = line(OpKind::kSortAscending, x), down = line(OpKind::kSortDescending, x);
  expect_same(up.values.real, {0, 0, 2, 2, kInfinity, kNan, kNan});
  EXPECT_EQ(up.index.integer, (Index{2, 4, 0, 6, 3, 1, 5}));
  expect_same(down.values.real, {kNan, kNan, kInfinity, 2, 2, 0, 0});
  EXPECT_EQ(down.index.integer, (Index{1, 5, 3, 0, 6, 2, 4}));
}

TEST(ReferenceAlong, TotalsOfIntegersWrap) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(line(OpKind::kScanSum, integers({most, 1})).values.integer,
            (Index{most, std::numeric_limits<std::int64_t>::min()}));
}

}  // namespace
}  // namespace crucible::graph
