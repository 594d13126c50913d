// Graphs of work: nodes with dependencies, made executable once and launched often. Nodes that do not depend on each
// other run in the order that the settings name (as added, reversed, shuffled anew for each launch), so that a missing
// dependency can show.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {

using NodeId = std::uint32_t;
using NodeWork = std::function<void()>;

/// Threads: the caller serialises.
class Graph {
 public:
  NodeId add(NodeWork work, std::span<const NodeId> dependencies);
  /// Errors: false when a node does not exist.
  bool depend(NodeId node, NodeId on);
  void set(NodeId node, NodeWork work);
  std::size_t size() const { return work_.size(); }

 private:
  friend class ExecutableGraph;
  std::vector<std::shared_ptr<const NodeWork>> work_;
  std::vector<std::vector<NodeId>> dependencies_;
};

/// A graph as it was when this was made. Threads: the caller serialises, launched work may be running.
class ExecutableGraph {
 public:
  /// Nothing when the dependencies have a cycle.
  static std::optional<ExecutableGraph> make(const Graph& graph, Order order, std::uint64_t seed);

  std::size_t size() const { return work_->size(); }
  /// For launches from now on; those that are queued or run keep what they have.
  void set(NodeId node, NodeWork work);
  /// All nodes as one piece of work. Host cost is independent of the number of nodes.
  std::function<void()> launch();

 private:
  using Nodes = std::vector<std::shared_ptr<const NodeWork>>;
  struct Shape {
    std::vector<std::vector<NodeId>> users;
    std::vector<std::uint32_t> dependencies;  // how many
    Order order = Order::kForward;
    std::vector<NodeId> fixed;  // the order, unless it is shuffled
  };
  static std::vector<NodeId> sorted(const Shape& shape, std::uint64_t seed);

  std::shared_ptr<Nodes> work_;
  std::shared_ptr<const Shape> shape_;
  std::uint64_t seed_ = 0;
};

}  // namespace crucible::emulator
