// How much freedom the kernels of a program have. The orders of strict sums are in docs/numerics.md; nest.hpp carries
// them.
#pragma once

#include <cstdint>

namespace crucible::kernel {

enum class Numerics : std::uint8_t {
  kFast,    // libraries may take over, and sums run in the order that is fastest here: equal within a tolerance
  kStrict,  // each sum in the order that its logical shape names, no libraries: equal bits on every device that rounds
            // correctly
};

}  // namespace crucible::kernel
