// Programs of the ops that work along one dimension: places of extrema, running sums and extrema, sorting.
#pragma once

#include <vector>

#include "core/graph/op_table.hpp"
#include "plugins/conformance/ops_programs.hpp"

namespace crucible::conformance {

/// Lines of odd lengths in every direction, of one element and of none; equal elements; NaN and infinities in lines.
/// `dtypes` holds bool, which only some of the kinds take.
std::vector<OpsProgram> along_programs(const graph::OpInfo& info, const std::vector<DType>& dtypes, bool quick);

}  // namespace crucible::conformance
