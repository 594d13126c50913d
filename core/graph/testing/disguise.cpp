// Disguised programs: see disguise.hpp.
#include "core/graph/testing/disguise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crucible::graph {
namespace {

/// Words for parts of paths. Two words never become one.
class Words {
 public:
  explicit Words(std::uint64_t seed) : seed_(seed) {}

  std::string path(std::string_view path) {
    std::string text;
    for (std::size_t begin = 0; begin <= path.size() && !path.empty();) {
      const std::size_t end = std::min(path.find('.', begin), path.size());
      text += (text.empty() ? "" : ".") + word(std::string(path.substr(begin, end - begin)));
      begin = end + 1;
    }
    return text;
  }

  /// "exp_avg of blocks.0.weight": the path is behind the last " of ".
  std::string state(std::string_view name) {
    const auto of = name.rfind(" of ");
    if (of == std::string_view::npos) return path(name);
    return fmt::format("another {}{}", name.substr(of, 4).substr(1), path(name.substr(of + 4)));
  }

 private:
  std::string word(const std::string& word) {
    return known_.try_emplace(word, fmt::format("w{}", (known_.size() * 7919 + seed_) % 1000003)).first->second;
  }

  std::uint64_t seed_;
  std::map<std::string, std::string> known_;
};

/// A random order in which every op stands behind those whose results it reads.
std::vector<OpId> random_order(const Program& program, std::mt19937_64& random) {
  std::vector<std::uint32_t> waiting(program.ops.size(), 0);
  std::vector<std::vector<OpId>> users(program.ops.size());
  std::vector<OpId> ready, order;
  for (OpId id = 0; id < program.ops.size(); ++id) {
    for (const Operand& input : program.ops[id].inputs) {
      const OpId producer = input.is_scalar() ? kNone : program.values[input.value].producer;
      if (producer == kNone) continue;
      ++waiting[id];
      users[producer].push_back(id);
    }
    if (waiting[id] == 0) ready.push_back(id);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const OpId next = ready.back();
    ready.pop_back();
    order.push_back(next);
    for (const OpId user : users[next]) {
      if (--waiting[user] == 0) ready.push_back(user);
    }
  }
  return order;
}

}  // namespace

Program disguised(const Program& program, std::uint64_t seed, Modules modules) {
  std::mt19937_64 random(seed);
  const std::vector<OpId> order = random_order(program, random);
  std::vector<ValueId> value(program.values.size());
  std::iota(value.begin(), value.end(), 0u);
  std::ranges::shuffle(value, random);
  Program other = program;
  Words words(seed);
  std::vector<OpId> place(program.ops.size());
  for (OpId at = 0; at < order.size(); ++at) place[order[at]] = at;
  for (ValueId v = 0; v < program.values.size(); ++v) {
    Value& it = other.values[value[v]];
    it = program.values[v];
    it.name = modules == Modules::kDropped ? "another name" : words.state(it.name);
    if (it.producer != kNone) it.producer = place[it.producer];
  }
  const auto rename = [&](Operand& o) {
    if (!o.is_scalar()) o.value = value[o.value];
  };
  for (OpId at = 0; at < order.size(); ++at) {
    other.ops[at] = program.ops[order[at]];
    if (modules == Modules::kDropped) other.ops[at].source = kNone;
    for (Operand& o : other.ops[at].inputs) rename(o);
    for (Operand& o : other.ops[at].outputs) rename(o);
  }
  if (modules == Modules::kDropped) other.sources.clear();
  for (Source& source : other.sources) {
    source.module = words.path(source.module);
    source.site = "another.py:1";
  }
  for (Output& output : other.outputs) rename(output.operand);
  for (State& state : other.states) state = {value[state.start], value[state.end], 7, 8};
  for (Input& input : other.inputs) input.value = value[input.value];
  for (Constant& constant : other.constants) constant.value = value[constant.value];
  std::ranges::shuffle(other.states, random);
  std::ranges::shuffle(other.inputs, random);
  for (Slot& slot : other.slots) slot.values.assign(slot.values.size(), 3.5);
  other.iterations += 3;
  return other;
}

}  // namespace crucible::graph
