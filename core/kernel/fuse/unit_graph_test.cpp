// The order that is kept while units are joined, and paths between units, against searches of everything.
#include "core/kernel/fuse/unit_graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/graph/queries.hpp"
#include "core/graph/random_program.hpp"

namespace crucible::kernel {
namespace {

TEST(OrderList, IsThatOfAListThatChangesInTheSameWay) {
  std::mt19937_64 random(7);
  std::vector<OrderList::Item> wanted(200);
  std::iota(wanted.begin(), wanted.end(), 0u);
  std::ranges::shuffle(wanted, random);
  OrderList list(wanted);
  for (int move = 0; move < 20000; ++move) {
    // Always to the same few places now and then, so that labels run out there.
    const std::size_t from = random() % wanted.size();
    const OrderList::Item item = wanted[from];
    wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(from));
    const std::size_t to = (move / 1000) % 2 == 0 ? random() % wanted.size() : 100;
    list.remove(item);
    if (move % 2 == 0) {
      list.insert_after(wanted[to], item);
      wanted.insert(wanted.begin() + static_cast<std::ptrdiff_t>(to) + 1, item);
    } else {
      list.insert_before(wanted[to], item);
      wanted.insert(wanted.begin() + static_cast<std::ptrdiff_t>(to), item);
    }
    if (move % 500 != 0) continue;
    for (std::size_t i = 1; i < wanted.size(); ++i)
      ASSERT_TRUE(list.is_before(wanted[i - 1], wanted[i])) << "move " << move;
  }
}

/// Units of one op each, of which any two may be joined.
class Joiner : public UnitGraph {
 public:
  explicit Joiner(const graph::Program& program) : UnitGraph(program, units_of(program)) {}
  using UnitGraph::connected_outside;
  std::vector<UnitId> alive() const {
    std::vector<UnitId> all;
    for (UnitId u = 0; u < units_.size(); ++u) {
      if (!units_[u].ops.empty()) all.push_back(u);
    }
    return all;
  }
  void join(UnitId a, UnitId b) { replace(a, b, {}); }
  const std::vector<graph::OpId>& ops(UnitId u) const { return units_[u].ops; }

  /// By a search of everything, over ops: leaves `from`, comes to `to`, and is elsewhere in between.
  bool leads_outside(UnitId from, UnitId to) const {
    const graph::IdLists after = graph::dependences(program_).after;
    std::vector<bool> seen(units_.size(), false);
    std::vector<UnitId> stack{from};
    while (!stack.empty()) {
      const UnitId at = stack.back();
      stack.pop_back();
      for (const graph::OpId op : units_[at].ops) {
        for (const graph::OpId next : after[op]) {
          const UnitId unit = unit_of_[next];
          if (unit == at || (at == from && unit == to)) continue;
          if (unit == to) return true;
          if (unit == from || seen[unit]) continue;
          seen[unit] = true;
          stack.push_back(unit);
        }
      }
    }
    return false;
  }

 private:
  static std::vector<Unit> units_of(const graph::Program& program) {
    std::vector<Unit> units(program.ops.size());
    for (graph::OpId op = 0; op < units.size(); ++op) units[op].ops = {op};
    return units;
  }
};

TEST(UnitGraph, FindsEveryPathAndStaysAnOrderWhateverIsJoined) {
  std::size_t joints = 0, refusals = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const graph::Program program =
        graph::random_program({.seed = seed, .ops = 60, .generators = seed % 2 == 0}).program;
    Joiner joiner(program);
    std::mt19937_64 random(seed);
    for (int attempt = 0; attempt < 300; ++attempt) {
      const std::vector<UnitGraph::UnitId> alive = joiner.alive();
      const UnitGraph::UnitId a = alive[random() % alive.size()], b = alive[random() % alive.size()];
      if (a == b) continue;
      const bool is_connected = joiner.leads_outside(a, b) || joiner.leads_outside(b, a);
      ASSERT_EQ(joiner.connected_outside(a, b), is_connected) << a << " and " << b;
      ++(is_connected ? refusals : joints);
      if (!is_connected) joiner.join(a, b);
    }
    const std::vector<Unit> units = joiner.ordered(joiner.last_ops());
    std::vector<std::uint32_t> unit_of(program.ops.size(), graph::kNone);
    for (std::uint32_t u = 0; u < units.size(); ++u) {
      for (const graph::OpId op : units[u].ops) unit_of[op] = u;
    }
    for (graph::OpId op = 0; op < program.ops.size(); ++op) {
      ASSERT_NE(unit_of[op], graph::kNone) << "op " << op << " is lost";
      for (const auto& input : program.ops[op].inputs) {
        if (!input.is_scalar() && program.values[input.value].producer != graph::kNone) {
          EXPECT_LE(unit_of[program.values[input.value].producer], unit_of[op]);
        }
      }
    }
  }
  EXPECT_GT(joints, 1000u);
  EXPECT_GT(refusals, 1000u);
}

}  // namespace
}  // namespace crucible::kernel
