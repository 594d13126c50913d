// Readers, dependences, lifetimes and the critical path: see queries.hpp.
#include "core/graph/queries.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace crucible::graph {
namespace {

/// Lists by index from a walk that names (index, id) pairs in any order of indices, ids of one index ascending; the
/// walk is made twice, so that nothing but the lists is kept. A pair that repeats the last one of its index is left
/// out.
template <class Walk>
IdLists lists(std::size_t count, Walk walk) {
  IdLists result;
  result.begins.assign(count + 1, 0);
  std::vector<std::uint32_t> last(count, kNone);
  walk([&](std::size_t index, std::uint32_t id) {
    if (std::exchange(last[index], id) != id) ++result.begins[index + 1];
  });
  for (std::size_t i = 0; i < count; ++i) result.begins[i + 1] += result.begins[i];
  result.ids.resize(result.begins.back());
  std::vector<std::uint32_t> next(result.begins.begin(), result.begins.end() - 1);
  std::ranges::fill(last, kNone);
  walk([&](std::size_t index, std::uint32_t id) {
    if (std::exchange(last[index], id) != id) result.ids[next[index]++] = id;
  });
  return result;
}

}  // namespace

IdLists readers(const Program& program) {
  return lists(program.values.size(), [&](auto add) {
    for (OpId op = 0; op < program.ops.size(); ++op) {
      for (const Operand& input : program.ops[op].inputs) {
        if (!input.is_scalar()) add(input.value, op);
      }
    }
  });
}

std::vector<bool> wanted_at_end(const Program& program) {
  std::vector<bool> wanted(program.values.size(), false);
  for (const State& state : program.states) wanted[state.end] = true;
  for (const Output& output : program.outputs) {
    if (!output.operand.is_scalar()) wanted[output.operand.value] = true;
  }
  return wanted;
}

std::optional<double> fixed_number(const Operand& operand) {
  if (!operand.is_scalar() || operand.scalar.slot != kNone) return std::nullopt;
  return operand.scalar.is_integer ? static_cast<double>(operand.scalar.integer) : operand.scalar.real;
}

std::vector<std::uint32_t> read_counts(const Program& program) {
  std::vector<std::uint32_t> counts(program.values.size(), 0);
  for (const Op& op : program.ops) {
    for (const Operand& input : op.inputs) {
      if (!input.is_scalar()) ++counts[input.value];
    }
  }
  for (const State& state : program.states) ++counts[state.end];
  for (const Output& output : program.outputs) ++counts[output.operand.value];
  return counts;
}

Dependences dependences(const Program& program) {
  Dependences result;
  std::vector<OpId> producers;
  result.before = lists(program.ops.size(), [&](auto add) {
    for (OpId op = 0; op < program.ops.size(); ++op) {
      producers.clear();
      for (const Operand& input : program.ops[op].inputs) {
        const OpId producer = input.is_scalar() ? kNone : program.values[input.value].producer;
        if (producer != kNone) producers.push_back(producer);
      }
      std::ranges::sort(producers);
      for (const OpId producer : producers) add(op, producer);
    }
  });
  result.after = lists(program.ops.size(), [&](auto add) {
    for (OpId op = 0; op < program.ops.size(); ++op) {
      for (const OpId producer : result.before[op]) add(producer, op);
    }
  });
  return result;
}

std::vector<Lifetime> lifetimes(const Program& program) {
  std::vector<Lifetime> result(program.values.size());
  for (ValueId v = 0; v < program.values.size(); ++v) {
    const OpId producer = program.values[v].producer;
    if (producer != kNone) result[v] = {producer, producer};
  }
  for (OpId op = 0; op < program.ops.size(); ++op) {
    for (const Operand& input : program.ops[op].inputs) {
      if (!input.is_scalar()) result[input.value].last = op;
    }
  }
  const auto end = static_cast<OpId>(program.ops.size());
  for (const State& state : program.states) result[state.end].last = end;
  for (const Output& output : program.outputs) result[output.operand.value].last = end;
  return result;
}

std::vector<std::uint64_t> live_bytes(const Program& program) {
  const std::size_t count = program.ops.size();
  std::vector<std::uint64_t> change(count + 1, 0);  // wraps where more dies than begins; the sums do not
  const auto lives = lifetimes(program);
  for (ValueId v = 0; v < program.values.size(); ++v) {
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(program.values[v].elements) * size_bytes(program.values[v].dtype);
    change[lives[v].first] += bytes;
    if (lives[v].last + std::size_t{1} <= count) change[lives[v].last + std::size_t{1}] -= bytes;
  }
  change.pop_back();
  for (std::size_t op = 1; op < count; ++op) change[op] += change[op - 1];
  return change;
}

CriticalPath critical_path(const Program& program, std::span<const double> weights) {
  CriticalPath path;
  const std::size_t count = program.ops.size();
  std::vector<double> longest(count, 0);  // of the chains that end with the op, itself included
  std::vector<OpId> previous(count, kNone);
  OpId end = kNone;
  for (OpId op = 0; op < count; ++op) {
    for (const Operand& input : program.ops[op].inputs) {
      const OpId producer = input.is_scalar() ? kNone : program.values[input.value].producer;
      if (producer == kNone) continue;
      const OpId best = previous[op];
      const bool better =
          best == kNone || longest[producer] > longest[best] || (longest[producer] == longest[best] && producer < best);
      if (better) previous[op] = producer;
    }
    longest[op] = (weights.empty() ? 1.0 : weights[op]) + (previous[op] == kNone ? 0.0 : longest[previous[op]]);
    if (end == kNone || longest[op] > longest[end]) end = op;
  }
  if (end == kNone) return path;
  path.weight = longest[end];
  for (OpId op = end; op != kNone; op = previous[op]) path.ops.push_back(op);
  std::ranges::reverse(path.ops);
  return path;
}

OutputTensors output_tensors(const Program& program) {
  OutputTensors tensors;
  std::map<std::tuple<ValueId, std::int64_t, std::vector<std::int64_t>, std::vector<std::int64_t>>, std::size_t> seen;
  for (const Output& output : program.outputs) {
    if (!output.is_tensor()) continue;
    const View& view = output.operand.view;
    tensors.first_alike.push_back(
        seen.try_emplace({output.operand.value, view.offset, view.sizes, view.strides}, tensors.outputs.size())
            .first->second);
    tensors.outputs.push_back(&output);
  }
  return tensors;
}

std::vector<double> flop_weights(const Program& program) {
  std::vector<double> weights(program.ops.size());
  for (OpId op = 0; op < program.ops.size(); ++op) weights[op] = static_cast<double>(work(program, op).flops);
  return weights;
}

}  // namespace crucible::graph
