// Views: coverage, injectivity, reshaping and broadcasting, each compared with brute force over indices.
#include "core/graph/view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace crucible::graph {
namespace {

TEST(View, ContiguousStrides) {
  const View v = View::contiguous({2, 3, 4});
  EXPECT_EQ(v.strides, (std::vector<std::int64_t>{12, 4, 1}));
  EXPECT_TRUE(v.is_contiguous());
  EXPECT_EQ(v.elements(), 24);
  EXPECT_EQ(View::contiguous({}).elements(), 1);
  EXPECT_TRUE((View{5, {1, 3}, {77, 1}}).is_contiguous());
  EXPECT_FALSE((View{0, {3, 2}, {1, 3}}).is_contiguous());
}

TEST(View, OverflowIsNoticed) {
  EXPECT_FALSE(checked_elements({std::int64_t{1} << 40, std::int64_t{1} << 40}));
  EXPECT_FALSE(last_index({0, {std::int64_t{1} << 40}, {std::int64_t{1} << 40}}));
  EXPECT_FALSE(last_index({0, {-1}, {1}}));
  EXPECT_FALSE(last_index({0, {2}, {-1}}));
  EXPECT_FALSE(last_index({-1, {2}, {1}}));
  EXPECT_FALSE(last_index({0, {2, 2}, {1}}));
  EXPECT_EQ(last_index({7, {2, 0}, {1, 1}}), -1);
}

TEST(View, RandomViewsAgreeWithTheirIndices) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    View v;
    v.offset = random() % 3;
    const int rank = static_cast<int>(random() % 4);
    for (int d = 0; d < rank; ++d) {
      v.sizes.push_back(1 + random() % 4);
      v.strides.push_back(random() % 9);
    }
    const auto at = indices(v);
    ASSERT_EQ(static_cast<std::int64_t>(at.size()), v.elements());
    EXPECT_EQ(last_index(v), *std::max_element(at.begin(), at.end()));
    const std::set<std::int64_t> distinct(at.begin(), at.end());
    if (is_injective(v)) {
      EXPECT_EQ(distinct.size(), at.size());
    }
    const bool dense = distinct.size() == at.size() && *distinct.begin() == 0 &&
                       *distinct.rbegin() == static_cast<std::int64_t>(at.size()) - 1;
    EXPECT_EQ(covers(v, v.elements()), dense);
    EXPECT_EQ(indices(normalized(v)), at);
    for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{v.elements()},
                                                   {1, v.elements()},
                                                   {v.elements() / 2, 2},
                                                   {2, 2, v.elements() / 4}}) {
      auto other = reshaped(v, sizes);
      if (other) {
        EXPECT_EQ(indices(*other), at);
      }
    }
    auto flat = reshaped(v, {v.elements()});
    bool even = true;  // a flat view exists exactly when the indices have one step
    for (std::size_t i = 2; i < at.size(); ++i) even = even && at[i] - at[i - 1] == at[1] - at[0];
    if (flat) {
      EXPECT_TRUE(even);
    }
  }
}

TEST(View, ReshapeOfContiguousAlwaysWorks) {
  EXPECT_EQ(reshaped(View::contiguous({4, 6}), {2, 3, 4}), View::contiguous({2, 3, 4}));
  EXPECT_EQ(reshaped(View{0, {4, 6}, {1, 4}}, {24}), std::nullopt);
  EXPECT_EQ(reshaped(View{0, {4, 6}, {1, 4}}, {2, 2, 6}), (View{0, {2, 2, 6}, {2, 1, 4}}));
}

TEST(View, Broadcast) {
  EXPECT_EQ(broadcast(View::contiguous({3}), {2, 3}), (View{0, {2, 3}, {0, 1}}));
  EXPECT_EQ(broadcast(View::contiguous({2, 1}), {2, 3}), (View{0, {2, 3}, {1, 0}}));
  EXPECT_FALSE(broadcast(View::contiguous({2}), {3}));
  EXPECT_FALSE(broadcast(View::contiguous({2, 3}), {3}));
  EXPECT_EQ(broadcast_sizes({4, 1}, {3}), (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(broadcast_sizes({1}, {0}), (std::vector<std::int64_t>{0}));
  EXPECT_FALSE(broadcast_sizes({2}, {3}));
}

}  // namespace
}  // namespace crucible::graph
