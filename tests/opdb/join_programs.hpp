// Several programs as one, so that a plugin compiles and runs them together.
#pragma once

#include "core/graph/program.hpp"

namespace crucible::opdb {

/// Adds everything of `part` to `whole`: values, ops, sources, slots and what crosses the edge, renumbered. Both count
/// the same iterations, or `whole` is empty.
void append(graph::Program& whole, const graph::Program& part);

}  // namespace crucible::opdb
