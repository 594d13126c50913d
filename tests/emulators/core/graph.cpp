// Ordering and launching graphs: see graph.hpp.
#include "tests/emulators/core/graph.hpp"

#include <algorithm>
#include <random>
#include <utility>

namespace crucible::emulator {

NodeId Graph::add(NodeWork work, std::span<const NodeId> dependencies) {
  work_.push_back(std::make_shared<const NodeWork>(std::move(work)));
  dependencies_.emplace_back(dependencies.begin(), dependencies.end());
  return static_cast<NodeId>(work_.size() - 1);
}

bool Graph::depend(NodeId node, NodeId on) {
  if (node >= work_.size() || on >= work_.size()) return false;
  dependencies_[node].push_back(on);
  return true;
}

void Graph::set(NodeId node, NodeWork work) { work_[node] = std::make_shared<const NodeWork>(std::move(work)); }

std::optional<ExecutableGraph> ExecutableGraph::make(const Graph& graph, Order order, std::uint64_t seed) {
  auto shape = std::make_shared<Shape>();
  shape->users.resize(graph.size());
  shape->dependencies.resize(graph.size());
  shape->order = order;
  for (NodeId node = 0; node < graph.size(); ++node) {
    for (const NodeId on : graph.dependencies_[node]) {
      if (on >= graph.size()) return std::nullopt;
      shape->users[on].push_back(node);
      ++shape->dependencies[node];
    }
  }
  shape->fixed = sorted(*shape, seed);
  if (shape->fixed.size() != graph.size()) return std::nullopt;
  ExecutableGraph executable;
  executable.work_ = std::make_shared<Nodes>(graph.work_);
  executable.shape_ = std::move(shape);
  executable.seed_ = seed;
  return executable;
}

/// An order of all nodes that keeps the dependencies; shorter when they have a cycle.
std::vector<NodeId> ExecutableGraph::sorted(const Shape& shape, std::uint64_t seed) {
  std::vector<std::uint32_t> open = shape.dependencies;
  std::vector<NodeId> ready, result;
  std::mt19937_64 random(seed);
  const bool lowest_first = shape.order == Order::kForward;
  const auto later = [&](NodeId a, NodeId b) { return lowest_first ? a > b : a < b; };
  const auto add = [&](NodeId node) {
    ready.push_back(node);
    if (shape.order != Order::kShuffled) std::ranges::push_heap(ready, later);
  };
  for (NodeId node = 0; node < open.size(); ++node) {
    if (open[node] == 0) add(node);
  }
  while (!ready.empty()) {
    if (shape.order == Order::kShuffled) {
      std::swap(ready[random() % ready.size()], ready.back());
    } else {
      std::ranges::pop_heap(ready, later);
    }
    const NodeId node = ready.back();
    ready.pop_back();
    result.push_back(node);
    for (const NodeId user : shape.users[node]) {
      if (--open[user] == 0) add(user);
    }
  }
  return result;
}

void ExecutableGraph::set(NodeId node, NodeWork work) {
  // A launch that is under way keeps its own list.
  if (work_.use_count() > 1) work_ = std::make_shared<Nodes>(*work_);
  (*work_)[node] = std::make_shared<const NodeWork>(std::move(work));
}

std::function<void()> ExecutableGraph::launch() {
  return [work = work_, shape = shape_, seed = ++seed_] {
    if (shape->order == Order::kShuffled) {
      for (const NodeId node : sorted(*shape, seed)) (*(*work)[node])();
    } else {
      for (const NodeId node : shape->fixed) (*(*work)[node])();
    }
  };
}

}  // namespace crucible::emulator
