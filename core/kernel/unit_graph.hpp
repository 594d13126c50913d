// Units and which of them wait for which, while they are joined: fusion.cpp and epilogue.cpp decide what is joined, this keeps the
// graph right and names an order of execution.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/kernel/fusion.hpp"

namespace crucible::kernel {

class UnitGraph {
 public:
  using UnitId = std::uint32_t;

  /// Every op of the program is in exactly one of the units.
  UnitGraph(const graph::Program& program, std::vector<Unit> units);

  /// Kahn's algorithm; among units that are ready, the one with the lowest key. Keys: one per unit. The graph is empty afterwards.
  std::vector<Unit> ordered(std::span<const graph::OpId> keys);
  /// Per unit: its last op.
  std::vector<graph::OpId> last_ops() const;

 protected:
  /// True when a path leads from `from` to `to` through a third unit.
  bool connected_outside(UnitId from, UnitId to);
  /// `b` becomes part of `a`, whose group is then `merged`.
  void replace(UnitId a, UnitId b, Group merged);
  /// The unit of `then` comes after that of `first`, though it reads nothing of it.
  void let_wait(graph::OpId first, graph::OpId then);

  const graph::Program& program_;
  std::vector<Unit> units_;      // emptied when joined to another
  std::vector<UnitId> unit_of_;  // per op
  std::vector<std::set<UnitId>> successors_;

 private:
  std::vector<std::pair<graph::OpId, graph::OpId>> waits_;
  std::vector<std::uint32_t> visited_;
  std::uint32_t visit_ = 0;
};

}  // namespace crucible::kernel
