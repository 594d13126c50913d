// Which kernels a compiler's words are about, where it is given many of them at once.
#pragma once

#include <string>
#include <vector>

#include "plugins/sdk/error.hpp"

namespace crucible::sdk {

/// The same failure with the kernels among `names` that its words mention, as its payload "kernel": "k1, k2". A name
/// counts where no letter, digit or underscore follows it.
Failure naming_kernels(const Failure& failure, const std::vector<std::string>& names);

}  // namespace crucible::sdk
