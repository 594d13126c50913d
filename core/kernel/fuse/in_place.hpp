// Which results may be written over operands, once the order of the steps is known: an operand must not be needed
// again. The scheduler asks when it is done, and whoever changes the order of its steps asks anew.
#pragma once

#include <vector>

#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// Of the pairs that the kernels allow, those whose operand dies in their step; each operand and each result of a step
/// at most once, states that are updated at home first, then the largest. Inputs, constants, outputs and ends of states
/// are never overwritten.
std::vector<InPlace> choose_in_place(const graph::Program& program, const std::vector<Step>& steps,
                                     const std::vector<InPlace>& aliases);

}  // namespace crucible::kernel
