// Which ops become one kernel: groups of nests joined while it is legal (no path leaves a group and returns to it) and
// worth it, and an order of execution. Ops that are no nests (contractions, pooling, scatter, ...) stand alone.
#pragma once

#include <vector>

#include "core/kernel/nest.hpp"

namespace crucible::kernel {

/// One unit of execution: a group of nests, or a single op of another kind (group without members).
struct Unit {
  std::vector<graph::OpId> ops;  // ascending
  Group group;
};

/// Units in an order that respects definitions before uses. With `fuse` false each op is a unit, in program order.
std::vector<Unit> make_units(const graph::Program& program, bool fuse);

}  // namespace crucible::kernel
