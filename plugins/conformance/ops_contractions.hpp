// Programs of the ops whose operands have rules of their own: indexed ops, products and convolutions, pooling.
#pragma once

#include <vector>

#include "core/graph/op_table.hpp"
#include "plugins/conformance/ops_programs.hpp"

namespace crucible::conformance {

/// Each gives no program for a kind of its class that it does not know; the ops tier then fails and says so.
std::vector<OpsProgram> indexed_programs(const graph::OpInfo& info, const std::vector<DType>& dtypes, bool quick);
/// Takes and puts.
std::vector<OpsProgram> place_programs(const graph::OpInfo& info, const std::vector<DType>& dtypes, bool quick);
std::vector<OpsProgram> contraction_programs(const graph::OpInfo& info, const std::vector<DType>& dtypes, bool quick);
std::vector<OpsProgram> pooling_programs(const graph::OpInfo& info, const std::vector<DType>& dtypes, bool quick);

}  // namespace crucible::conformance
