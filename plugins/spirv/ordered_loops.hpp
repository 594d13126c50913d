// A module for a processor whose compiler does not keep its word: Intel's OpenCL driver for processors (2026.2) makes
// vectors of loops that sum floats, in another order, although SPIR-V without fast-math flags forbids it and has no
// word against it (OpenCL C has a pragma); and it takes a control barrier of a sub-group for one of the whole group,
// which the group's other sub-groups need not reach: their results are left out.
#pragma once

#include "plugins/spirv/spirv_module.hpp"

namespace crucible::spirv {

/// The module with a volatile read of a variable of its own in the head of each loop: no compiler makes vectors of such
/// loops. Barriers of sub-groups are calls of sub_group_barrier(), which OpenCL C has and the driver takes for what it
/// is. Graphics processors run items side by side and keep loops as they are, so they get modules without any of it.
/// `module` is a valid one.
Words with_ordered_loops(const Words& module);

}  // namespace crucible::spirv
