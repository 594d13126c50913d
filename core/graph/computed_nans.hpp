// Whose bits a bitcast shows. Which NaN arithmetic makes - its sign, its payload - is the processor's business, so that
// the bits of a computed NaN are its canonical ones wherever a program looks at them. Bits that were only moved - of
// integers, or from outside - are what they are. docs/numerics.md, "NaN", is the contract.
#pragma once

#include "core/graph/program.hpp"

namespace crucible::graph {

/// Bitcasts (bitcast.hpp) of what arithmetic may have made name NaN from now on: those of floats that come from an op
/// that does not merely move its operands, in this iteration or, through states, in one before. A value that also holds
/// bits which the program itself has taken from integers keeps all of its bits: no integer is ever changed. Returns how
/// many bitcasts name NaN.
std::size_t name_computed_nans(Program& program);

}  // namespace crucible::graph
