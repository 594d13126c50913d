// A minimum cut per program: see rematerialize.hpp.
#include "core/kernel/rematerialize.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Phase;
using graph::Program;
using graph::ValueId;

constexpr std::int64_t kLeastElements = 1024;  // of what is worth computing again
// Per byte of a value that later passes read: reading it; writing it, if nobody else wants it in memory; memory until then. Per
// element of one that is computed again: kCompute.
constexpr std::int64_t kRead = 2, kWrite = 2, kKeep = 2, kCompute = 1;

bool is_cheap(OpKind kind) {
  switch (kind) {
    case OpKind::kCopy:
    case OpKind::kNegate:
    case OpKind::kAbsolute:
    case OpKind::kFloor:
    case OpKind::kCeil:
    case OpKind::kTruncate:
    case OpKind::kRound:
    case OpKind::kBitNot:
    case OpKind::kIsNan:
    case OpKind::kLogicalNot:
    case OpKind::kAdd:
    case OpKind::kSubtract:
    case OpKind::kMultiply:
    case OpKind::kMaximum:
    case OpKind::kMinimum:
    case OpKind::kBitAnd:
    case OpKind::kBitOr:
    case OpKind::kBitXor:
    case OpKind::kLess:
    case OpKind::kLessEqual:
    case OpKind::kGreater:
    case OpKind::kGreaterEqual:
    case OpKind::kEqual:
    case OpKind::kNotEqual:
    case OpKind::kLogicalAnd:
    case OpKind::kLogicalOr:
    case OpKind::kSelect:
    case OpKind::kFill:
    case OpKind::kCoordinate:
      return true;
    default:
      return false;
  }
}

class Rematerializer {
 public:
  Rematerializer(const Program& program, const std::vector<Unit>& units)
      : program_(program), units_(units), unit_of_(units_of_ops(program, units)), in_memory_(program.values.size(), false),
        kept_(program.values.size(), false) {
    for (OpId op = 0; op < program.ops.size(); ++op) {
      for (const auto& input : program.ops[op].inputs) {
        if (!input.is_scalar()) note_reader(op, input.value);
      }
    }
    for (const auto& state : program.states) in_memory_[state.start] = in_memory_[state.end] = kept_[state.start] = kept_[state.end] = true;
    for (const auto& output : program.outputs) in_memory_[output.operand.value] = kept_[output.operand.value] = true;
  }

  std::optional<Program> run() {
    find_early();
    for (OpId op = 0; op < program_.ops.size(); ++op) {
      for (const auto& input : program_.ops[op].inputs) {
        if (crosses(op, input)) wanted_.insert(input.value);
      }
    }
    if (wanted_.empty()) return std::nullopt;
    cut();
    if (moved_.empty() && std::ranges::none_of(again_, [&](ValueId value) { return is_computed_again(value); })) return std::nullopt;
    return rebuild();
  }

 private:
  bool is_forward(OpId op) const { return kernel::is_forward(program_, op); }
  /// Known at the end of the forward pass: made by it, or by an op of find_early().
  bool is_known(OpId op) const { return is_forward(op) || is_early_[op]; }

  /// Element-wise ops of later passes that need nothing but what the forward pass knows: it may do them.
  void find_early() {
    is_early_.assign(program_.ops.size(), false);
    for (OpId op = 0; op < program_.ops.size(); ++op) {
      const Op& at = program_.ops[op];
      if (is_forward(op) || !is_group(op) || !graph::is_elementwise(at.kind) || at.outputs[0].view.elements() < kLeastElements) continue;
      bool reads_forward = false, reads_later = false;
      for (const auto& input : at.inputs) {
        if (input.is_scalar()) continue;
        const OpId producer = program_.values[input.value].producer;
        if (producer == kNone) continue;
        reads_later |= !is_known(producer);
        reads_forward |= is_known(producer);
      }
      is_early_[op] = reads_forward && !reads_later;
    }
  }
  bool is_group(OpId op) const { return unit_of_[op] != kNone && !units_[unit_of_[op]].group.members.empty(); }
  std::int64_t bytes(ValueId value) const { return program_.values[value].elements * size_bytes(program_.values[value].dtype); }

  /// Whether the value must lie in memory whatever is computed again, and whether it must until later passes.
  void note_reader(OpId reader, ValueId value) {
    const OpId producer = program_.values[value].producer;
    const bool is_later = !is_forward(reader);
    if (producer == kNone) {
      in_memory_[value] = kept_[value] = true;  // it comes from outside
    } else if (!is_group(producer) || !is_group(reader) || (!is_later && unit_of_[producer] != unit_of_[reader])) {
      in_memory_[value] = true;
      if (is_later && !is_group(reader)) kept_[value] = true;
    }
  }

  /// True when a group of a later pass reads there what a group of the forward pass made.
  bool crosses(OpId reader, const graph::Operand& input) const {
    if (input.is_scalar()) return false;
    const OpId producer = program_.values[input.value].producer;
    if (producer == kNone || !is_known(producer) || is_known(reader) || !is_group(producer) || !is_group(reader)) return false;
    return (is_early_[producer] || unit_of_[producer] != unit_of_[reader]) && program_.values[input.value].elements >= kLeastElements;
  }

  bool can_compute(ValueId value) const {
    const OpId producer = program_.values[value].producer;
    if (producer == kNone || !is_known(producer) || !is_group(producer)) return false;
    return is_early_[producer] || is_cheap(program_.ops[producer].kind);
  }

  /// Which values are taken from memory: the cheapest set that separates the readers from what cannot be computed again.
  void cut() {
    using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
    struct Edge {
      std::int64_t capacity = 0, residual = 0;
      Traits::edge_descriptor reverse;
    };
    using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge>;
    constexpr std::int64_t kUnlimited = std::int64_t{1} << 50;
    Graph graph(2);
    constexpr std::size_t kSource = 0, kSink = 1;
    const auto connect = [&](std::size_t from, std::size_t to, std::int64_t capacity) {
      const auto edge = boost::add_edge(from, to, graph).first, back = boost::add_edge(to, from, graph).first;
      graph[edge].capacity = capacity;
      graph[edge].reverse = back;
      graph[back].reverse = edge;
    };
    std::map<ValueId, std::pair<std::size_t, std::size_t>> nodes;  // where it is made, and where it is read
    std::vector<ValueId> open;
    const auto node_of = [&](ValueId value) {
      const auto [entry, is_new] = nodes.try_emplace(value);
      if (is_new) {
        entry->second = {boost::add_vertex(graph), boost::add_vertex(graph)};
        const std::int64_t cost = kRead + (in_memory_[value] ? 0 : kWrite) + (kept_[value] ? 0 : kKeep);
        connect(entry->second.first, entry->second.second, cost * bytes(value));
        open.push_back(value);
      }
      return entry->second;
    };
    for (const ValueId value : wanted_) connect(node_of(value).second, kSink, kUnlimited);
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      const std::size_t made = nodes.at(value).first;
      if (!can_compute(value)) {
        connect(kSource, made, kUnlimited);
        continue;
      }
      if (!is_early_[program_.values[value].producer]) connect(kSource, made, kCompute * program_.values[value].elements);
      for (const auto& input : program_.ops[program_.values[value].producer].inputs) {
        if (!input.is_scalar()) connect(node_of(input.value).second, made, kUnlimited);
      }
    }
    boost::push_relabel_max_flow(graph, kSource, kSink, boost::get(&Edge::capacity, graph), boost::get(&Edge::residual, graph),
                                 boost::get(&Edge::reverse, graph), boost::get(boost::vertex_index, graph));
    // From the sink backwards, so that of cuts with equal costs the one with the fewest ops that are done again is taken.
    std::vector<bool> leads_to_sink(boost::num_vertices(graph), false);
    std::vector<std::size_t> stack{kSink};
    leads_to_sink[kSink] = true;
    while (!stack.empty()) {
      const std::size_t at = stack.back();
      stack.pop_back();
      for (const auto& edge : boost::make_iterator_range(boost::out_edges(at, graph))) {
        const std::size_t before = boost::target(edge, graph);
        if (leads_to_sink[before] || graph[graph[edge].reverse].residual == 0) continue;
        leads_to_sink[before] = true;
        stack.push_back(before);
      }
    }
    for (const auto& [value, node] : nodes) {
      const OpId producer = program_.values[value].producer;
      if (leads_to_sink[node.first]) {
        again_.insert(value);
      } else if (producer != kNone && is_early_[producer] && leads_to_sink[node.second]) {
        move_forward(producer);
      }
    }
  }
  /// The forward pass does it, with what it needs.
  void move_forward(OpId op) {
    if (!is_early_[op] || !moved_.insert(op).second) return;
    for (const auto& input : program_.ops[op].inputs) {
      if (!input.is_scalar() && program_.values[input.value].producer != kNone) move_forward(program_.values[input.value].producer);
    }
  }
  /// By a copy; what no longer belongs to the forward pass alone needs none.
  bool is_computed_again(ValueId value) const {
    const OpId producer = program_.values[value].producer;
    return again_.contains(value) && producer != kNone && (!is_early_[producer] || moved_.contains(producer));
  }
  /// An early op that stays where it is reads copies, too.
  bool takes_copies(OpId reader, const graph::Operand& input) const {
    if (input.is_scalar() || moved_.contains(reader) || is_forward(reader) || !is_group(reader)) return false;
    return program_.values[input.value].elements >= kLeastElements && is_computed_again(input.value);
  }

  // ---- the new program ----

  Program rebuild() {
    out_ = program_;
    out_.ops.clear();
    std::vector<OpId> new_id(program_.ops.size());
    for (OpId op = 0; op < program_.ops.size(); ++op) {
      Op moved = program_.ops[op];
      for (graph::Operand& input : moved.inputs) {
        if (takes_copies(op, input)) input.value = copy_of(input.value, unit_of_[op]);
      }
      if (moved_.contains(op)) moved.source = source_in(moved.source, Phase::kForward);
      new_id[op] = static_cast<OpId>(out_.ops.size());
      out_.ops.push_back(std::move(moved));
    }
    for (std::size_t value = 0; value < program_.values.size(); ++value) {
      if (out_.values[value].producer != kNone) out_.values[value].producer = new_id[out_.values[value].producer];
    }
    return std::move(out_);
  }

  /// For each group of readers one, so that it stays in the group's registers.
  ValueId copy_of(ValueId value, std::uint32_t unit) {
    if (!is_computed_again(value)) return value;
    const auto found = copies_.find({unit, value});
    if (found != copies_.end()) return found->second;
    Op copy = program_.ops[program_.values[value].producer];
    for (graph::Operand& input : copy.inputs) {
      if (!input.is_scalar()) input.value = copy_of(input.value, unit);
    }
    copy.source = source_in(copy.source, Phase::kBackward);
    const auto result = static_cast<ValueId>(out_.values.size());
    out_.values.push_back(program_.values[value]);
    out_.values.back().producer = static_cast<OpId>(out_.ops.size());
    copy.outputs[0].value = result;
    out_.ops.push_back(std::move(copy));
    copies_.emplace(std::pair{unit, value}, result);
    return result;
  }

  /// The same place in the user's program, in another pass.
  std::uint32_t source_in(std::uint32_t source, Phase phase) {
    const auto [entry, is_new] = sources_.try_emplace({source, phase}, static_cast<std::uint32_t>(out_.sources.size()));
    if (is_new) {
      out_.sources.push_back(source < program_.sources.size() ? program_.sources[source] : graph::Source{});
      out_.sources.back().phase = phase;
    }
    return entry->second;
  }

  const Program& program_;
  const std::vector<Unit>& units_;
  std::vector<std::uint32_t> unit_of_;  // per op
  std::vector<bool> in_memory_, kept_;  // per value
  std::vector<bool> is_early_;          // per op
  std::set<OpId> moved_;                // early ops that the forward pass does
  std::set<ValueId> wanted_, again_;
  Program out_;
  std::map<std::pair<std::uint32_t, ValueId>, ValueId> copies_;
  std::map<std::pair<std::uint32_t, Phase>, std::uint32_t> sources_;
};

}  // namespace

std::uint64_t bytes_of_groups(const Program& program, const std::vector<Unit>& units) {
  const std::vector<std::uint32_t> unit_of = units_of_ops(program, units);
  std::vector<bool> is_wanted(program.values.size(), false);  // by another unit, or by the user
  for (const auto& state : program.states) is_wanted[state.end] = true;
  for (const auto& output : program.outputs) is_wanted[output.operand.value] = true;
  std::set<std::pair<std::uint32_t, ValueId>> moved;
  for (OpId op = 0; op < program.ops.size(); ++op) {
    for (const auto& input : program.ops[op].inputs) {
      if (input.is_scalar()) continue;
      const OpId producer = program.values[input.value].producer;
      if (producer != kNone && unit_of[producer] == unit_of[op]) continue;
      is_wanted[input.value] = true;
      if (unit_of[op] != kNone) moved.emplace(unit_of[op], input.value);
    }
  }
  for (OpId op = 0; op < program.ops.size(); ++op) {
    for (const auto& output : program.ops[op].outputs) {
      if (is_wanted[output.value] && unit_of[op] != kNone) moved.emplace(unit_of[op], output.value);
    }
  }
  std::uint64_t total = 0;
  for (const auto& [unit, value] : moved) {
    if (units[unit].group.members.empty()) continue;
    total += static_cast<std::uint64_t>(program.values[value].elements) * size_bytes(program.values[value].dtype);
  }
  return total;
}

Rematerialized rematerialize(const Program& program, Numerics numerics) {
  std::vector<Unit> units = make_units(program, true, numerics);
  const bool has_later_passes = std::ranges::any_of(program.sources, [](const auto& source) { return source.phase != Phase::kForward; });
  if (!has_later_passes) return {std::nullopt, std::move(units)};
  std::optional<Program> changed = Rematerializer(program, units).run();
  if (!changed) return {std::nullopt, std::move(units)};
  std::vector<Unit> others = make_units(*changed, true, numerics);
  // What the cut promises is what it gives, unless the copies do not fit into the kernels of their readers.
  if (bytes_of_groups(*changed, others) >= bytes_of_groups(program, units)) return {std::nullopt, std::move(units)};
  return {std::move(changed), std::move(others)};
}

}  // namespace crucible::kernel
