// Modules of ops: recorded in the forward pass, found by what ops read and change in the others.
#include "core/merkle/homes.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/graph/queries.hpp"

namespace crucible::merkle {

using graph::kNone;
using graph::Op;
using graph::OpId;
using graph::Phase;
using graph::Program;
using graph::ValueId;

PathId Paths::child(PathId parent, std::string_view name) const {
  const auto found = nodes_[parent].children.find(name);
  return found == nodes_[parent].children.end() ? 0 : found->second;
}

PathId Paths::add(std::string_view path) {
  PathId at = 0;
  for (std::size_t end = 0; end < path.size();) {
    end = std::min(path.find('.', end + (end > 0)), path.size());
    const std::string_view name = path.substr(0, end);
    PathId next = child(at, name);
    if (next == 0) {
      next = static_cast<PathId>(nodes_.size());
      nodes_.push_back({std::string(name), at, nodes_[at].depth + 1, {}});
      nodes_[at].children.emplace(name, next);
    }
    at = next;
  }
  return at;
}

PathId Paths::find(std::string_view path) const {
  PathId at = 0;
  for (std::size_t end = 0; end < path.size();) {
    end = std::min(path.find('.', end + (end > 0)), path.size());
    at = child(at, path.substr(0, end));
    if (at == 0) return 0;
  }
  return at;
}

PathId Paths::common(PathId a, PathId b) const {
  while (a != b) (depth(a) >= depth(b) ? a : b) = parent(depth(a) >= depth(b) ? a : b);
  return a;
}

PathId Paths::step_inside(PathId outer, PathId path) const {
  while (path != outer && depth(path) > depth(outer) + 1) path = parent(path);
  return path;
}

namespace {

constexpr PathId kNowhere = kNone, kMany = kNone - 1;

PathId joined(PathId a, PathId b) { return a == kNowhere || a == b ? b : b == kNowhere ? a : kMany; }

class Finder {
 public:
  explicit Finder(const Program& program)
      : program_(program),
        users_(graph::readers(program)),
        home_(program.ops.size(), 0),
        state_home_(program.values.size(), kNowhere),
        ends_(program.values.size(), kNowhere) {}

  Homes run() {
    name_modules();
    if (paths_.size() > 1) {
      name_states();
      by_what_they_change();
      beside_their_readers();
      by_what_they_read();
    }
    return {std::move(paths_), std::move(home_)};
  }

 private:
  const std::string& module_of(OpId op) const {
    static const std::string none;
    const std::uint32_t source = program_.ops[op].source;
    return source == kNone ? none : program_.sources[source].module;
  }
  Phase phase_of(OpId op) const {
    const std::uint32_t source = program_.ops[op].source;
    return source == kNone ? Phase::kForward : program_.sources[source].phase;
  }

  void name_modules() {
    std::vector<PathId> path(program_.sources.size());
    for (std::size_t s = 0; s < path.size(); ++s) path[s] = paths_.add(program_.sources[s].module);
    for (OpId op = 0; op < home_.size(); ++op) {
      const std::uint32_t source = program_.ops[op].source;
      if (source != kNone) home_[op] = path[source];
    }
  }

  /// "exp_avg of blocks.0.norm1.weight" is of the module blocks.0.norm1, where ops of it are there.
  void name_states() {
    for (const graph::State& state : program_.states) {
      std::string_view name = program_.values[state.start].name;
      constexpr std::string_view kOf = " of ";
      if (const auto of = name.rfind(kOf); of != std::string_view::npos) name.remove_prefix(of + kOf.size());
      const auto dot = name.rfind('.');
      if (dot == std::string_view::npos) continue;
      const PathId path = paths_.find(name.substr(0, dot));
      if (path == 0) continue;
      state_home_[state.start] = path;
      if (state.end != state.start) ends_[state.end] = path;
    }
  }

  /// Ops without a module that serve the states of one module alone: in the forward pass, of those that no gradient
  /// needs; in the backward pass, of those whose results go nowhere else, for all of the first module serves it alone.
  void by_what_they_change() {
    serves_.assign(home_.size(), kNowhere);
    std::vector<bool> feeds_backward(home_.size(), false);
    for (OpId op = static_cast<OpId>(home_.size()); op-- > 0;) {
      for (const auto& output : program_.ops[op].outputs) {
        serves_[op] = joined(serves_[op], ends_[output.value]);
        for (const OpId user : users_[output.value]) {
          serves_[op] = joined(serves_[op], serves_[user]);
          if (phase_of(user) == Phase::kBackward || feeds_backward[user]) feeds_backward[op] = true;
        }
      }
      const bool is_free = home_[op] == 0 && (phase_of(op) == Phase::kOptimizer || !feeds_backward[op]);
      if (is_free && serves_[op] != kNowhere && serves_[op] != kMany) home_[op] = serves_[op];
    }
  }

  /// Ops that depend on nothing from outside are shared: where they stand says only who asked first.
  void beside_their_readers() {
    std::vector<bool> is_fixed(home_.size(), false);
    for (OpId op = 0; op < home_.size(); ++op) {
      is_fixed[op] = std::ranges::all_of(program_.ops[op].inputs, [&](const graph::Operand& input) {
        if (input.is_scalar()) return input.scalar.slot == kNone;
        const OpId producer = program_.values[input.value].producer;
        return producer == kNone ? program_.values[input.value].kind == graph::ValueKind::kConstant
                                 : static_cast<bool>(is_fixed[producer]);
      });
    }
    for (OpId op = static_cast<OpId>(home_.size()); op-- > 0;) {
      if (!is_fixed[op]) continue;
      for (const auto& output : program_.ops[op].outputs) {
        for (const OpId user : users_[output.value]) {
          if (phase_of(user) == phase_of(op)) home_[op] = paths_.common(home_[op], home_[user]);
        }
      }
    }
  }

  /// How deep the first op of each module stands: the longest way from the program's operands to it.
  void measure_depths() {
    level_.assign(home_.size(), 0);
    first_.assign(paths_.size(), std::numeric_limits<std::uint32_t>::max());
    for (OpId op = 0; op < home_.size(); ++op) {
      for (const auto& input : program_.ops[op].inputs) {
        if (input.is_scalar()) continue;
        const OpId producer = program_.values[input.value].producer;
        if (producer != kNone) level_[op] = std::max(level_[op], level_[producer] + 1);
      }
      if (phase_of(op) != Phase::kForward || module_of(op).empty()) continue;
      first_[home_[op]] = std::min(first_[home_[op]], level_[op]);
    }
  }

  /// The module of the forward pass that a value tells of: whose parameter it is, which op made it; of what came from
  /// outside (a drawn mask), which op reads it.
  PathId told_by(ValueId value) const {
    if (state_home_[value] != kNowhere) return state_home_[value];
    const OpId producer = program_.values[value].producer;
    if (producer != kNone) return phase_of(producer) == Phase::kForward ? home_[producer] : 0;
    PathId reader = kNowhere;
    for (const OpId user : users_[value]) {
      if (phase_of(user) == Phase::kForward) reader = joined(reader, home_[user]);
    }
    return reader == kNowhere || reader == kMany ? 0 : reader;
  }

  /// Ops of the backward pass. First those whose operands tell of modules of the forward pass: the one that comes last
  /// there, or the one that they serve alone where that comes later still, for the gradient of a parameter reads what
  /// the module before it made. Then what only scales or converts a gradient: it belongs to whoever takes the result.
  /// Then the rest, joins of gradients: the first module of those that they come from, for a join ends what its module
  /// does.
  void by_what_they_read() {
    measure_depths();
    std::vector<OpId> open;
    for (OpId op = 0; op < home_.size(); ++op) {
      if (home_[op] != 0 || phase_of(op) != Phase::kBackward) continue;
      PathId last = 0;
      for (const auto& input : program_.ops[op].inputs) {
        const PathId told = input.is_scalar() ? 0 : told_by(input.value);
        if (told != 0 && (last == 0 || first_[told] > first_[last])) last = told;
      }
      const PathId served = serves_[op];
      if (last != 0 && served != kNowhere && served != kMany && first_[last] < first_[served]) last = served;
      home_[op] = last;
      if (last == 0) open.push_back(op);
    }
    for (std::size_t i = open.size(); i-- > 0;) {
      if (gradients_of(open[i]) == 1) home_[open[i]] = home_of_users(open[i]);
    }
    for (const OpId op : open) {
      if (home_[op] == 0) home_[op] = first_home_of_operands(op);
    }
  }

  bool is_gradient(const graph::Operand& operand) const {
    if (operand.is_scalar()) return false;
    const OpId producer = program_.values[operand.value].producer;
    return producer != kNone && phase_of(producer) == Phase::kBackward;
  }

  std::size_t gradients_of(OpId op) const {
    const auto& inputs = program_.ops[op].inputs;
    return static_cast<std::size_t>(
        std::ranges::count_if(inputs, [this](const graph::Operand& input) { return is_gradient(input); }));
  }

  PathId home_of_users(OpId op) const {
    PathId home = kNowhere;
    for (const auto& output : program_.ops[op].outputs) {
      for (const OpId user : users_[output.value]) {
        home = home == kNowhere ? home_[user] : paths_.common(home, home_[user]);
      }
    }
    return home == kNowhere ? 0 : home;
  }

  PathId first_home_of_operands(OpId op) const {
    PathId first = 0;
    for (const auto& input : program_.ops[op].inputs) {
      if (!is_gradient(input)) continue;
      const PathId home = home_[program_.values[input.value].producer];
      if (home != 0 && (first == 0 || first_[home] < first_[first])) first = home;
    }
    return first;
  }

  const Program& program_;
  graph::IdLists users_;
  Paths paths_;
  std::vector<PathId> home_;
  std::vector<PathId> serves_;                // per op: the module whose states alone come of it
  std::vector<PathId> state_home_, ends_;     // per value: of the state that it is, or becomes
  std::vector<std::uint32_t> level_, first_;  // per op; per path
};

}  // namespace

Homes homes(const Program& program) { return Finder(program).run(); }

}  // namespace crucible::merkle
