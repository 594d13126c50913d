// A minimum cut per program: see rematerialize.hpp.
#include "core/kernel/fuse/rematerialize.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/progress.hpp"
#include "core/kernel/fuse/group_stamps.hpp"

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
// Per byte of a value that later passes read: reading it; writing it, if nobody else wants it in memory; memory until
// then. Per element of one that is computed again: kCompute.
constexpr std::uint32_t kLongestChain = 64;  // of ops that are done again in a row; what is deeper is taken from memory
constexpr std::uint32_t kMany = 64;            // readers
constexpr std::size_t kMostOps = 10000;        // that are added to a small program
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
      : program_(program),
        units_(units),
        unit_of_(units_of_ops(program, units)),
        in_memory_(program.values.size(), false),
        kept_(program.values.size(), false) {
    for (OpId op = 0; op < program.ops.size(); ++op) {
      for (const auto& input : program.ops[op].inputs) {
        if (!input.is_scalar()) note_reader(op, input.value);
        if (!input.is_scalar()) ++reads_[input.value];
      }
    }
    for (const auto& state : program.states)
      in_memory_[state.start] = in_memory_[state.end] = kept_[state.start] = kept_[state.end] = true;
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
    report_progress("choosing what is computed again", 0, 0);
    measure_depths();
    cut();
    if (moved_.empty() && std::ranges::none_of(again_, [&](ValueId value) { return is_computed_again(value); }))
      return std::nullopt;
    return rebuild();  // nothing where too much would be done again
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
      if (is_forward(op) || !is_group(op) || !graph::is_elementwise(at.kind) ||
          at.outputs[0].view.elements() < kLeastElements)
        continue;
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
  std::int64_t bytes(ValueId value) const {
    return program_.values[value].elements * size_bytes(program_.values[value].dtype);
  }

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
    if (producer == kNone || !is_known(producer) || is_known(reader) || !is_group(producer) || !is_group(reader))
      return false;
    return (is_early_[producer] || unit_of_[producer] != unit_of_[reader]) &&
           program_.values[input.value].elements >= kLeastElements;
  }

  bool can_compute(ValueId value) const {
    const OpId producer = program_.values[value].producer;
    if (producer == kNone || !is_known(producer) || !is_group(producer)) return false;
    return is_early_[producer] || (is_cheap(program_.ops[producer].kind) && depth_[value] > 0);
  }
  /// Per value that could be computed again: how many ops in a row that takes, from what could not, or is too deep to
  /// be.
  void measure_depths() {
    depth_.assign(program_.values.size(), 0);
    for (OpId op = 0; op < program_.ops.size(); ++op) {
      if (!is_cheap(program_.ops[op].kind)) continue;
      std::uint32_t depth = 0;
      for (const auto& input : program_.ops[op].inputs) {
        if (!input.is_scalar()) depth = std::max(depth, depth_[input.value]);
      }
      depth_[program_.ops[op].outputs[0].value] = (depth + 1) % (kLongestChain + 1);
    }
  }

  /// Which values are taken from memory: the cheapest set that separates the readers from what cannot be computed
  /// again.
  void cut() {
    add_edges();
    // Parts that share no value are cut each by itself, so that the time does not grow faster than the program.
    std::vector<std::uint32_t> part(places_.size());
    std::iota(part.begin(), part.end(), 0u);
    const auto find = [&](std::uint32_t at) {
      while (part[at] != at) at = part[at] = part[part[at]];
      return at;
    };
    for (const Edge& edge : edges_) {
      if (edge.from >= kFirst && edge.to >= kFirst) part[find((edge.from - kFirst) / 2)] = find((edge.to - kFirst) / 2);
    }
    std::map<std::uint32_t, std::vector<Edge>> parts;
    for (const Edge& edge : edges_) parts[find((std::max(edge.from, edge.to) - kFirst) / 2)].push_back(edge);
    for (auto& [root, edges] : parts) cut(edges);
  }

  struct Edge {
    std::uint32_t from = 0, to = 0;
    std::int64_t capacity = 0;
  };
  // Numbers of places: the two ends, then two of each value that is looked at: where it is made, and where it is read.
  static constexpr std::uint32_t kSource = 0, kSink = 1, kFirst = 2;
  static constexpr std::int64_t kUnlimited = std::int64_t{1} << 50;
  static std::uint32_t made(std::uint32_t place) { return kFirst + 2 * place; }
  static std::uint32_t read(std::uint32_t place) { return kFirst + 2 * place + 1; }

  void add_edges() {
    std::vector<std::uint32_t> place_of(program_.values.size(), kNone);
    const auto place = [&](ValueId value) {
      if (place_of[value] != kNone) return place_of[value];
      place_of[value] = static_cast<std::uint32_t>(places_.size());
      places_.push_back(value);
      const std::int64_t cost = kRead + (in_memory_[value] ? 0 : kWrite) + (kept_[value] ? 0 : kKeep);
      edges_.push_back({made(place_of[value]), read(place_of[value]), cost * bytes(value)});
      return place_of[value];
    };
    for (const ValueId value : wanted_) edges_.push_back({read(place(value)), kSink, kUnlimited});
    for (std::uint32_t at = 0; at < places_.size(); ++at) {
      const ValueId value = places_[at];
      if (!can_compute(value)) {
        edges_.push_back({kSource, made(at), kUnlimited});
        continue;
      }
      const OpId producer = program_.values[value].producer;
      if (!is_early_[producer]) edges_.push_back({kSource, made(at), kCompute * program_.values[value].elements});
      for (const auto& input : program_.ops[producer].inputs) {
        if (input.is_scalar() || is_read_by_many(input.value)) continue;
        edges_.push_back({read(place(input.value)), made(at), kUnlimited});
      }
    }
  }
  /// What comes from outside and many ops read is read in any case.
  bool is_read_by_many(ValueId value) const {
    return program_.values[value].producer == kNone && reads_[value] > kMany;
  }

  void cut(std::vector<Edge>& edges) {
    using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
    struct Flow {
      std::int64_t capacity = 0, residual = 0;
      Traits::edge_descriptor reverse;
    };
    using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Flow>;
    std::vector<std::uint32_t> numbers{kSource, kSink};
    for (const Edge& edge : edges) numbers.insert(numbers.end(), {edge.from, edge.to});
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    const auto vertex = [&](std::uint32_t number) {
      return static_cast<std::size_t>(std::ranges::lower_bound(numbers, number) - numbers.begin());
    };
    Graph graph(numbers.size());
    for (const Edge& edge : edges) {
      const auto forth = boost::add_edge(vertex(edge.from), vertex(edge.to), graph).first,
                 back = boost::add_edge(vertex(edge.to), vertex(edge.from), graph).first;
      graph[forth].capacity = edge.capacity;
      graph[forth].reverse = back;
      graph[back].reverse = forth;
    }
    boost::push_relabel_max_flow(graph, kSource, kSink, boost::get(&Flow::capacity, graph),
                                 boost::get(&Flow::residual, graph), boost::get(&Flow::reverse, graph),
                                 boost::get(boost::vertex_index, graph));
    // From the sink backwards, so that of cuts with equal costs the one with the fewest ops that are done again is
    // taken.
    std::vector<bool> leads_to_sink(numbers.size(), false);
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
    for (std::size_t at = kFirst; at < numbers.size(); ++at) {
      if (!leads_to_sink[at] || (numbers[at] - kFirst) % 2 != 0) continue;
      again_.insert(places_[(numbers[at] - kFirst) / 2]);
    }
    for (std::size_t at = kFirst; at < numbers.size(); ++at) {
      const ValueId value = places_[(numbers[at] - kFirst) / 2];
      const OpId producer = program_.values[value].producer;
      if (leads_to_sink[at] && (numbers[at] - kFirst) % 2 != 0 && !again_.contains(value) && producer != kNone &&
          is_early_[producer])
        move_forward(producer);
    }
  }
  /// The forward pass does it, with what it needs.
  void move_forward(OpId op) {
    std::vector<OpId> open{op};
    while (!open.empty()) {
      const OpId at = open.back();
      open.pop_back();
      if (!is_early_[at] || !moved_.insert(at).second) continue;
      for (const auto& input : program_.ops[at].inputs) {
        if (!input.is_scalar() && program_.values[input.value].producer != kNone)
          open.push_back(program_.values[input.value].producer);
      }
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

  std::optional<Program> rebuild() {
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
      if (out_.ops.size() > kMostOps + op + 2 * program_.ops.size()) return std::nullopt;
    }
    for (std::size_t value = 0; value < program_.values.size(); ++value) {
      if (out_.values[value].producer != kNone) out_.values[value].producer = new_id[out_.values[value].producer];
    }
    return std::move(out_);
  }

  /// For each group of readers one, so that it stays in the group's registers. What it is made of comes first.
  ValueId copy_of(ValueId wanted, std::uint32_t unit) {
    const auto now = [&](ValueId value) {
      const auto found = copies_.find({unit, value});
      return found == copies_.end() ? value : found->second;
    };
    std::vector<ValueId> open{wanted};
    while (!open.empty()) {
      const ValueId value = open.back();
      if (!is_computed_again(value) || copies_.contains({unit, value})) {
        open.pop_back();
        continue;
      }
      Op copy = program_.ops[program_.values[value].producer];
      const std::size_t before = open.size();
      for (std::size_t i = copy.inputs.size(); i-- > 0;) {
        const graph::Operand& input = copy.inputs[i];
        if (!input.is_scalar() && is_computed_again(input.value) && !copies_.contains({unit, input.value}))
          open.push_back(input.value);
      }
      if (open.size() > before) continue;
      open.pop_back();
      for (graph::Operand& input : copy.inputs) {
        if (!input.is_scalar()) input.value = now(input.value);
      }
      copy.source = source_in(copy.source, Phase::kBackward);
      const auto result = static_cast<ValueId>(out_.values.size());
      out_.values.push_back(program_.values[value]);
      out_.values.back().producer = static_cast<OpId>(out_.ops.size());
      copy.outputs[0].value = result;
      out_.ops.push_back(std::move(copy));
      copies_.emplace(std::pair{unit, value}, result);
    }
    return now(wanted);
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
  std::vector<std::uint32_t> reads_ = std::vector<std::uint32_t>(program_.values.size(), 0), depth_;  // per value
  std::vector<ValueId> places_;         // values that are looked at: see kFirst
  std::vector<Edge> edges_;
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

Rematerialized rematerialize(const Program& program, Numerics numerics, GroupStamps* stamps) {
  GroupStamps own;
  if (stamps == nullptr) stamps = &own;
  std::vector<Unit> units = make_units(program, true, numerics, stamps);
  const bool has_later_passes =
      std::ranges::any_of(program.sources, [](const auto& source) { return source.phase != Phase::kForward; });
  if (!has_later_passes) return {std::nullopt, std::move(units)};
  std::optional<Program> changed = Rematerializer(program, units).run();
  if (!changed) return {std::nullopt, std::move(units)};
  std::vector<Unit> others = make_units(*changed, true, numerics, stamps);
  // What the cut promises is what it gives, unless the copies do not fit into the kernels of their readers.
  if (bytes_of_groups(*changed, others) >= bytes_of_groups(program, units)) return {std::nullopt, std::move(units)};
  return {std::move(changed), std::move(others)};
}

}  // namespace crucible::kernel
