// Making lines, and measuring them. See line.hpp.
#include "core/budget/line.hpp"

#include <algorithm>

#include "core/graph/opaque.hpp"
#include "core/graph/queries.hpp"

namespace crucible::budget {
namespace {

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Constants, and states whose end is theirs alone: what is an output too, or the end of another state, must be where
/// it is.
void find_movable(const graph::Program& program, std::vector<Tensor>& tensors) {
  std::vector<std::uint32_t> uses(tensors.size(), 0);
  for (const graph::State& state : program.states) ++uses[state.end];
  for (const graph::Output& output : program.outputs) {
    if (!output.operand.is_scalar()) ++uses[output.operand.value];
  }
  for (const graph::Constant& constant : program.constants)
    tensors[constant.value].may_leave = uses[constant.value] == 0;
  for (const graph::State& state : program.states) {
    tensors[state.start].may_leave = uses[state.end] == 1 && (state.end == state.start || uses[state.start] == 0);
  }
}

std::vector<Tensor> make_tensors(const graph::Program& program, std::uint64_t alignment) {
  std::vector<Tensor> tensors(program.values.size());
  for (graph::ValueId id = 0; id < tensors.size(); ++id) {
    const graph::Value& value = program.values[id];
    tensors[id].bytes = rounded(static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype), alignment);
    tensors[id].value = id;
  }
  for (const graph::Input& input : program.inputs) tensors[input.value].is_input = true;
  for (const graph::Constant& constant : program.constants) tensors[constant.value].is_carried = true;
  for (const graph::State& state : program.states) {
    tensors[state.start].is_carried = true;
    tensors[state.end].is_kept = true;
    if (state.end != state.start) tensors[state.end].home = state.start;
  }
  for (const graph::Output& output : program.outputs) {
    if (!output.operand.is_scalar()) tensors[output.operand.value].is_kept = true;
  }
  find_movable(program, tensors);
  return tensors;
}

double cost_of(const kernel::Step& step, const Costs& costs) {
  const double compute = static_cast<double>(step.flops) / costs.flops_per_ns;
  const double transfer = static_cast<double>(step.bytes) / costs.bytes_per_ns;
  return std::max(compute, transfer) + costs.launch_ns;
}

Node make_node(const graph::Program& program, const kernel::Step& step, const std::vector<Tensor>& tensors) {
  Node node;
  for (const kernel::BufferArgument& argument : step.buffers) {
    node.arguments.push_back({argument.value, argument.written});
  }
  for (const graph::OpId op : step.ops) {
    node.has_effects |= program.ops[op].kind == graph::OpKind::kOpaque || graph::has_effects(program, program.ops[op]);
  }
  // A step again whose results are all needed at the end anyway would be for nothing.
  node.may_repeat = !node.has_effects && std::ranges::any_of(step.buffers, [&](const kernel::BufferArgument& argument) {
    return argument.written && !tensors[argument.value].is_kept;
  });
  return node;
}

/// Which end of a state can be written into its own buffer: all readers of the old content are done, or the writer is
/// the last one and its kernel allows it.
bool goes_home(const Line& line, const Live& live, const std::vector<std::uint32_t>& last_read, TensorId end) {
  const TensorId start = line.tensors[end].home;
  if (last_read[start] == kNone || last_read[start] < live.first[end]) return true;
  if (last_read[start] != live.first[end]) return false;
  return line.tensors[end].is_over_home;
}

/// Bytes that the node at `position` saves by writing results over operands that die there.
std::uint64_t saved_in_place(const Line& line, const Live& live, std::uint32_t position,
                             const std::vector<bool>& at_home) {
  const Node& node = line.nodes[line.order[position]];
  std::uint64_t saved = 0;
  std::vector<TensorId> taken;
  for (const Alias& alias : node.aliases) {
    const Tensor& operand = line.tensors[alias.operand];
    if (operand.is_carried || operand.is_kept || operand.producer == kNone) continue;  // the host's own content stays
    if (live.last[alias.operand] != position || at_home[alias.result] || at_home[alias.operand]) continue;
    if (std::ranges::find(taken, alias.operand) != taken.end() || std::ranges::find(taken, alias.result) != taken.end())
      continue;
    taken.push_back(alias.operand);
    taken.push_back(alias.result);
    saved += line.tensors[alias.result].bytes;
  }
  return saved;
}

}  // namespace

Line make_line(const graph::Program& program, const kernel::Schedule& schedule,
               const std::vector<std::uint64_t>& scratch_bytes, std::uint64_t alignment, const Costs& costs) {
  Line line{.costs = costs, .tensors = {}, .nodes = {}, .order = {}};
  line.tensors = make_tensors(program, alignment);
  for (TensorId id = 0; id < line.tensors.size(); ++id) line.tensors[id].is_on_host = schedule.on_host(id);
  for (std::uint32_t s = 0; s < schedule.steps.size(); ++s) {
    const kernel::Step& step = schedule.steps[s];
    Node node = make_node(program, step, line.tensors);
    if (step.kind == kernel::StepKind::kTransfer) node.kind = NodeKind::kTransfer;
    node.step = s;
    node.scratch_bytes = rounded(scratch_bytes[s], alignment);
    node.cost_ns = cost_of(step, costs);
    for (const Argument& argument : node.arguments) {
      if (argument.written) line.tensors[argument.tensor].producer = s;
    }
    line.nodes.push_back(std::move(node));
    line.order.push_back(s);
  }
  for (const kernel::InPlace& pair : schedule.aliases) {
    line.nodes[pair.step].aliases.push_back({pair.operand, pair.result});
    Tensor& result = line.tensors[pair.result];
    result.is_over_home |= result.home == pair.operand && result.producer == pair.step;
  }
  for (Node& node : line.nodes) {
    std::ranges::stable_sort(node.aliases, [&](const Alias& a, const Alias& b) {
      return line.tensors[a.result].bytes > line.tensors[b.result].bytes;
    });
  }
  return line;
}

Live measure(const Line& line) {
  const auto after = static_cast<std::uint32_t>(line.order.size());
  Live live;
  live.first.assign(line.tensors.size(), kNone);
  live.last.assign(line.tensors.size(), 0);
  std::vector<std::uint32_t> last_read(line.tensors.size(), kNone);
  const auto extend = [&](TensorId tensor, std::uint32_t position) {
    if (live.first[tensor] == kNone) live.first[tensor] = line.tensors[tensor].producer == kNone ? 0 : position;
    live.last[tensor] = std::max(live.last[tensor], position);
  };
  for (std::uint32_t position = 0; position < after; ++position) {
    for (const Argument& argument : line.nodes[line.order[position]].arguments) {
      extend(argument.tensor, position);
      if (!argument.written) last_read[argument.tensor] = position;
    }
  }
  std::vector<bool> at_home(line.tensors.size(), false);
  std::vector<std::int64_t> change(after + 2, 0);
  for (TensorId id = 0; id < line.tensors.size(); ++id) {
    const Tensor& tensor = line.tensors[id];
    if (tensor.is_carried) live.first[id] = 0;
    if (tensor.is_carried || (tensor.is_kept && live.first[id] != kNone)) live.last[id] = after;
    if (live.first[id] == kNone) continue;
    at_home[id] = tensor.home != kNone && goes_home(line, live, last_read, id);
    if (at_home[id] || tensor.is_on_host) continue;
    change[live.first[id]] += static_cast<std::int64_t>(tensor.bytes);
    change[live.last[id] + 1] -= static_cast<std::int64_t>(tensor.bytes);
  }
  std::int64_t alive = 0;
  live.bytes.resize(after + 1);
  for (std::uint32_t position = 0; position <= after; ++position) {
    alive += change[position];
    live.bytes[position] = static_cast<std::uint64_t>(alive);
    if (position < after) {
      live.bytes[position] += line.nodes[line.order[position]].scratch_bytes;
      live.bytes[position] -= saved_in_place(line, live, position, at_home);
    }
    if (live.bytes[position] > live.peak) {
      live.peak = live.bytes[position];
      live.peak_position = position;
    }
  }
  return live;
}

Dependences dependences(const Line& line) {
  Dependences result;
  result.before.resize(line.nodes.size());
  result.after.resize(line.nodes.size());
  const auto add = [&](NodeId first, NodeId second) {
    if (first == second || first == kNone || second == kNone) return;
    result.before[second].push_back(first);
    result.after[first].push_back(second);
  };
  std::vector<TensorId> end_of(line.tensors.size(), kNone);
  for (TensorId id = 0; id < line.tensors.size(); ++id) {
    if (line.tensors[id].home != kNone) end_of[line.tensors[id].home] = id;
  }
  std::vector<std::uint32_t> position_of(line.nodes.size(), 0);
  for (std::uint32_t position = 0; position < line.order.size(); ++position)
    position_of[line.order[position]] = position;
  NodeId last_effect = kNone;
  for (const NodeId id : line.order) {
    for (const Argument& argument : line.nodes[id].arguments) {
      if (argument.written) continue;
      add(line.tensors[argument.tensor].producer, id);
      if (end_of[argument.tensor] == kNone) continue;
      const NodeId writer = line.tensors[end_of[argument.tensor]].producer;
      if (writer != kNone && position_of[id] < position_of[writer]) add(id, writer);
    }
    if (!line.nodes[id].has_effects) continue;
    add(last_effect, id);
    last_effect = id;
  }
  for (auto* lists : {&result.before, &result.after}) {
    for (std::vector<NodeId>& list : *lists) {
      std::ranges::sort(list);
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }
  return result;
}

}  // namespace crucible::budget
