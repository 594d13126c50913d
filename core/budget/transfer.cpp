// Transfers as nodes. See transfer.hpp.
#include "core/budget/transfer.hpp"

#include <algorithm>

namespace crucible::budget {
namespace {

double transfer_ns(const Line& line, TensorId tensor, double bytes_per_ns) {
  return static_cast<double>(line.tensors[tensor].bytes) / bytes_per_ns + line.costs.launch_ns;
}

}  // namespace

double load_ns(const Line& line, TensorId tensor) {
  return transfer_ns(line, tensor, line.tensors[tensor].is_input ? line.costs.input_bytes_per_ns : line.costs.host_bytes_per_ns);
}

double store_ns(const Line& line, TensorId tensor) { return transfer_ns(line, tensor, line.costs.host_bytes_per_ns); }

NodeId add_transfer(Line& line, TensorId from, bool to_host) {
  const auto id = static_cast<NodeId>(line.nodes.size());
  const auto to = static_cast<TensorId>(line.tensors.size());
  Tensor copy = line.tensors[from];
  copy.producer = id;
  copy.is_on_host = to_host;
  copy.is_carried = copy.is_kept = copy.may_leave = false;
  copy.home = kNone;
  line.tensors.push_back(copy);
  Node node;
  node.kind = NodeKind::kTransfer;
  node.step = kNone;
  node.arguments = {{from, false}, {to, true}};
  node.cost_ns = to_host ? store_ns(line, from) : load_ns(line, from);
  line.nodes.push_back(std::move(node));
  return id;
}

void give_to_readers(Line& line, TensorId old, TensorId now, std::uint32_t position) {
  for (std::uint32_t p = position; p < line.order.size(); ++p) {
    Node& reader = line.nodes[line.order[p]];
    for (Argument& argument : reader.arguments) {
      if (!argument.written && argument.tensor == old) argument.tensor = now;
    }
    for (Alias& alias : reader.aliases) {
      if (alias.operand == old) alias.operand = now;
    }
  }
}

std::uint32_t keep_input_on_host(Line& line, const Live& live, TensorId input) {
  if (line.tensors[input].is_on_host) return 0;
  std::uint32_t first = live.last[input];
  for (std::uint32_t p = 0; p < first; ++p) {
    for (const Argument& argument : line.nodes[line.order[p]].arguments) {
      if (argument.tensor == input) first = p;
    }
  }
  const NodeId load = add_transfer(line, input, false);
  give_to_readers(line, input, line.nodes[load].arguments[1].tensor, first);
  line.tensors[input].is_on_host = true;
  line.order.insert(line.order.begin() + first, load);
  return 1;
}

void wait_on_host(Line& line, TensorId tensor, std::uint32_t after, std::uint32_t position) {
  const NodeId store = add_transfer(line, tensor, true);
  const NodeId load = add_transfer(line, line.nodes[store].arguments[1].tensor, false);
  give_to_readers(line, tensor, line.nodes[load].arguments[1].tensor, position);
  line.order.insert(line.order.begin() + position, load);
  line.order.insert(line.order.begin() + after + 1, store);
}

void live_on_host(Line& line, TensorId carried, TensorId end, const std::vector<std::uint32_t>& loads) {
  TensorId old = carried;
  std::vector<NodeId> added;
  for (const std::uint32_t position : loads) {
    added.push_back(add_transfer(line, carried, false));
    const TensorId now = line.nodes.back().arguments[1].tensor;
    give_to_readers(line, old, now, position);
    old = now;
  }
  const auto behind = end == kNone ? line.order.end() : std::ranges::find(line.order, line.tensors[end].producer) + 1;
  const std::size_t stored_at = static_cast<std::size_t>(behind - line.order.begin());
  NodeId store = kNone;
  if (end != kNone) {
    store = add_transfer(line, end, true);
    Tensor& home = line.tensors[line.nodes[store].arguments[1].tensor];
    home.home = carried;
    home.is_kept = true;
    line.tensors[end].home = kNone;
    line.tensors[end].is_kept = false;
  }
  line.tensors[carried].is_on_host = true;
  line.tensors[carried].may_leave = false;
  std::vector<NodeId> order;
  std::size_t next = 0;
  for (std::size_t position = 0; position <= line.order.size(); ++position) {
    if (store != kNone && position == stored_at) order.push_back(store);
    while (next < loads.size() && loads[next] == position) order.push_back(added[next++]);
    if (position < line.order.size()) order.push_back(line.order[position]);
  }
  line.order = std::move(order);
}

}  // namespace crucible::budget
