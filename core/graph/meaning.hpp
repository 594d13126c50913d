// Meanings: what values of a program are by name, beside the ops that compute them. "%18 is the attention of %15, %16
// and %17, with scale 0.125": a statement about values, so no pass that keeps what values hold can make it wrong,
// however many of the ops it merges, moves or takes away. A pass that gives values other numbers renames them here,
// too.
//
// They come from composites (composite.hpp) whose bodies are put in their place. A scheduler asks a library for the
// whole by them; nothing else depends on them: they are not in the program's hash, and keep no value alive.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::graph {

/// Whether scheduling asks for what a composite of this name computes: then the name outlives the op.
bool is_scheduled_by_name(std::string_view composite);

/// Null where there is none of the name.
const Role* find_input(const Meaning& meaning, std::string_view role);
const Role* find_output(const Meaning& meaning, std::string_view role);
const CompositeAttribute* find_attribute(const Meaning& meaning, std::string_view attribute);
/// The attribute's one number; `otherwise` where there is none.
double number_of(const Meaning& meaning, std::string_view attribute, double otherwise);

/// What the composite op says about its operands and results. Nothing of one that reads numbers which differ between
/// iterations.
void add_meaning(Program& program, const Op& composite);

/// What the operand is a copy of, as a view of the same sizes; nothing where it is none, or no strides can express
/// that.
std::optional<Operand> copied_from(const Program& program, const Operand& operand);

/// Calls visit(operand) for each operand of each meaning.
template <class Visit>
void for_each_meant(Program& program, Visit visit) {
  for (Meaning& meaning : program.meanings) {
    for (Role& role : meaning.inputs) visit(role.operand);
    for (Role& role : meaning.outputs) visit(role.operand);
  }
}

/// Before values without a flag go: of those, operands that are copies of others become these. Where that is no help,
/// results are left out, and meanings without an operand or without any result go.
void leave_meanings_to(Program& program, const std::vector<bool>& kept);

/// Names that the text form can read back, and views inside their values. Errors: kInternal with the rule.
Result<void> verify_meanings(const Program& program);

}  // namespace crucible::graph
