// Chains of repeated nodes: finding them, and putting them into a line. See chain.hpp.
#include "core/budget/chain.hpp"

#include <algorithm>
#include <map>

#include "core/budget/transfer.hpp"

namespace crucible::budget {
namespace {

constexpr std::size_t kLongest = 96;     // nodes of one chain
constexpr std::uint64_t kSmallPart = 8;  // an operand of less than this part of the tensor is kept, not repeated

}  // namespace

Chains::Chains(const Line& line, const Live& live)
    : line_(line), live_(live), end_of_(line.tensors.size(), kNone) {
  graph::ValueId values = 0;
  for (const Tensor& tensor : line.tensors) values = std::max(values, tensor.value + 1);
  twins_.resize(values);
  for (TensorId id = 0; id < line.tensors.size(); ++id) {
    twins_[line.tensors[id].value].push_back(id);
    if (line.tensors[id].home != kNone) end_of_[line.tensors[id].home] = id;
  }
}

TensorId Chains::alive_twin(TensorId tensor, std::uint32_t position) const {
  const auto is_alive = [&](TensorId id) {
    if (line_.tensors[id].is_on_host) return false;
    const bool is_written = line_.tensors[id].producer == kNone || live_.first[id] < position;
    return live_.first[id] != kNone && is_written && live_.last[id] >= position;
  };
  if (is_alive(tensor)) return tensor;
  for (const TensorId twin : twins_[line_.tensors[tensor].value]) {
    if (is_alive(twin)) return twin;
  }
  return kNone;
}

TensorId Chains::host_twin(TensorId tensor, std::uint32_t position) const {
  for (const TensorId twin : twins_[line_.tensors[tensor].value]) {
    const Tensor& found = line_.tensors[twin];
    const bool is_there = found.producer == kNone ? !is_overwritten(twin, position) : live_.first[twin] < position;
    if (found.is_on_host && is_there) return twin;
  }
  return kNone;
}

bool Chains::may_load(TensorId tensor, std::uint32_t position) const {
  const bool is_input = line_.tensors[tensor].is_input && line_.costs.input_bytes_per_ns > 0;
  return is_input || host_twin(tensor, position) != kNone;
}

/// A state whose new content may stand in its buffer by then.
bool Chains::is_overwritten(TensorId state, std::uint32_t position) const {
  return end_of_[state] != kNone && live_.first[end_of_[state]] < position;
}

std::optional<Chain> Chains::of(TensorId tensor, std::uint32_t position) const {
  Chain chain;
  std::vector<NodeId> open;
  if (!add(tensor, position, line_.tensors[tensor].bytes / kSmallPart, chain, open)) return std::nullopt;
  return chain;
}

bool Chains::add(TensorId tensor, std::uint32_t position, std::uint64_t small, Chain& chain,
                 std::vector<NodeId>& open) const {
  const NodeId producer = line_.tensors[tensor].producer;
  if (producer == kNone || !line_.nodes[producer].may_repeat) return false;
  if (std::ranges::find(chain.nodes, producer) != chain.nodes.end()) return true;
  if (open.size() + chain.nodes.size() >= kLongest) return false;
  open.push_back(producer);
  for (const Argument& argument : line_.nodes[producer].arguments) {
    const Tensor& operand = line_.tensors[argument.tensor];
    if (argument.written) {
      if (live_.last[argument.tensor] >= position && !operand.is_kept) chain.replaced.push_back(argument.tensor);
      continue;
    }
    if (operand.is_carried) {
      if (!is_overwritten(argument.tensor, position)) continue;
      // The old content stays until it is read again, and the new one comes home at the end: for statistics, not for
      // weights.
      if (operand.bytes > small) return false;
      chain.kept_longer += operand.bytes;
      continue;
    }
    if (alive_twin(argument.tensor, position) != kNone) continue;
    if (may_load(argument.tensor, position)) {
      chain.loads.push_back(argument.tensor);
      chain.cost_ns += load_ns(line_, argument.tensor);
      continue;
    }
    const bool may_repeat = operand.producer != kNone && line_.nodes[operand.producer].may_repeat;
    if (operand.bytes <= small || !may_repeat) {
      chain.kept_longer += operand.bytes;
    } else if (!add(argument.tensor, position, small, chain, open)) {
      return false;
    }
  }
  open.pop_back();
  chain.nodes.push_back(producer);
  chain.cost_ns += line_.nodes[producer].cost_ns;
  return true;
}

void insert(Line& line, const Chains& chains, const Chain& chain, std::uint32_t position) {
  std::map<TensorId, TensorId> again;  // what the repeated nodes write in the place of what
  std::vector<NodeId> added;
  for (const TensorId loaded : chain.loads) {
    if (again.contains(loaded)) continue;
    added.push_back(add_transfer(line, chains.host_twin(loaded, position), false));
    again[loaded] = line.nodes.back().arguments[1].tensor;
  }
  for (const NodeId original : chain.nodes) {
    Node node = line.nodes[original];  // a copy: the list below grows
    const auto id = static_cast<NodeId>(line.nodes.size());
    node.is_repeat = true;
    std::map<TensorId, TensorId> here;  // its arguments, for the aliases
    for (Argument& argument : node.arguments) {
      const TensorId old = argument.tensor;
      if (argument.written) {
        Tensor tensor = line.tensors[old];
        tensor.producer = id;
        tensor.is_kept = false;
        tensor.home = kNone;
        argument.tensor = static_cast<TensorId>(line.tensors.size());
        line.tensors.push_back(tensor);
        again[old] = argument.tensor;
      } else if (const auto found = again.find(old); found != again.end()) {
        argument.tensor = found->second;
      } else if (!line.tensors[old].is_carried) {
        const TensorId twin = chains.alive_twin(old, position);
        argument.tensor = twin == kNone ? old : twin;
      }
      here[old] = argument.tensor;
    }
    for (Alias& alias : node.aliases) alias = {here[alias.operand], here[alias.result]};
    line.nodes.push_back(std::move(node));
    added.push_back(id);
  }
  for (const auto& [old, now] : again) {
    if (!line.tensors[old].is_kept) give_to_readers(line, old, now, position);
  }
  line.order.insert(line.order.begin() + position, added.begin(), added.end());
}

}  // namespace crucible::budget
