// Programs of the ops tier for factorizations of matrices.
#pragma once

#include <vector>

#include "core/graph/op_table.hpp"
#include "plugins/conformance/ops_programs.hpp"

namespace crucible::conformance {

/// f32, and f64 where the device has it.
std::vector<OpsProgram> factor_programs(const graph::OpInfo& info, bool f64, bool quick);

}  // namespace crucible::conformance
