// Transfers as nodes. See transfer.hpp.
#include "core/budget/transfer.hpp"

#include <utility>

namespace crucible::budget {
namespace {

double transfer_ns(const Line& line, TensorId tensor, double bytes_per_ns) {
  return static_cast<double>(line.tensors[tensor].bytes) / bytes_per_ns + line.costs.launch_ns;
}

void give_to(Node& reader, TensorId old, TensorId now) {
  for (Argument& argument : reader.arguments) {
    if (!argument.written && argument.tensor == old) argument.tensor = now;
  }
  for (Alias& alias : reader.aliases) {
    if (alias.operand == old) alias.operand = now;
  }
}

}  // namespace

double load_ns(const Line& line, TensorId tensor) {
  return transfer_ns(line, tensor,
                     line.tensors[tensor].is_input ? line.costs.input_bytes_per_ns : line.costs.host_bytes_per_ns);
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
  for (std::uint32_t p = position; p < line.order.size(); ++p) give_to(line.nodes[line.order[p]], old, now);
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

void live_on_host(Line& line, const std::vector<Stay>& stays) {
  std::vector<std::vector<NodeId>> before(line.nodes.size()), behind(line.nodes.size());  // per node: what goes there
  for (const Stay& stay : stays) {
    TensorId now = stay.carried;
    for (const Stay::Reader& reader : stay.readers) {
      if (reader.needs_load) {
        before[reader.node].push_back(add_transfer(line, stay.carried, false));
        now = line.nodes.back().arguments[1].tensor;
      }
      give_to(line.nodes[reader.node], stay.carried, now);
    }
    if (stay.end != kNone) {
      const NodeId producer = line.tensors[stay.end].producer;
      behind[producer].push_back(add_transfer(line, stay.end, true));
      Tensor& home = line.tensors[line.nodes.back().arguments[1].tensor];
      home.home = stay.carried;
      home.is_kept = true;
      line.tensors[stay.end].home = kNone;
      line.tensors[stay.end].is_kept = false;
    }
    line.tensors[stay.carried].is_on_host = true;
    line.tensors[stay.carried].may_leave = false;
  }
  std::vector<NodeId> order;
  for (const NodeId node : line.order) {
    order.insert(order.end(), before[node].begin(), before[node].end());
    order.push_back(node);
    order.insert(order.end(), behind[node].begin(), behind[node].end());
  }
  line.order = std::move(order);
}

}  // namespace crucible::budget
