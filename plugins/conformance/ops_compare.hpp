// How far a result may be from the reference's.
#pragma once

#include <string>

#include "core/graph/reference_numbers.hpp"
#include "plugins/conformance/ops_programs.hpp"

namespace crucible::conformance {

/// "" when `got` is as near to `want` as the program's op must be, else which element differs and by how much.
/// `flushed` is what the reference gives when subnormal operands count as zeros: a device may do that.
std::string difference(const OpsProgram& program, graph::ValueId value, const graph::Bytes& got,
                       const graph::Bytes& want, const graph::Bytes& flushed);

/// The distance between neighbours of `dtype` at `value`.
double spacing(DType dtype, double value);

}  // namespace crucible::conformance
