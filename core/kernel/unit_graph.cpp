// Joining units, paths between them and their order: see unit_graph.hpp.
#include "core/kernel/unit_graph.hpp"

#include <algorithm>
#include <queue>
#include <utility>

#include "core/graph/queries.hpp"

namespace crucible::kernel {

using graph::kNone;
using graph::OpId;

UnitGraph::UnitGraph(const graph::Program& program, std::vector<Unit> units)
    : program_(program), units_(std::move(units)), unit_of_(units_of_ops(program, units_)), successors_(units_.size()), visited_(units_.size(), 0) {
  const graph::IdLists after = graph::dependences(program).after;
  for (OpId op = 0; op < program.ops.size(); ++op) {
    for (const OpId next : after[op]) {
      if (unit_of_[next] != unit_of_[op]) successors_[unit_of_[op]].insert(unit_of_[next]);
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
    for (const UnitId next : successors_[u]) ++waits[next];
  }
  std::priority_queue<std::pair<OpId, UnitId>, std::vector<std::pair<OpId, UnitId>>, std::greater<>> ready;
  for (UnitId u = 0; u < units_.size(); ++u) {
    if (!units_[u].ops.empty() && waits[u] == 0) ready.emplace(keys[u], u);
  }
  std::vector<Unit> result;
  while (!ready.empty()) {
    const UnitId u = ready.top().second;
    ready.pop();
    for (const UnitId next : successors_[u]) {
      if (--waits[next] == 0) ready.emplace(keys[next], next);
    }
    result.push_back(std::move(units_[u]));
  }
  return result;
}

bool UnitGraph::connected_outside(UnitId from, UnitId to) {
  ++visit_;
  std::vector<UnitId> stack;
  visited_[from] = visit_;
  for (const UnitId next : successors_[from]) {
    if (next == to || visited_[next] == visit_) continue;
    visited_[next] = visit_;
    stack.push_back(next);
  }
  while (!stack.empty()) {
    const UnitId u = stack.back();
    stack.pop_back();
    for (const UnitId next : successors_[u]) {
      if (next == to) return true;
      if (visited_[next] == visit_) continue;
      visited_[next] = visit_;
      stack.push_back(next);
    }
  }
  return false;
}

void UnitGraph::replace(UnitId a, UnitId b, Group merged) {
  units_[a].group = std::move(merged);
  for (const OpId op : units_[b].ops) unit_of_[op] = a;
  std::vector<OpId> ops;
  std::ranges::merge(units_[a].ops, units_[b].ops, std::back_inserter(ops));
  units_[a].ops = std::move(ops);
  units_[b] = {};
  for (const UnitId next : successors_[b]) successors_[a].insert(next);
  successors_[b].clear();
  successors_[a].erase(a);
  successors_[a].erase(b);
  const auto lead_here = [&](UnitId before) {  // whoever led to b leads to a
    if (before == a) return;
    successors_[before].erase(b);
    successors_[before].insert(a);
  };
  for (const OpId op : units_[a].ops) {
    for (const auto& input : program_.ops[op].inputs) {
      if (input.is_scalar() || program_.values[input.value].producer == kNone) continue;
      lead_here(unit_of_[program_.values[input.value].producer]);
    }
  }
  for (const auto& [first, then] : waits_) {
    if (unit_of_[then] == a) lead_here(unit_of_[first]);
  }
}

void UnitGraph::let_wait(OpId first, OpId then) {
  if (unit_of_[first] == unit_of_[then]) return;
  waits_.emplace_back(first, then);
  successors_[unit_of_[first]].insert(unit_of_[then]);
}

}  // namespace crucible::kernel
