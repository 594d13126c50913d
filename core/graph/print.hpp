// Machine-readable forms of a program, beside the text of program.hpp: for `crucible graph` and for drawing tools.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/graph/program.hpp"

namespace crucible::graph {

/// One JSON document: values, ops, slots, states, inputs, constants, outputs, iterations. Deterministic.
std::string to_json(const Program& program);

/// A Graphviz digraph: ops and outside values as nodes, uses as edges. Deterministic.
std::string to_dot(const Program& program);

/// Which ops module_text() shows.
struct ModuleText {
  std::string module;          // "blocks.0": its ops and those of the modules inside; "": all
  std::optional<Phase> phase;  // nothing: all phases
};

/// The ops of one module for people: a heading per recorded op, states by name, results that are read once by the next
/// element-wise op written inside it. Views are shown by their sizes alone: to_text(program) says everything.
std::string module_text(const Program& program, const ModuleText& what);

/// The modules that ops came from, sorted, without repetition.
std::vector<std::string> module_names(const Program& program);

/// "0.5", "7", "slot 3": a scalar as the text form prints it; doubles with all digits needed to read them back.
std::string to_text(const Scalar& scalar);

/// "dims=[1], index=-1": the attributes that the op's kind uses and that are not as they were made; "" for none.
std::string attributes_text(const Op& op);
/// The same, and of an opaque op what it is and its arguments.
std::string attributes_text(const Program& program, const Op& op);

}  // namespace crucible::graph
