// Graphs keep dependencies in every order, find cycles, and are changed without disturbing what is queued.
#include "tests/emulators/core/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace crucible::emulator {
namespace {

using ::testing::ElementsAre;

struct Recorded {
  std::vector<int> order;
  NodeWork work(int node) {
    return [this, node] { order.push_back(node); };
  }
};

/// Two chains 0 1 and 2 3, and 4 behind both.
Graph chains(Recorded& recorded) {
  Graph graph;
  graph.add(recorded.work(0), {});
  graph.add(recorded.work(1), std::vector<NodeId>{0});
  graph.add(recorded.work(2), {});
  graph.add(recorded.work(3), std::vector<NodeId>{2});
  graph.add(recorded.work(4), std::vector<NodeId>{1, 3});
  return graph;
}

TEST(EmulatorGraph, RunsInTheOrderOfTheSettings) {
  Recorded recorded;
  const Graph graph = chains(recorded);
  ExecutableGraph::make(graph, Order::kForward, 1)->launch()();
  EXPECT_THAT(recorded.order, ElementsAre(0, 1, 2, 3, 4));
  recorded.order.clear();
  ExecutableGraph::make(graph, Order::kReverse, 1)->launch()();
  EXPECT_THAT(recorded.order, ElementsAre(2, 3, 0, 1, 4));
}

TEST(EmulatorGraph, ShuffledOrdersDifferByLaunchAndKeepDependencies) {
  Recorded recorded;
  const Graph graph = chains(recorded);
  auto run = [&](std::uint64_t seed) {
    std::set<std::vector<int>> seen;
    auto executable = ExecutableGraph::make(graph, Order::kShuffled, seed);
    for (int i = 0; i < 100; ++i) {
      recorded.order.clear();
      executable->launch()();
      EXPECT_EQ(recorded.order.size(), 5u);
      const auto place = [&](int n) { return std::ranges::find(recorded.order, n) - recorded.order.begin(); };
      EXPECT_LT(place(0), place(1));
      EXPECT_LT(place(2), place(3));
      EXPECT_EQ(place(4), 4);
      seen.insert(recorded.order);
    }
    return seen;
  };
  EXPECT_EQ(run(1).size(), 6u);  // all that there are
}

TEST(EmulatorGraph, ACycleIsNoExecutable) {
  Recorded recorded;
  Graph graph = chains(recorded);
  EXPECT_TRUE(graph.depend(0, 4));
  EXPECT_FALSE(graph.depend(0, 5));
  EXPECT_FALSE(ExecutableGraph::make(graph, Order::kForward, 1));
}

TEST(EmulatorGraph, AChangedNodeHoldsFromTheNextLaunchOn) {
  Recorded recorded;
  Graph graph = chains(recorded);
  auto executable = ExecutableGraph::make(graph, Order::kForward, 1);
  const auto queued = executable->launch();
  executable->set(1, recorded.work(11));
  const auto next = executable->launch();
  queued();
  EXPECT_THAT(recorded.order, ElementsAre(0, 1, 2, 3, 4));
  recorded.order.clear();
  next();
  EXPECT_THAT(recorded.order, ElementsAre(0, 11, 2, 3, 4));
  // The graph that it was made of is as before.
  recorded.order.clear();
  ExecutableGraph::make(graph, Order::kForward, 1)->launch()();
  EXPECT_THAT(recorded.order, ElementsAre(0, 1, 2, 3, 4));
}

}  // namespace
}  // namespace crucible::emulator
