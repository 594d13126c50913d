// Copies of a program behind it: see repeated.hpp.
#include "tests/scale/repeated.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace crucible::scale {

using graph::kNone;
using graph::OpId;
using graph::Program;
using graph::ValueId;

graph::RandomProgram repeated(const graph::RandomProgram& part, std::size_t times, bool is_chain) {
  graph::RandomProgram all = part;
  Program& program = all.program;
  const Program& one = part.program;
  std::vector<bool> is_input(one.values.size(), false);
  for (const graph::Input& input : one.inputs) is_input[input.value] = !input.is_draw;
  /// What stands for an input in the next part, kNone where nothing does.
  std::vector<ValueId> handed(one.values.size(), kNone);
  for (ValueId v = 0; is_chain && v < one.values.size(); ++v) {
    if (!is_input[v] || !is_floating(one.values[v].dtype)) continue;
    for (ValueId made = 0; made < one.values.size() && handed[v] == kNone; ++made) {
      const graph::Value& value = one.values[made];
      if (value.producer != kNone && value.dtype == one.values[v].dtype && value.elements == one.values[v].elements)
        handed[v] = made;
    }
  }
  std::vector<ValueId> before(one.values.size());
  std::iota(before.begin(), before.end(), 0u);
  for (std::size_t k = 1; k < times; ++k) {
    const auto first = static_cast<ValueId>(program.values.size());
    const auto first_op = static_cast<OpId>(program.ops.size());
    std::vector<ValueId> now(one.values.size());
    for (ValueId v = 0; v < one.values.size(); ++v) {
      program.values.push_back(one.values[v]);
      if (program.values.back().producer != kNone) program.values.back().producer += first_op;
      all.values.push_back(part.values[v]);
      now[v] = first + v;
    }
    std::vector<ValueId> read = now;
    for (ValueId v = 0; v < read.size(); ++v) {
      if (handed[v] != kNone) read[v] = before[handed[v]];
    }
    for (graph::Op op : one.ops) {
      for (graph::Operand& input : op.inputs) {
        if (!input.is_scalar()) input.value = read[input.value];
      }
      for (graph::Operand& output : op.outputs) output.value = now[output.value];
      program.ops.push_back(std::move(op));
    }
    for (graph::State state : one.states) {
      state.start = now[state.start];
      state.end = now[state.end];
      program.states.push_back(state);
    }
    for (graph::Input input : one.inputs) {
      input.value = now[input.value];
      program.inputs.push_back(std::move(input));
    }
    for (graph::Constant constant : one.constants) {
      constant.value = now[constant.value];
      program.constants.push_back(constant);
    }
    for (graph::Output output : one.outputs) {
      output.operand.value = now[output.operand.value];
      output.name += " " + std::to_string(k);
      program.outputs.push_back(std::move(output));
    }
    before = std::move(now);
  }
  std::ranges::stable_partition(program.outputs, [](const graph::Output& output) { return output.is_number(); });
  return all;
}

}  // namespace crucible::scale
