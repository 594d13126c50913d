// Kernels that came out wrong with all optimisation come again: with this line at the end of the prelude. A plugin that
// can compiles them with less; one that cannot may leave it alone, and the host finds them wrong once more and does
// without them.
#pragma once

#include <string_view>

namespace crucible::sdk {

inline bool is_careful(std::string_view prelude) { return prelude.ends_with("\n#define CRUCIBLE_CAREFUL 1\n"); }

}  // namespace crucible::sdk
