// Cutting: ops by a key (phase, module), then each key where paths leave and re-enter it.
#include "core/merkle/cut.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "core/merkle/homes.hpp"

namespace crucible::merkle {
namespace {

using graph::kNone;
using graph::OpId;
using graph::Phase;
using graph::Program;

using Key = std::uint32_t;

/// More entries than this are not made to tell calls of interlaced modules apart; then each change of module is a call.
constexpr std::size_t kMostReentries = std::size_t{1} << 26;

/// Groups ops by keys so that no path leaves a group and comes back, not through other groups either.
class Grouping {
 public:
  Grouping(const Program& program, std::vector<std::uint32_t>& place) : program_(program), place_(place) {}

  /// `ops` ascending, `key` one for each. Every group: ascending places in `ops`.
  std::vector<std::vector<std::uint32_t>> groups(std::span<const OpId> ops, std::vector<Key> key) {
    ops_ = ops;
    for (std::uint32_t i = 0; i < ops.size(); ++i) place_[ops[i]] = i;
    key_ = std::move(key);
    renumber([this](std::uint32_t i) { return std::pair(key_[i], 0u); });
    if (find_entangled()) {
      split_by_calls();
      if (find_entangled()) split_by_changes();
    }
    std::vector<std::vector<std::uint32_t>> groups(keys_);
    for (std::uint32_t i = 0; i < ops.size(); ++i) groups[key_[i]].push_back(i);
    for (const OpId op : ops) place_[op] = kNone;
    return groups;
  }

 private:
  template <class Visit>
  void for_each_producer(std::uint32_t i, Visit visit) const {
    for (const graph::Operand& input : program_.ops[ops_[i]].inputs) {
      if (input.is_scalar()) continue;
      const OpId producer = program_.values[input.value].producer;
      if (producer != kNone && place_[producer] != kNone) visit(place_[producer]);
    }
  }

  /// Keys become 0, 1, ... in the order of what `of` says.
  template <class Of>
  void renumber(Of of) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Key> numbers;
    for (std::uint32_t i = 0; i < ops_.size(); ++i) numbers.try_emplace(of(i), 0);
    Key next = 0;
    for (auto& [what, number] : numbers) number = next++;
    std::vector<Key> renumbered(ops_.size());
    for (std::uint32_t i = 0; i < ops_.size(); ++i) renumbered[i] = numbers[of(i)];
    key_ = std::move(renumbered);
    keys_ = next;
  }

  /// Which keys lie on cycles between keys, or between such cycles. False where there are none.
  bool find_entangled() {
    std::vector<std::pair<Key, Key>> edges;
    for (std::uint32_t i = 0; i < ops_.size(); ++i) {
      for_each_producer(i, [&](std::uint32_t p) {
        if (key_[p] != key_[i]) edges.emplace_back(key_[p], key_[i]);
      });
    }
    std::ranges::sort(edges);
    edges.erase(std::ranges::unique(edges).begin(), edges.end());
    entangled_.assign(keys_, true);
    peel(edges);
    for (auto& [from, to] : edges) std::swap(from, to);
    std::ranges::sort(edges);
    peel(edges);
    return std::ranges::find(entangled_, true) != entangled_.end();
  }

  /// Takes away keys that no other one leads to, one after the other. `edges` sorted.
  void peel(const std::vector<std::pair<Key, Key>>& edges) {
    std::vector<std::uint32_t> waiting(keys_, 0);
    for (const auto& [from, to] : edges) waiting[to] += entangled_[from] && entangled_[to];
    std::vector<Key> free;
    for (Key key = 0; key < keys_; ++key) {
      if (entangled_[key] && waiting[key] == 0) free.push_back(key);
    }
    while (!free.empty()) {
      const Key key = free.back();
      free.pop_back();
      entangled_[key] = false;
      for (auto edge = std::ranges::lower_bound(edges, std::pair(key, Key{0})); edge != edges.end(); ++edge) {
        if (edge->first != key) break;
        if (entangled_[edge->second] && --waiting[edge->second] == 0) free.push_back(edge->second);
      }
    }
  }

  /// By how often a path may have left an entangled key and come back before an op: the calls of a module.
  void split_by_calls() {
    std::vector<std::uint32_t> column(keys_, kNone);
    std::uint32_t columns = 0;
    std::size_t rows = 0;
    for (Key key = 0; key < keys_; ++key) {
      if (entangled_[key]) column[key] = columns++;
    }
    for (const Key key : key_) rows += entangled_[key];
    if (rows * columns > kMostReentries) return;
    std::vector<std::uint32_t> left(rows * columns, 0);  // per op: how often each key may have been left before it
    std::vector<std::uint32_t> row(ops_.size(), 0), call(ops_.size(), 0);
    std::uint32_t next = 0;
    for (std::uint32_t i = 0; i < ops_.size(); ++i) {
      if (!entangled_[key_[i]]) continue;
      row[i] = next++;
      std::uint32_t* mine = left.data() + std::size_t{row[i]} * columns;
      const std::uint32_t own = column[key_[i]];
      for_each_producer(i, [&](std::uint32_t p) {
        if (!entangled_[key_[p]]) return;
        const std::uint32_t* its = left.data() + std::size_t{row[p]} * columns;
        for (std::uint32_t c = 0; c < columns; ++c) mine[c] = std::max(mine[c], its[c]);
        // In its own key an op's entry is its call; another key's op has left it, once more than its call.
        if (key_[p] != key_[i]) mine[column[key_[p]]] = std::max(mine[column[key_[p]]], call[p] + 1);
      });
      call[i] = mine[own];
    }
    renumber([&](std::uint32_t i) { return std::pair(key_[i], call[i]); });
  }

  /// By how often the key changes on the way to an op: then every edge between groups leads to a larger number.
  void split_by_changes() {
    std::vector<std::uint32_t> changes(ops_.size(), 0);
    for (std::uint32_t i = 0; i < ops_.size(); ++i) {
      if (!entangled_[key_[i]]) continue;
      for_each_producer(i, [&](std::uint32_t p) {
        if (entangled_[key_[p]]) changes[i] = std::max(changes[i], changes[p] + (key_[p] != key_[i]));
      });
    }
    renumber([&](std::uint32_t i) { return std::pair(key_[i], changes[i]); });
  }

  const Program& program_;
  std::vector<std::uint32_t>& place_;  // op -> its place in ops_; kNone between calls
  std::span<const OpId> ops_;
  std::vector<Key> key_;
  Key keys_ = 0;
  std::vector<bool> entangled_;
};

class Cutter {
 public:
  explicit Cutter(const Program& program)
      : program_(program), homes_(homes(program)), place_(program.ops.size(), kNone), grouping_(program, place_) {}

  Part run() {
    Part all{PartKind::kIteration, "iteration", {}, {}};
    all.ops.resize(program_.ops.size());
    std::iota(all.ops.begin(), all.ops.end(), OpId{0});
    if (all.ops.empty()) return all;
    std::vector<Key> phase;
    for (const OpId op : all.ops) phase.push_back(static_cast<Key>(phase_of(op)));
    for (const auto& group : grouping_.groups(all.ops, std::move(phase))) {
      Part part = taken(all, group);
      part.kind = PartKind::kPhase;
      part.name = words(phase_of(part.ops.front()));
      cut_inside(part, 0);
      all.parts.push_back(std::move(part));
    }
    return all;
  }

 private:
  Phase phase_of(OpId op) const {
    const std::uint32_t source = program_.ops[op].source;
    return source == kNone ? Phase::kForward : program_.sources[source].phase;
  }

  static const char* words(Phase phase) {
    return phase == Phase::kForward ? "forward" : phase == Phase::kBackward ? "backward" : "optimizer";
  }

  static Part taken(const Part& from, const std::vector<std::uint32_t>& places) {
    Part part;
    part.ops.reserve(places.size());
    for (const std::uint32_t at : places) part.ops.push_back(from.ops[at]);
    return part;
  }

  /// By the modules one step inside of `path`; steps that all ops take together are one.
  void cut_inside(Part& part, PathId path) {
    PathId all = homes_.of[part.ops.front()];
    for (const OpId op : part.ops) all = homes_.paths.common(all, homes_.of[op]);
    if (homes_.paths.depth(all) > homes_.paths.depth(path)) path = all;
    std::vector<Key> step;
    step.reserve(part.ops.size());
    for (const OpId op : part.ops) step.push_back(homes_.paths.step_inside(path, homes_.of[op]));
    if (std::ranges::all_of(step, [&](Key each) { return each == path; })) return;
    for (const auto& group : grouping_.groups(part.ops, step)) {
      Part inner = taken(part, group);
      const PathId inside = step[group.front()];
      inner.kind = inside == path ? PartKind::kOps : PartKind::kModule;
      inner.name = homes_.paths.name(inside);
      if (inside != path) {
        cut_inside(inner, inside);
        if (inner.parts.size() == 1) inner.parts.clear();
        PathId whole = homes_.of[inner.ops.front()];  // a module of which only one inside is here is called by that one
        for (const OpId op : inner.ops) whole = homes_.paths.common(whole, homes_.of[op]);
        inner.name = homes_.paths.name(whole);
      }
      part.parts.push_back(std::move(inner));
    }
  }

  const Program& program_;
  Homes homes_;
  std::vector<std::uint32_t> place_;
  Grouping grouping_;
};

}  // namespace

Part cut_by_modules(const Program& program) { return Cutter(program).run(); }

}  // namespace crucible::merkle
