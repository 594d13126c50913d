// The pass merge_equal: ops that compute the same from the same become one. Frameworks recompute in the backward pass
// what the forward pass had (attention scores, masks, activations); within one iteration that is the same value.
#include <bit>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/hash.hpp"
#include "core/graph/composite.hpp"
#include "core/graph/meaning.hpp"
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

/// As normalized() has it, without a copy of its own.
void append(Key& key, const View& view) {
  if (view.elements() == 0) {
    const View plain = normalized(view);
    key.push_back(plain.offset);
    append(key, plain.sizes);
    return append(key, plain.strides);
  }
  key.push_back(view.offset);
  append(key, view.sizes);
  append(key, view.strides);
  std::int64_t* const strides = key.data() + key.size() - view.strides.size();
  for (std::size_t d = view.sizes.size(); d-- > 0;) {
    if (view.sizes[d] == 1) strides[d] = d + 1 < view.sizes.size() ? view.sizes[d + 1] * strides[d + 1] : 1;
  }
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
void key_of(const Program& program, const Op& op, Key& key) {
  key = {static_cast<std::int64_t>(op.kind), static_cast<std::int64_t>(op.inputs.size())};
  for (const Operand& input : op.inputs) append(key, input);
  for (const Operand& output : op.outputs) {
    append(key, output.view);
    key.push_back(static_cast<std::int64_t>(program.values[output.value].dtype));
    key.push_back(program.values[output.value].elements);
  }
  const Attributes& a = op.attributes;
  const bool names_entry = op.kind == OpKind::kOpaque || op.kind == OpKind::kComposite;
  const std::int64_t index = names_entry ? 0 : a.index;  // of an entry: what it holds is added by the caller
  append(key, a.dims);
  append(key, a.region);
  key.insert(key.end(), {index, std::bit_cast<std::int64_t>(a.alpha), a.kernel[0], a.kernel[1], a.stride[0],
                         a.stride[1], a.padding[0], a.padding[1], a.dilation[0], a.dilation[1], a.groups, a.pieces});
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

/// The same of Program::composites.
std::vector<std::int64_t> equal_composites(const Program& program) {
  std::map<std::string, std::int64_t> first;
  std::vector<std::int64_t> same;
  for (const auto& entry : program.composites) {
    same.push_back(first.emplace(identity(*entry), static_cast<std::int64_t>(same.size())).first->second);
  }
  return same;
}

/// The first op of each key. The keys themselves are made again where checksums agree: kept, they would be larger than
/// the program.
class FirstOps {
 public:
  explicit FirstOps(const Program& program)
      : program_(program),
        same_opaque_(equal_opaques(program)),
        same_composite_(equal_composites(program)),
        next_(program.ops.size(), kNone) {
    first_.reserve(program.ops.size());
  }

  /// The first op with the key of `id`: `id` itself where there was none.
  OpId find_or_add(OpId id) {
    make_key(program_.ops[id], key_);
    const auto [chain, is_new] = first_.emplace(checksum64(std::as_bytes(std::span(key_))), id);
    if (is_new) return id;
    for (OpId candidate = chain->second; candidate != kNone; candidate = next_[candidate]) {
      make_key(program_.ops[candidate], other_);
      if (other_ == key_) return candidate;
    }
    next_[id] = std::exchange(chain->second, id);
    return id;
  }

 private:
  void make_key(const Op& op, Key& key) const {
    key_of(program_, op, key);
    if (op.kind == OpKind::kOpaque) key.push_back(same_opaque_[static_cast<std::size_t>(op.attributes.index)]);
    if (op.kind == OpKind::kComposite) key.push_back(same_composite_[static_cast<std::size_t>(op.attributes.index)]);
  }

  const Program& program_;
  std::vector<std::int64_t> same_opaque_, same_composite_;
  std::unordered_map<std::uint64_t, OpId> first_;  // by the key's checksum
  std::vector<OpId> next_;                         // of another key with the same checksum
  Key key_, other_;
};

}  // namespace

void merge_equal(Program& program) {
  std::vector<bool> is_end(program.values.size(), false);
  for (const State& state : program.states) is_end[state.end] = true;
  FirstOps first(program);
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
    const OpId found = first.find_or_add(id);
    if (found == id || makes_end) continue;  // two states never end in one value
    const Op& same = program.ops[found];
    for (std::size_t i = 0; i < op.outputs.size(); ++i) renamed[op.outputs[i].value] = same.outputs[i].value;
  }
  for (Output& output : program.outputs) output.operand.value = renamed[output.operand.value];
  for_each_meant(program, [&](Operand& operand) { operand.value = renamed[operand.value]; });
}

}  // namespace crucible::graph
