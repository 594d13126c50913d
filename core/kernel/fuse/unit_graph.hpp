// Units and which of them wait for which, while they are joined: fusion.cpp and epilogue.cpp decide what is joined,
// this keeps the graph right and names an order of execution.
//
// The units stand in an order that respects who waits for whom, kept right with every joint. A path between two units
// then lies between their places, and is looked for from both ends at once: what is joined is mostly near, and so the
// graph's size does not matter.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/kernel/fuse/fusion.hpp"
#include "core/kernel/fuse/order_list.hpp"

namespace crucible::kernel {

class UnitGraph {
 public:
  using UnitId = std::uint32_t;

  /// Every op of the program is in exactly one of the units.
  UnitGraph(const graph::Program& program, std::vector<Unit> units);

  /// Kahn's algorithm; among units that are ready, the one with the lowest key. Keys: one per unit. The graph is empty
  /// afterwards.
  std::vector<Unit> ordered(std::span<const graph::OpId> keys);
  /// Per unit: its last op.
  std::vector<graph::OpId> last_ops() const;

 protected:
  /// True when a path leads from one to the other through a third unit; also where the search for one became too long
  /// (kFreeEdges): two units that are not joined are never wrong.
  bool connected_outside(UnitId a, UnitId b);
  /// `b` becomes part of `a`, whose group is then `merged`. No path leads from one to the other through a third.
  void replace(UnitId a, UnitId b, Group merged);
  /// The unit of `then` comes after that of `first`, which is before it now, though it reads nothing of it.
  void let_wait(graph::OpId first, graph::OpId then);

  template <class Visit>
  void for_each_successor(UnitId unit, Visit visit) {
    for (const UnitId next : successors_[unit]) {
      if (const UnitId now = find(next); now != unit) visit(now);
    }
  }

  const graph::Program& program_;
  std::vector<Unit> units_;      // emptied when joined to another
  std::vector<UnitId> unit_of_;  // per op

 private:
  using Edges = std::vector<std::vector<UnitId>>;
  /// The unit that this one is part of now.
  UnitId find(UnitId unit);
  /// What lies between two units and must not stay there when they become one: what comes after the first of them, or
  /// what the second comes after.
  struct Between {
    UnitId low = graph::kNone, high = graph::kNone;
    bool is_connected = false, is_after = false;
    std::vector<UnitId> units = {};
  };
  Between between(UnitId a, UnitId b, std::uint64_t most_edges);

  Edges successors_,
      predecessors_;  // units as they were when the edge was made: find() says what they are now; some twice
  std::vector<UnitId> part_of_;
  OrderList order_;
  std::vector<std::uint32_t> visited_[2];  // by the search forwards, and backwards
  std::uint32_t visit_ = 0;
  std::uint64_t edges_seen_ = 0, edges_left_;
  Between last_;  // what connected_outside() found last
};

}  // namespace crucible::kernel
