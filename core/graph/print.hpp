// Machine-readable forms of a program, beside the text of program.hpp: for `crucible graph` and for drawing tools.
#pragma once

#include <string>

#include "core/graph/program.hpp"

namespace crucible::graph {

/// One JSON document: values, ops, slots, states, inputs, constants, outputs, iterations. Deterministic.
std::string to_json(const Program& program);

/// A Graphviz digraph: ops and outside values as nodes, uses as edges. Deterministic.
std::string to_dot(const Program& program);

/// "0.5", "7", "slot 3": a scalar as the text form prints it; doubles with all digits needed to read them back.
std::string to_text(const Scalar& scalar);

/// "dims=[1], index=-1": the attributes that the op's kind uses and that are not as they were made; "" for none.
std::string attributes_text(const Op& op);

}  // namespace crucible::graph
