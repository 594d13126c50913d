// Joining units, paths between them and their order: see unit_graph.hpp.
#include "core/kernel/fuse/unit_graph.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "core/graph/queries.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::OpId;
using UnitId = UnitGraph::UnitId;

// Searches for paths are exact until so many edges were looked at in all of them together, which programs of some ten
// thousand ops do not reach; from then on each may look at kFreeEdges, so that the time grows with the ops and no
// faster.
constexpr std::uint64_t kEdgesInAll = 30'000'000, kEdgesPerUnit = 64, kFreeEdges = 256;

std::vector<UnitId> numbers_to(std::size_t count) {
  std::vector<UnitId> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

}  // namespace

UnitGraph::UnitGraph(const graph::Program& program, std::vector<Unit> units)
    : program_(program),
      units_(std::move(units)),
      unit_of_(units_of_ops(program, units_)),
      successors_(units_.size()),
      predecessors_(units_.size()),
      part_of_(numbers_to(units_.size())),
      order_(part_of_),
      visited_{std::vector<std::uint32_t>(units_.size(), 0), std::vector<std::uint32_t>(units_.size(), 0)},
      edges_left_(kEdgesInAll + kEdgesPerUnit * units_.size()) {
  const graph::IdLists after = graph::dependences(program).after;
  for (OpId op = 0; op < program.ops.size(); ++op) {
    for (const OpId next : after[op]) {
      if (unit_of_[next] == unit_of_[op]) continue;
      successors_[unit_of_[op]].push_back(unit_of_[next]);
      predecessors_[unit_of_[next]].push_back(unit_of_[op]);
    }
  }
}

std::vector<OpId> UnitGraph::last_ops() const {
  std::vector<OpId> keys;
  for (const Unit& unit : units_) keys.push_back(unit.ops.empty() ? kNone : unit.ops.back());
  return keys;
}

std::vector<Unit> UnitGraph::ordered(std::span<const OpId> keys) {
  std::vector<std::uint32_t> waits(units_.size(), 0);
  for (UnitId u = 0; u < units_.size(); ++u) {
    for_each_successor(u, [&](UnitId next) { ++waits[next]; });
  }
  std::priority_queue<std::pair<OpId, UnitId>, std::vector<std::pair<OpId, UnitId>>, std::greater<>> ready;
  for (UnitId u = 0; u < units_.size(); ++u) {
    if (!units_[u].ops.empty() && waits[u] == 0) ready.emplace(keys[u], u);
  }
  std::vector<Unit> result;
  while (!ready.empty()) {
    const UnitId u = ready.top().second;
    ready.pop();
    for_each_successor(u, [&](UnitId next) {
      if (--waits[next] == 0) ready.emplace(keys[next], next);
    });
    result.push_back(std::move(units_[u]));
  }
  return result;
}

UnitId UnitGraph::find(UnitId unit) {
  while (part_of_[unit] != unit) unit = part_of_[unit] = part_of_[part_of_[unit]];
  return unit;
}

UnitGraph::Between UnitGraph::between(UnitId a, UnitId b, std::uint64_t most_edges) {
  Between found;
  found.low = order_.is_before(a, b) ? a : b;
  found.high = found.low == a ? b : a;
  struct Side {
    const Edges* edges;
    UnitId start, goal;
    std::vector<UnitId> reached;
    std::size_t unit = 0, edge = 0;  // of `reached`, and the next of its edges
  };
  Side sides[2] = {{&successors_, found.low, found.high, {found.low}},
                   {&predecessors_, found.high, found.low, {found.high}}};
  ++visit_;
  for (std::uint64_t seen = 0;; ++seen) {
    const std::size_t turn = seen % 2;
    Side& side = sides[turn];
    const UnitId from = side.reached[side.unit];
    const std::vector<UnitId>& edges = (*side.edges)[from];
    if (side.edge == edges.size()) {
      side.edge = 0;
      if (++side.unit < side.reached.size()) continue;
      // All that can be reached on this side, and the other end is not.
      found.is_after = turn == 0;
      found.units.assign(side.reached.begin() + 1, side.reached.end());
      edges_seen_ += seen;
      return found;
    }
    const UnitId to = find(edges[side.edge++]);
    if (to == from || (from == side.start && to == side.goal)) continue;
    if (to == side.goal || visited_[1 - turn][to] == visit_ || seen >= most_edges) {
      found.is_connected = true;
      edges_seen_ += seen;
      return found;
    }
    if (visited_[turn][to] == visit_ || (turn == 0 ? order_.is_before(side.goal, to) : order_.is_before(to, side.goal)))
      continue;
    visited_[turn][to] = visit_;
    side.reached.push_back(to);
  }
}

bool UnitGraph::connected_outside(UnitId a, UnitId b) {
  const std::uint64_t before = edges_seen_;
  last_ = between(a, b, std::max(edges_left_, kFreeEdges));
  edges_left_ -= std::min(edges_left_, edges_seen_ - before);
  return last_.is_connected;
}

void UnitGraph::replace(UnitId a, UnitId b, Group merged) {
  const UnitId low = order_.is_before(a, b) ? a : b, high = low == a ? b : a;
  Between found = last_.low == low && last_.high == high && !last_.is_connected ? std::move(last_)
                                                                                : between(a, b, ~std::uint64_t{0});
  last_ = {};
  std::ranges::sort(found.units, [&](UnitId x, UnitId y) { return order_.is_before(x, y); });
  // What comes after the first of the two goes behind the place of the second, where both are then; or the other way
  // round.
  if (a != (found.is_after ? high : low)) {
    order_.remove(a);
    order_.insert_after(b, a);
  }
  order_.remove(b);
  UnitId place = a;
  for (const UnitId unit : found.units) {
    order_.remove(unit);
    if (found.is_after) {
      order_.insert_after(place, unit);
      place = unit;
    } else {
      order_.insert_before(a, unit);
    }
  }
  part_of_[b] = a;
  for (Edges* const edges : {&successors_, &predecessors_}) {
    std::vector<UnitId>&into = (*edges)[a], &from = (*edges)[b];
    if (into.size() < from.size()) into.swap(from);
    into.insert(into.end(), from.begin(), from.end());
    from = {};
  }
  units_[a].group = std::move(merged);
  for (const OpId op : units_[b].ops) unit_of_[op] = a;
  std::vector<OpId> ops;
  std::ranges::merge(units_[a].ops, units_[b].ops, std::back_inserter(ops));
  units_[a].ops = std::move(ops);
  units_[b] = {};
}

void UnitGraph::let_wait(OpId first, OpId then) {
  if (unit_of_[first] == unit_of_[then]) return;
  successors_[unit_of_[first]].push_back(unit_of_[then]);
  predecessors_[unit_of_[then]].push_back(unit_of_[first]);
}

}  // namespace crucible::kernel
