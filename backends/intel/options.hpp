// The options of this plugin.
#pragma once

#include "plugins/sdk/options.hpp"

namespace crucible_intel {

const crucible::sdk::Options& options();  // options.cpp

}  // namespace crucible_intel
