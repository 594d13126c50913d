// Test support: programs of equal parts, one after the other, for what is found out once and stamped out.
#pragma once

#include <cstddef>

#include "core/graph/random_program.hpp"

namespace crucible::scale {

/// The program `times` over, with states, inputs and outputs for each. Where `is_chain`, floats that one part makes are
/// what the next one has for inputs of their dtype and size, as layers hand them on.
graph::RandomProgram repeated(const graph::RandomProgram& part, std::size_t times, bool is_chain);

}  // namespace crucible::scale
