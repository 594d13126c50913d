// What ops wait for and the graph of it, against a check that knows only which pairs touch the same bytes, and against
// memory that lists are run on in every order that the graph allows.
#include "plugins/sdk/op_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "plugins/abi/sized_launch.hpp"

namespace crucible::sdk {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Touched = std::vector<std::vector<TouchedBytes>>;

bool is_conflict(const std::vector<TouchedBytes>& a, const std::vector<TouchedBytes>& b) {
  for (const TouchedBytes& one : a) {
    for (const TouchedBytes& other : b) {
      if ((one.is_written || other.is_written) && one.begin < other.end && other.begin < one.end) return true;
    }
  }
  return false;
}

struct RandomList {
  Touched touched;
  std::vector<std::size_t> kinds;
  std::vector<bool> is_left_out;
};
constexpr std::uint64_t kBytes = 96;

RandomList random_list(std::mt19937_64& random) {
  RandomList list;
  const std::size_t count = 1 + random() % 40, span = 2 + random() % 12, kinds = 1 + random() % 5;
  for (std::size_t op = 0; op < count; ++op) {
    auto& own = list.touched.emplace_back();
    list.kinds.push_back(random() % (kinds + 1));
    list.is_left_out.push_back(random() % 12 == 0);
    if (list.is_left_out.back()) continue;
    for (std::size_t i = 0, ranges = 1 + random() % 3; i < ranges; ++i) {
      const std::uint64_t begin = random() % kBytes;
      own.push_back({begin, std::min(kBytes, begin + 1 + random() % span), i == 0 || random() % 4 == 0});
    }
  }
  return list;
}

/// What each byte holds: a number that depends on all that its writer read.
class RunMemory {
 public:
  RunMemory() : bytes_(kBytes, 1) { std::iota(bytes_.begin(), bytes_.end(), 1); }
  void run(std::size_t op, const std::vector<TouchedBytes>& touched) {
    std::uint64_t seen = op + 1;
    for (const TouchedBytes& range : touched) {
      for (std::uint64_t at = range.begin; !range.is_written && at < range.end; ++at)
        seen = seen * 0x9e3779b97f4a7c15u + bytes_[at];
    }
    for (const TouchedBytes& range : touched) {
      for (std::uint64_t at = range.begin; range.is_written && at < range.end; ++at)
        bytes_[at] = (seen + at) * 0xbf58476d1ce4e5b9u;
    }
  }
  bool operator==(const RunMemory&) const = default;

 private:
  std::vector<std::uint64_t> bytes_;
};

/// Which nodes come before each, by any way.
std::vector<std::vector<bool>> paths_of(const OpOrder& order) {
  std::vector<std::vector<bool>> paths(order.nodes.size(), std::vector<bool>(order.nodes.size(), false));
  for (std::size_t i = 0; i < order.nodes.size(); ++i) {
    for (const std::size_t before : order.nodes[i].after) {
      EXPECT_LT(before, i);
      paths[i][before] = true;
      for (std::size_t k = 0; k < i; ++k) paths[i][k] = paths[i][k] || paths[before][k];
    }
  }
  return paths;
}

void check_edges(const OpOrder& order, const std::vector<std::vector<bool>>& paths, std::size_t most_branches) {
  std::map<std::size_t, std::size_t> tails;
  std::vector<std::size_t> length(order.nodes.size(), 1);
  std::size_t longest = 0;
  for (std::size_t i = 0; i < order.nodes.size(); ++i) {
    const OrderedNode& node = order.nodes[i];
    EXPECT_LT(node.branch, most_branches);
    const auto tail = tails.find(node.branch);
    EXPECT_TRUE(tail == tails.end() || paths[i][tail->second]);
    tails[node.branch] = i;
    for (const std::size_t before : node.after) {
      length[i] = std::max(length[i], length[before] + 1);
      for (const std::size_t other : node.after) EXPECT_FALSE(paths[other][before]) << "an edge follows from another";
    }
    longest = std::max(longest, length[i]);
  }
  EXPECT_EQ(order.longest_path, longest);
}

/// The nodes one after the other, whichever of those that may is taken by `choose` of how many.
template <class Choose>
RunMemory run(const RandomList& list, const OpOrder& order, const Choose& choose) {
  RunMemory memory;
  std::vector<bool> is_done(order.nodes.size(), false);
  for (std::size_t done = 0; done < order.nodes.size(); ++done) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < order.nodes.size(); ++i) {
      if (!is_done[i] && std::ranges::all_of(order.nodes[i].after, [&](std::size_t k) { return is_done[k]; }))
        ready.push_back(i);
    }
    const std::size_t next = ready.at(choose(ready.size()));
    is_done[next] = true;
    std::vector<std::size_t> ops = order.nodes[next].ops;  // those of one launch have no order either
    if (choose(2) == 0) std::ranges::reverse(ops);
    for (const std::size_t op : ops) memory.run(op, list.touched[op]);
  }
  return memory;
}

TEST(OpOrder, EveryOrderOfRandomListsIsRight) {
  std::mt19937_64 random(20);
  std::size_t together = 0, moved = 0;
  for (int turn = 0; turn < 3000; ++turn) {
    const RandomList list = random_list(random);
    const std::size_t most_branches = 1 + random() % 4, most_together = 2 + random() % 6;
    const OpOrder order = order_ops(waits_of(list.touched), list.kinds, list.is_left_out, most_together, most_branches);
    const auto paths = paths_of(order);
    check_edges(order, paths, most_branches);
    std::size_t ops = 0;
    RunMemory expected;
    for (std::size_t op = 0; op < list.touched.size(); ++op) {
      if (list.is_left_out[op]) {
        EXPECT_EQ(order.node_of[op], OpOrder::kNoNode);
        continue;
      }
      expected.run(op, list.touched[op]);
      ++ops;
      for (std::size_t other = 0; other < op; ++other) {
        if (!is_conflict(list.touched[other], list.touched[op])) continue;
        EXPECT_TRUE(paths[order.node_of[op]][order.node_of[other]]) << other << " before " << op;
      }
    }
    std::size_t found = 0;
    for (const OrderedNode& node : order.nodes) {
      found += node.ops.size();
      EXPECT_LE(node.ops.size(), most_together);
      for (const std::size_t op : node.ops) EXPECT_EQ(list.kinds[op], list.kinds[node.ops.front()]);
      EXPECT_TRUE(node.ops.size() == 1 || list.kinds[node.ops.front()] != kAlone);
      together += node.ops.size() - 1;
      for (std::size_t i = 1; i < node.ops.size(); ++i) moved += node.ops[i] - node.ops[i - 1] > 1 ? 1 : 0;
    }
    ASSERT_EQ(found, ops);
    EXPECT_EQ(run(list, order, [](std::size_t) { return std::size_t{0}; }), expected) << "turn " << turn;
    EXPECT_EQ(run(list, order, [](std::size_t ready) { return ready - 1; }), expected) << "turn " << turn;
    EXPECT_EQ(run(list, order, [&](std::size_t ready) { return random() % ready; }), expected) << "turn " << turn;
    if (HasFailure()) return;
  }
  EXPECT_GT(together, 5000u);  // there was something to find
  EXPECT_GT(moved, 1000u);
}

TEST(OpOrder, UpdatesBetweenGradientsMoveBehindThemAll) {
  // Gradients one after the other, each with an update of its own behind it.
  Touched touched;
  std::vector<std::size_t> kinds;
  for (std::uint64_t i = 0; i < 5; ++i) {
    touched.push_back({{i * 10 + 10, i * 10 + 20, true}, {i * 10, i * 10 + 10, false}});
    touched.push_back({{i * 10 + 10, i * 10 + 20, false}, {1000 + i, 1001 + i, true}});
    kinds.insert(kinds.end(), {kAlone, 7});
  }
  const std::vector<bool> none(touched.size(), false);
  const OpOrder order = order_ops(waits_of(touched), kinds, none);
  ASSERT_EQ(order.nodes.size(), 6u);
  EXPECT_THAT(order.nodes.back().ops, ElementsAre(1, 3, 5, 7, 9));
  EXPECT_EQ(order.longest_path, 6u);
  // Where all gradients share their memory, an update has to come before the next gradient.
  for (std::size_t i = 0; i < touched.size(); i += 2) {
    touched[i] = {{10, 20, true}};
    touched[i + 1][0] = {10, 20, false};
  }
  EXPECT_EQ(order_ops(waits_of(touched), kinds, none).nodes.size(), touched.size());
}

TEST(OpOrder, BranchesGoSideBySide) {
  // Two chains of three, then one that reads both.
  Touched touched = {{{0, 1, true}},
                     {{10, 11, true}},
                     {{0, 1, true}},
                     {{10, 11, true}},
                     {{0, 1, true}},
                     {{10, 11, true}},
                     {{0, 11, false}, {20, 21, true}}};
  const std::vector<std::size_t> kinds(touched.size(), kAlone);
  const std::vector<bool> none(touched.size(), false);
  const OpOrder order = order_ops(waits_of(touched), kinds, none);
  EXPECT_EQ(order.longest_path, 4u);
  EXPECT_THAT(order.nodes[1].after, IsEmpty());
  EXPECT_THAT(order.nodes[5].after, ElementsAre(3));
  EXPECT_THAT(order.nodes[6].after, ElementsAre(4, 5));
  EXPECT_EQ(order_ops(waits_of(touched), kinds, none, 1, 1).longest_path, 7u);
}

TEST(OpOrder, WhatAnOpTouches) {
  const auto touched = [](const ListedOp& op, const std::vector<bool>& written) {
    std::vector<std::array<std::uint64_t, 3>> all;
    for (const TouchedBytes& bytes : touched_bytes(op, written))
      all.push_back({bytes.begin, bytes.end, bytes.is_written ? 1u : 0u});
    return all;
  };
  using Bytes = std::array<std::uint64_t, 3>;
  constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  ListedOp launch;
  launch.kind = CRUCIBLE_OP_LAUNCH;
  launch.addresses = {100, 200};
  EXPECT_THAT(touched(launch, {false, true}), IsEmpty());  // an empty grid
  launch.grid = 1;
  EXPECT_THAT(touched(launch, {false, true}), ElementsAre(Bytes{0, kEnd, 1}));
  launch.places = {Place{.left = 50}, Place{.left = 8}};
  EXPECT_THAT(touched(launch, {false, true}), ElementsAre(Bytes{100, 150, 0}, Bytes{200, 208, 1}));
  launch.sizes = {16, 4 | abi::kMayWrite};
  EXPECT_THAT(touched(launch, {false, true}), ElementsAre(Bytes{100, 116, 0}, Bytes{200, 204, 1}));
  EXPECT_THAT(touched(launch, {}), ElementsAre(Bytes{100, 116, 1}, Bytes{200, 204, 1}));
  ListedOp copy;
  copy.kind = CRUCIBLE_OP_COPY;
  copy.addresses = {100, 200};
  EXPECT_THAT(touched(copy, {}), IsEmpty());
  copy.size = 4;
  EXPECT_THAT(touched(copy, {}), ElementsAre(Bytes{100, 104, 1}, Bytes{200, 204, 0}));
  copy.kind = CRUCIBLE_OP_FILL;
  EXPECT_THAT(touched(copy, {}), ElementsAre(Bytes{100, 104, 1}));
  ListedOp call;
  call.kind = CRUCIBLE_OP_LIBRARY;
  EXPECT_THAT(touched(call, {}), ElementsAre(Bytes{0, kEnd, 1}));
  Gemm product;
  product.dtype = 8, product.m = 2, product.n = 3, product.k = 4;
  product.x.pitch = product.d.pitch = 2, product.y.pitch = 4;
  product.places = {{}};
  call.product = std::make_unique<const Gemm>(product);
  call.addresses = {100, 200, 300, 400};
  call.scratch_bytes = 64;
  EXPECT_THAT(touched(call, {}),
              ElementsAre(Bytes{100, 132, 0}, Bytes{200, 248, 0}, Bytes{300, 324, 1}, Bytes{400, 464, 1}));
}

TEST(OpOrder, ASharedTimeIsAllGivenOut) {
  EXPECT_THAT(shared_time(100, std::vector<std::uint64_t>{1, 3}), ElementsAre(25, 75));
  EXPECT_THAT(shared_time(10, std::vector<std::uint64_t>{0, 0, 0}), ElementsAre(3, 3, 4));
  EXPECT_THAT(shared_time(7, std::vector<std::uint64_t>{5, 5, 5}), ElementsAre(2, 2, 3));
}

}  // namespace
}  // namespace crucible::sdk
