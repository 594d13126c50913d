// Joining programs: see join_programs.hpp.
#include "tests/opdb/join_programs.hpp"

namespace crucible::opdb {
namespace {

using graph::kNone;

std::uint32_t moved(std::uint32_t id, std::size_t by) {
  return id == kNone ? kNone : id + static_cast<std::uint32_t>(by);
}

struct Shift {
  std::size_t values, ops, sources, slots;

  graph::Operand operand(graph::Operand operand) const {
    operand.value = moved(operand.value, values);
    operand.scalar.slot = moved(operand.scalar.slot, slots);
    return operand;
  }
};

}  // namespace

void append(graph::Program& whole, const graph::Program& part) {
  const Shift shift{whole.values.size(), whole.ops.size(), whole.sources.size(), whole.slots.size()};
  whole.iterations = part.iterations;
  for (graph::Value value : part.values) {
    value.producer = moved(value.producer, shift.ops);
    whole.values.push_back(std::move(value));
  }
  for (graph::Op op : part.ops) {
    for (graph::Operand& input : op.inputs) input = shift.operand(std::move(input));
    for (graph::Operand& output : op.outputs) output = shift.operand(std::move(output));
    op.source = moved(op.source, shift.sources);
    whole.ops.push_back(std::move(op));
  }
  whole.sources.insert(whole.sources.end(), part.sources.begin(), part.sources.end());
  whole.slots.insert(whole.slots.end(), part.slots.begin(), part.slots.end());
  for (graph::State state : part.states) {
    state.start = moved(state.start, shift.values);
    state.end = moved(state.end, shift.values);
    whole.states.push_back(state);
  }
  for (graph::Input input : part.inputs) {
    input.value = moved(input.value, shift.values);
    whole.inputs.push_back(std::move(input));
  }
  for (graph::Constant constant : part.constants) {
    constant.value = moved(constant.value, shift.values);
    whole.constants.push_back(constant);
  }
  for (graph::Output output : part.outputs) {
    output.operand = shift.operand(std::move(output.operand));
    whole.outputs.push_back(std::move(output));
  }
}

}  // namespace crucible::opdb
