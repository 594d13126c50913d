// Composites: their identity and their rules. See composite.hpp.
#include "core/graph/composite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/graph/binary.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/print.hpp"
#include "core/graph/verify_ops.hpp"

namespace crucible::graph {
namespace {

template <class... Args>
Error broken(fmt::format_string<Args...> text, Args&&... args) {
  return Error{ErrorCode::kInternal, fmt::format(text, std::forward<Args>(args)...)};
}

/// Small letters, digits and '_', beginning with a letter: what the text form can read back.
bool is_word(std::string_view text) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text[0] >= 'a' && text[0] <= 'z' && std::ranges::all_of(text, fits);
}

bool is_kind(std::string_view text) {
  for (int kind = 0; kind <= static_cast<int>(OpKind::kComposite); ++kind) {
    if (text == name(static_cast<OpKind>(kind))) return true;
  }
  return false;
}

/// Words that the text form has for something else among an op's operands.
bool is_reserved(std::string_view text) { return text == "slot" || text == "body"; }

/// What a body has not: it is a piece of an iteration, and nothing of a recording belongs to it.
Result<void> check_body(const Composite& composite, std::size_t entry) {
  const Program& body = composite.body;
  const auto wrong = [&](std::string_view what) {
    return broken("composite {} ({}): its body {}", entry, composite.name, what);
  };
  if (body.iterations != 1) return wrong(fmt::format("has {} iterations, needs 1", body.iterations));
  if (!body.states.empty()) return wrong("has states");
  if (!body.constants.empty()) return wrong("has constants");
  if (!body.sources.empty()) return wrong("has sources");
  if (!body.left_out.empty()) return wrong("leaves outputs out");
  if (!body.opaques.empty() || !body.composites.empty()) return wrong("has entries of other ops");
  if (!body.meanings.empty()) return wrong("has meanings");
  if (body.outputs.empty()) return wrong("has no outputs");
  for (const Op& op : body.ops) {
    if (static_cast<int>(op.kind) >= kOpKindCount)
      return wrong(fmt::format("has an op that is not neutral ({})", name(op.kind)));
  }
  for (const Input& input : body.inputs) {
    if (input.is_draw || input.blobs != std::vector<std::uint32_t>{kNone})
      return wrong("has an input with recorded data");
  }
  for (const Slot& slot : body.slots) {
    if (slot.values.size() != 1 || slot.values[0].bits() != 0) return wrong("has a slot with a recorded number");
  }
  if (auto valid = verify(body); !valid)
    return broken("composite {} ({}), body: {}", entry, composite.name, valid.error().message);
  std::vector<bool> shown(body.values.size(), false);
  for (const Output& output : body.outputs) {
    const Value& value = body.values[output.operand.value];
    if (output.blobs != std::vector<std::uint32_t>{kNone}) return wrong("has an output with recorded data");
    if (value.kind != ValueKind::kTemporary)
      return wrong(fmt::format("has an output %{} that none of its ops makes", output.operand.value));
    if (shown[output.operand.value]) return wrong(fmt::format("has %{} as two outputs", output.operand.value));
    shown[output.operand.value] = true;
  }
  return {};
}

}  // namespace

const CompositeAttribute* Composite::find(std::string_view attribute) const {
  const auto found = std::ranges::find(attributes, attribute, &CompositeAttribute::name);
  return found == attributes.end() ? nullptr : &*found;
}

double Composite::number(std::string_view attribute, double otherwise) const {
  const CompositeAttribute* found = find(attribute);
  if (found == nullptr || found->is_list || found->numbers.size() != 1) return otherwise;
  const Scalar& number = found->numbers[0];
  return number.is_integer ? static_cast<double>(number.integer) : number.real;
}

std::vector<std::int64_t> Composite::integers(std::string_view attribute) const {
  std::vector<std::int64_t> numbers;
  if (const CompositeAttribute* found = find(attribute)) {
    for (const Scalar& number : found->numbers)
      numbers.push_back(number.is_integer ? number.integer : static_cast<std::int64_t>(number.real));
  }
  return numbers;
}

const Composite& composite_of(const Program& program, const Op& op) {
  return *program.composites[static_cast<std::size_t>(op.attributes.index)];
}

std::string op_name(const Program& program, const Op& op) {
  const auto entry = static_cast<std::size_t>(op.attributes.index);
  if (op.kind == OpKind::kComposite && entry < program.composites.size() && program.composites[entry])
    return program.composites[entry]->name;
  return std::string(name(op.kind));
}

std::string identity(const Composite& composite) {
  std::string text = composite.name;
  for (const CompositeAttribute& attribute : composite.attributes) {
    text += fmt::format(" {}{}", attribute.name, attribute.is_list ? "[]" : "");
    for (const Scalar& number : attribute.numbers) text += " " + to_text(number);
  }
  const auto body = to_binary(composite.body);
  return text + "\n" + std::string(reinterpret_cast<const char*>(body.data()), body.size());
}

Result<void> verify_name(std::string_view name, std::string_view where) {
  return is_word(name) && !is_kind(name) ? Result<void>() : broken("{}: '{}' cannot be its name", where, name);
}

Result<void> verify_attributes(const std::vector<CompositeAttribute>& attributes, std::string_view where) {
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    const CompositeAttribute& attribute = attributes[i];
    if (!is_word(attribute.name) || is_reserved(attribute.name))
      return broken("{}: '{}' cannot be the name of an attribute", where, attribute.name);
    for (std::size_t other = 0; other < i; ++other) {
      if (attributes[other].name == attribute.name)
        return broken("{}: two attributes are called {}", where, attribute.name);
    }
    if (!attribute.is_list && attribute.numbers.size() != 1) {
      return broken("{}: attribute {} has {} numbers and is no list", where, attribute.name, attribute.numbers.size());
    }
    for (const Scalar& number : attribute.numbers) {
      if (number.slot != kNone) return broken("{}: attribute {} names a slot", where, attribute.name);
      if (number.is_integer ? number.real != 0 : number.integer != 0) {
        return broken("{}: attribute {} holds two numbers; is_integer says which one is meant", where, attribute.name);
      }
    }
  }
  return {};
}

Result<void> verify_composites(const Program& program) {
  for (std::size_t entry = 0; entry < program.composites.size(); ++entry) {
    if (!program.composites[entry]) return broken("composite {} is empty", entry);
    const Composite& composite = *program.composites[entry];
    CRUCIBLE_TRY_VOID(verify_name(composite.name, fmt::format("composite {}", entry)));
    CRUCIBLE_TRY_VOID(verify_attributes(composite.attributes, fmt::format("composite {} ({})", entry, composite.name)));
    CRUCIBLE_TRY_VOID(check_body(composite, entry));
  }
  return {};
}

Result<void> verify_composite(const Program& program, OpId index) {
  const Op& op = program.ops[index];
  const auto wrong = [&](std::string text) { return broken("{}: {}", describe_op(program, index), text); };
  const std::int64_t entry = op.attributes.index;
  if (entry < 0 || static_cast<std::size_t>(entry) >= program.composites.size()) {
    return wrong(fmt::format("names composite {}; there are {}", entry, program.composites.size()));
  }
  const Program& body = composite_of(program, op).body;
  std::size_t tensors = 0, numbers = 0;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Operand& input = op.inputs[i];
    if (input.is_scalar()) {
      if (input.scalar.slot == kNone)
        return wrong(fmt::format("operand {}: is a fixed number, which belongs into the body", i));
      if (numbers < body.slots.size() && body.slots[numbers].is_integer != input.scalar.is_integer) {
        return wrong(fmt::format("operand {}: is a {} number, its body reads a {} one", i,
                                 input.scalar.is_integer ? "whole" : "real",
                                 body.slots[numbers].is_integer ? "whole" : "real"));
      }
      ++numbers;
      continue;
    }
    if (tensors < body.inputs.size()) {
      const Value &given = program.values[input.value], &wanted = body.values[body.inputs[tensors].value];
      if (given.dtype != wanted.dtype || given.elements != wanted.elements) {
        return wrong(fmt::format("operand {}: is of {}[{}], its body reads {}[{}]", i, name(given.dtype),
                                 given.elements, name(wanted.dtype), wanted.elements));
      }
    }
    ++tensors;
  }
  if (tensors != body.inputs.size() || numbers != body.slots.size()) {
    return wrong(fmt::format("has {} tensors and {} numbers, its body reads {} and {}", tensors, numbers,
                             body.inputs.size(), body.slots.size()));
  }
  if (op.outputs.size() != body.outputs.size()) {
    return wrong(fmt::format("has {} results, its body {}", op.outputs.size(), body.outputs.size()));
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const Operand &out = op.outputs[i], &made = body.outputs[i].operand;
    const Value &value = program.values[out.value], &wanted = body.values[made.value];
    if (value.dtype != wanted.dtype || value.elements != wanted.elements || out.view != made.view) {
      return wrong(fmt::format("result {}: differs in dtype, elements or view from what its body makes", i));
    }
  }
  return {};
}

void renumber_composites(Program& program) {
  if (program.composites.empty()) return;
  std::map<std::string, std::int64_t> first;
  std::vector<std::int64_t> renamed(program.composites.size(), -1);
  std::vector<std::shared_ptr<const Composite>> kept;
  for (Op& op : program.ops) {
    if (op.kind != OpKind::kComposite) continue;
    std::int64_t& entry = renamed[static_cast<std::size_t>(op.attributes.index)];
    if (entry < 0) {
      const auto& composite = program.composites[static_cast<std::size_t>(op.attributes.index)];
      const auto [found, is_new] = first.emplace(identity(*composite), static_cast<std::int64_t>(kept.size()));
      if (is_new) kept.push_back(composite);
      entry = found->second;
    }
    op.attributes.index = entry;
  }
  program.composites = std::move(kept);
}

}  // namespace crucible::graph
