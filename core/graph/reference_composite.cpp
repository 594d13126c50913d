// Running composites on the interpreter: see reference_composite.hpp. Here is how operands become numbers and results
// bytes.
#include "core/graph/reference_composite.hpp"

#include <algorithm>
#include <optional>

#include "core/graph/reference.hpp"

namespace crucible::graph {
namespace {

CompositeFunction find_implementation(std::string_view name) {
  for (const auto entries : {norm_composites(), loss_composites(), attention_composites(), step_composites()}) {
    for (const CompositeEntry& entry : entries) {
      if (entry.name == name) return entry.run;
    }
  }
  return nullptr;
}

Reals reals_of(Numbers numbers) {
  if (!numbers.is_integer) return std::move(numbers.real);
  Reals reals(numbers.size());
  for (std::size_t i = 0; i < reals.size(); ++i) reals[i] = numbers.as_real(i);
  return reals;
}

CompositeCall call_of(const Program& program, const Op& op, const std::vector<Bytes>& values,
                      std::span<const Number> slots) {
  const Composite& composite = composite_of(program, op);
  CompositeCall call{composite, {}, {}, {}, {}};
  for (const Operand& input : op.inputs) {
    if (input.is_scalar()) {
      call.numbers.emplace_back(composite.body.slots[call.numbers.size()].name, slots[input.scalar.slot].real());
      continue;
    }
    const std::string& name = composite.body.values[composite.body.inputs[call.inputs.size()].value].name;
    const DType dtype = program.values[input.value].dtype;
    call.inputs.push_back(
        {name, input.view.sizes, dtype, reals_of(load(values[input.value], dtype, input.view)), true});
  }
  for (const Operand& out : op.outputs) {
    const std::string& name = composite.body.outputs[call.outputs.size()].name;
    call.outputs.push_back({name, out.view.sizes, program.values[out.value].dtype, {}, false});
  }
  return call;
}

}  // namespace

const NamedTensor* CompositeCall::in(std::string_view name) const {
  const auto found = std::ranges::find(inputs, name, &NamedTensor::name);
  return found == inputs.end() ? nullptr : &*found;
}

Reals& CompositeCall::out(std::string_view name) {
  const auto found = std::ranges::find(outputs, name, &NamedTensor::name);
  if (found == outputs.end()) return nowhere;
  found->done = true;
  return found->x;
}

bool CompositeCall::wants(std::string_view name) const {
  return std::ranges::find(outputs, name, &NamedTensor::name) != outputs.end();
}

double CompositeCall::number(std::string_view name, double otherwise) const {
  for (const auto& [slot, value] : numbers) {
    if (slot == name) return value;
  }
  return composite.number(name, otherwise);
}

bool run_composite_itself(const Program& program, OpId index, std::vector<Bytes>& values,
                          std::span<const Number> slots) {
  const Op& op = program.ops[index];
  const CompositeFunction run = find_implementation(composite_of(program, op).name);
  if (run == nullptr) return false;
  CompositeCall call = call_of(program, op, values, slots);
  if (!run(call)) return false;
  // Results that the implementation does not know, or sizes that it means otherwise, are left to the body.
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    if (!call.outputs[i].done || call.outputs[i].x.size() != static_cast<std::size_t>(op.outputs[i].view.elements()))
      return false;
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    store(Numbers{false, std::move(call.outputs[i].x), {}}, call.outputs[i].dtype, op.outputs[i].view,
          values[op.outputs[i].value]);
  }
  return true;
}

Result<void> run_composite(const Program& program, OpId index, std::vector<Bytes>& values,
                           std::span<const Number> slots, Roughness* rough) {
  if (rough == nullptr && run_composite_itself(program, index, values, slots)) return {};
  const Op& op = program.ops[index];
  const Program& body = composite_of(program, op).body;
  std::vector<Bytes> inner(body.values.size());
  std::vector<Number> numbers;
  std::size_t tensor = 0;
  for (const Operand& input : op.inputs) {
    if (input.is_scalar()) {
      numbers.push_back(slots[input.scalar.slot]);
    } else {
      inner[body.inputs[tensor++].value] = values[input.value];
    }
  }
  CRUCIBLE_TRY(inner, run_iteration(body, std::move(inner), numbers, rough));
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    values[op.outputs[i].value] = std::move(inner[body.outputs[i].operand.value]);
  return {};
}

bool reference_keeps(const Composite&, const Op&) { return true; }

std::vector<std::string_view> implemented_composites() {
  std::vector<std::string_view> names;
  for (const auto entries : {norm_composites(), loss_composites(), attention_composites(), step_composites()}) {
    for (const CompositeEntry& entry : entries) names.push_back(entry.name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace crucible::graph
