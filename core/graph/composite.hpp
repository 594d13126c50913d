// Composites: ops that have a name and a decomposition - softmax, norms, attention, losses, optimizer steps. A program
// keeps one whole until a backend declines it; the pass expand_composites then puts its body in its place.
//
// The body is a program of its own of one iteration without recorded data: its inputs are the tensor operands of the
// op, its slots the numbers among them, its outputs the results, each in the op's order. The names of body inputs,
// slots and outputs say what each operand and result is: "input", "weight", "mean".
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::graph {

/// The entry of Program::composites that an op of kind kComposite names by its attribute `index`. Never changed once it
/// is in a program: copies of the program share it, and ops that compute the same from other operands do.
struct Composite {
  std::string name;  // "layer_norm": small letters, digits and '_', and no neutral kind's
  std::vector<CompositeAttribute> attributes;
  Program body;

  /// Null where there is none of the name.
  const CompositeAttribute* find(std::string_view attribute) const;
  /// The attribute's one number; `otherwise` where there is none.
  double number(std::string_view attribute, double otherwise) const;
  std::vector<std::int64_t> integers(std::string_view attribute) const;
};

/// The entry of an op of kind kComposite. The program must pass verify().
const Composite& composite_of(const Program& program, const Op& op);

/// A composite op's name, or the name of the kind. Any program.
std::string op_name(const Program& program, const Op& op);

/// Everything that decides what a composite computes, as bytes that only equal ones share.
std::string identity(const Composite& composite);

/// What a composite and its attributes may be called, and which numbers attributes have. Errors: kInternal; `where`
/// begins their text.
Result<void> verify_name(std::string_view name, std::string_view where);
Result<void> verify_attributes(const std::vector<CompositeAttribute>& attributes, std::string_view where);

/// The rules of the entries themselves: names, attributes, and a body that is a valid program of neutral ops. Errors:
/// kInternal.
Result<void> verify_composites(const Program& program);

/// The rules of one op: its entry exists, its operands and results are those of the body. Errors: kInternal with the
/// rule.
Result<void> verify_composite(const Program& program, OpId index);

/// Whether a backend takes a composite op as it is.
using KeepsComposite = std::function<bool(const Composite& composite, const Op& op)>;

/// Puts the body of each composite op that `keeps` declines (null: all) in the op's place: ops and values stand in the
/// order in which they stood when the composite was made. Entries that no op names any more go. Of composites that
/// scheduling asks for by name, the meaning stays (meaning.hpp).
void expand_composites(Program& program, const KeepsComposite& keeps = nullptr);

/// Entries that no op names go, equal ones become one.
void renumber_composites(Program& program);

}  // namespace crucible::graph
