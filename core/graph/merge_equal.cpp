// The pass merge_equal: ops that compute the same from the same become one. Frameworks recompute in the backward pass
// what the forward pass had (attention scores, masks, activations); within one iteration that is the same value.
#include <bit>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "core/graph/opaque.hpp"
#include "core/graph/passes.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

using Key = std::vector<std::int64_t>;

void append(Key& key, const std::vector<std::int64_t>& numbers) {
  key.push_back(static_cast<std::int64_t>(numbers.size()));
  key.insert(key.end(), numbers.begin(), numbers.end());
}

void append(Key& key, const View& view) {
  const View plain = normalized(view);
  key.push_back(plain.offset);
  append(key, plain.sizes);
  append(key, plain.strides);
}

void append(Key& key, const Operand& operand) {
  key.push_back(operand.value == kNone ? -1 : static_cast<std::int64_t>(operand.value));
  if (!operand.is_scalar()) return append(key, operand.view);
  const Scalar& scalar = operand.scalar;
  key.push_back(scalar.slot == kNone ? -1 : static_cast<std::int64_t>(scalar.slot));
  key.push_back(scalar.is_integer);
  key.push_back(scalar.is_integer ? scalar.integer : std::bit_cast<std::int64_t>(scalar.real));
}

/// Everything that decides an op's results, as numbers.
Key key_of(const Program& program, const Op& op) {
  Key key{static_cast<std::int64_t>(op.kind), static_cast<std::int64_t>(op.inputs.size())};
  for (const Operand& input : op.inputs) append(key, input);
  for (const Operand& output : op.outputs) {
    append(key, output.view);
    key.push_back(static_cast<std::int64_t>(program.values[output.value].dtype));
    key.push_back(program.values[output.value].elements);
  }
  const Attributes& a = op.attributes;
  const std::int64_t index = op.kind == OpKind::kOpaque ? 0 : a.index;  // of an entry: what it holds is added by the caller
  append(key, a.dims);
  append(key, a.region);
  key.insert(key.end(), {index, std::bit_cast<std::int64_t>(a.alpha), a.kernel[0], a.kernel[1], a.stride[0],
                         a.stride[1], a.padding[0], a.padding[1], a.dilation[0], a.dilation[1], a.groups});
  return key;
}

/// Per entry of Program::opaques the first one that is equal to it.
std::vector<std::int64_t> equal_opaques(const Program& program) {
  std::map<std::string, std::int64_t> first;
  std::vector<std::int64_t> same;
  for (const auto& entry : program.opaques) {
    same.push_back(first.emplace(to_json(*entry), static_cast<std::int64_t>(same.size())).first->second);
  }
  return same;
}

}  // namespace

void merge_equal(Program& program) {
  const std::vector<std::int64_t> same_opaque = equal_opaques(program);
  std::vector<bool> is_end(program.values.size(), false);
  for (const State& state : program.states) is_end[state.end] = true;
  std::map<Key, OpId> first;
  std::vector<ValueId> renamed(program.values.size());
  std::iota(renamed.begin(), renamed.end(), 0u);
  for (OpId id = 0; id < program.ops.size(); ++id) {
    Op& op = program.ops[id];
    for (Operand& input : op.inputs) {
      if (!input.is_scalar()) input.value = renamed[input.value];
    }
    bool makes_end = false;
    for (const Operand& output : op.outputs) makes_end = makes_end || is_end[output.value];
    if (has_effects(program, op)) continue;  // each draws numbers of its own, or nobody knows what it does
    Key key = key_of(program, op);
    if (op.kind == OpKind::kOpaque) key.push_back(same_opaque[static_cast<std::size_t>(op.attributes.index)]);
    const auto [found, is_new] = first.emplace(std::move(key), id);
    if (is_new || makes_end) continue;  // two states never end in one value
    const Op& same = program.ops[found->second];
    for (std::size_t i = 0; i < op.outputs.size(); ++i) renamed[op.outputs[i].value] = same.outputs[i].value;
  }
  for (Output& output : program.outputs) output.operand.value = renamed[output.operand.value];
}

}  // namespace crucible::graph
