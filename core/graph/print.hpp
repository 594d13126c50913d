// Machine-readable forms of a program, beside the text of program.hpp: for `crucible graph` and for drawing tools.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::graph {

/// One JSON document: values, ops, slots, states, inputs, constants, outputs, iterations. Deterministic.
std::string to_json(const Program& program);

/// Which ops are shown where not all of them are.
struct ModuleText {
  std::string module;          // "blocks.0": its ops and those of the modules inside; "": all
  std::optional<Phase> phase;  // nothing: all phases
};

/// True for ops that came from the module (or one inside it) in the phase; of ops without a source only when neither is
/// given.
bool is_shown(const Program& program, OpId op, const ModuleText& what);

/// A Graphviz digraph: ops and outside values as nodes, uses as edges. Deterministic.
std::string to_dot(const Program& program);

/// An SVG document that draws the chosen ops in layers, ops from above to below, coloured by phase; values that they
/// read from outside have round corners. What stands behind a box shows where the mouse rests. Deterministic.
std::string to_svg(const Program& program, const ModuleText& what = {});

/// The ops of one module for people: a heading per recorded op, states by name, results that are read once by the next
/// element-wise op written inside it. Views are shown by their sizes alone: to_text(program) says everything.
std::string module_text(const Program& program, const ModuleText& what);

/// The modules that ops came from, sorted, without repetition.
std::vector<std::string> module_names(const Program& program);

/// The version of the text form, in its first line. parse.hpp reads this one alone.
inline constexpr int kTextVersion = 2;  // 2: slots have a type

/// What each line of a composite's body begins with.
inline constexpr std::string_view kBodyLine = "  |";

/// "forward", "backward", "optimizer".
std::string_view phase_name(Phase phase);

/// One op as its line of the text form, with its newline.
std::string to_text(const Program& program, OpId op);

/// "0.5", "7", "slot 3": a scalar as the text form prints it; doubles with all digits needed to read them back.
std::string to_text(const Scalar& scalar);

/// "dims=[1], index=-1": the attributes that the op's kind uses and that are not as they were made; "" for none.
std::string attributes_text(const Op& op);
/// "dims=[1], eps=1e-05": a composite's own attributes; "" for none.
std::string attributes_text(const Composite& composite);
/// The same as of an op, and of an opaque op what it is and its arguments, of a composite its own attributes and its
/// body's number.
std::string attributes_text(const Program& program, const Op& op);

}  // namespace crucible::graph
