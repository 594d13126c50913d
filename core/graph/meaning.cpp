// What values are by name: see meaning.hpp.
#include "core/graph/meaning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/graph/composite.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

template <class Item>
const Item* find(const std::vector<Item>& items, std::string_view name) {
  const auto found = std::ranges::find(items, name, &Item::name);
  return found == items.end() ? nullptr : &*found;
}

/// The operand itself, or what it is a copy of and stays; false where neither is there.
bool leave_to(const Program& program, const std::vector<bool>& kept, Operand& operand) {
  while (!kept[operand.value]) {
    const auto source = copied_from(program, operand);
    if (!source) return false;
    operand = *source;
  }
  return true;
}

}  // namespace

bool is_scheduled_by_name(std::string_view composite) {
  return composite == "attention" || composite == "attention_backward";
}

const Role* find_input(const Meaning& meaning, std::string_view role) { return find(meaning.inputs, role); }
const Role* find_output(const Meaning& meaning, std::string_view role) { return find(meaning.outputs, role); }
const CompositeAttribute* find_attribute(const Meaning& meaning, std::string_view attribute) {
  return find(meaning.attributes, attribute);
}

double number_of(const Meaning& meaning, std::string_view attribute, double otherwise) {
  const CompositeAttribute* found = find_attribute(meaning, attribute);
  if (found == nullptr || found->is_list || found->numbers.size() != 1) return otherwise;
  const Scalar& number = found->numbers[0];
  return number.is_integer ? static_cast<double>(number.integer) : number.real;
}

std::optional<Operand> copied_from(const Program& program, const Operand& operand) {
  const OpId id = program.values[operand.value].producer;
  if (id == kNone || program.ops[id].kind != OpKind::kCopy) return std::nullopt;
  const Operand& source = program.ops[id].inputs[0];
  if (source.is_scalar() || program.values[source.value].dtype != program.values[operand.value].dtype)
    return std::nullopt;
  const auto moved = relaid(operand.view, program.ops[id].outputs[0].view, source.view);
  auto view = moved ? reshaped(*moved, operand.view.sizes) : std::nullopt;
  return view ? std::optional(Operand{source.value, *std::move(view), {}}) : std::nullopt;
}

void add_meaning(Program& program, const Op& composite) {
  if (std::ranges::any_of(composite.inputs, &Operand::is_scalar)) return;
  const Composite& entry = composite_of(program, composite);
  Meaning meaning{entry.name, entry.attributes, {}, {}};
  for (std::size_t i = 0; i < composite.inputs.size(); ++i)
    meaning.inputs.push_back({entry.body.values[entry.body.inputs[i].value].name, composite.inputs[i]});
  for (std::size_t i = 0; i < composite.outputs.size(); ++i)
    meaning.outputs.push_back({entry.body.outputs[i].name, composite.outputs[i]});
  program.meanings.push_back(std::move(meaning));
}

void leave_meanings_to(Program& program, const std::vector<bool>& kept) {
  std::erase_if(program.meanings, [&](Meaning& meaning) {
    std::erase_if(meaning.outputs, [&](Role& role) { return !leave_to(program, kept, role.operand); });
    const auto is_there = [&](Role& role) { return leave_to(program, kept, role.operand); };
    return meaning.outputs.empty() || !std::ranges::all_of(meaning.inputs, is_there);
  });
}

Result<void> verify_meanings(const Program& program) {
  for (std::size_t i = 0; i < program.meanings.size(); ++i) {
    const Meaning& meaning = program.meanings[i];
    const std::string where = fmt::format("meaning {}", i);
    CRUCIBLE_TRY_VOID(verify_name(meaning.name, where));
    CRUCIBLE_TRY_VOID(verify_attributes(meaning.attributes, fmt::format("{} ({})", where, meaning.name)));
    const auto wrong = [&](std::string_view what) {
      return Error{ErrorCode::kInternal, fmt::format("{} ({}): {}", where, meaning.name, what)};
    };
    if (meaning.outputs.empty()) return wrong("has no results");
    for (const auto* roles : {&meaning.inputs, &meaning.outputs}) {
      for (const Role& role : *roles) {
        const Operand& operand = role.operand;
        if (operand.value >= program.values.size())
          return wrong(fmt::format("{} is %{}; there are {} values", role.name, operand.value, program.values.size()));
        const auto last = last_index(operand.view);
        if (!last || *last >= program.values[operand.value].elements || operand.scalar != Scalar{})
          return wrong(fmt::format("{} is no view of %{}", role.name, operand.value));
      }
    }
  }
  return {};
}

}  // namespace crucible::graph
