// Views: coverage, injectivity, reshaping and broadcasting, each compared with brute force over indices.
#include "core/graph/view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
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
  EXPECT_FALSE(checked_elements({0, std::int64_t{1} << 40, std::int64_t{1} << 40})) << "its strides would not fit";
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

TEST(View, ARelaidViewReadsTheSameElements) {
  std::mt19937 random(11);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  int expressed = 0;
  for (int round = 0; round < 20000; ++round) {
    // Two layouts of one tensor, and a view of the first one's buffer that stays inside.
    View from, to;
    const std::size_t rank = 1 + static_cast<std::size_t>(below(4));
    for (std::size_t d = 0; d < rank; ++d) from.sizes.push_back(1 + below(4));
    to.sizes = from.sizes;
    for (View* view : {&from, &to}) {
      std::vector<std::size_t> order(rank);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::ranges::shuffle(order, random);
      view->strides.resize(rank);
      std::int64_t stride = 1;
      for (const std::size_t d : order) {
        view->strides[d] = stride;
        stride *= view->sizes[d];
      }
    }
    const std::int64_t elements = from.elements();
    to.offset = below(3);
    View reader{below(elements), {}, {}};
    for (std::int64_t d = below(4); d >= 0; --d) {
      reader.sizes.push_back(1 + below(6));
      reader.strides.push_back(below(2) == 0
                                   ? from.strides[static_cast<std::size_t>(below(static_cast<std::int64_t>(rank)))]
                                   : below(elements + 1));
    }
    if (*last_index(reader) >= elements) continue;
    std::vector<std::int64_t> moved(
        static_cast<std::size_t>(elements));  // from the place in the first buffer to that in the second
    const auto before = indices(from), after = indices(to);
    for (std::size_t i = 0; i < before.size(); ++i) moved[static_cast<std::size_t>(before[i])] = after[i];
    const auto view = relaid(reader, from, to);
    if (!view) continue;
    ++expressed;
    const auto read = indices(reader), found = indices(*view);
    ASSERT_EQ(read.size(), found.size());
    for (std::size_t i = 0; i < read.size(); ++i)
      ASSERT_EQ(found[i], moved[static_cast<std::size_t>(read[i])]) << "round " << round;
  }
  EXPECT_GT(expressed, 2000);
}

TEST(View, ARelaidViewMergesWhatLiesTogether) {
  // [b, h, w, l] read as [b, l, h * w]: in the layout [b, l, h, w] all of it lies in a row.
  const View from = View::contiguous({3, 2, 8, 5}), to{0, {3, 2, 8, 5}, {80, 8, 1, 16}};
  const auto view = relaid({0, {3, 5, 16}, {80, 1, 5}}, from, to);
  ASSERT_TRUE(view);
  const auto merged = reshaped(*view, {3, 5, 16});
  ASSERT_TRUE(merged);
  EXPECT_TRUE(merged->is_contiguous());
  EXPECT_FALSE(relaid({0, {16}, {2}}, from, to)) << "every second element counts through two digits";
}

}  // namespace
}  // namespace crucible::graph
