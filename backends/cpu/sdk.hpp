// The SDK's names - Failure, guard, option, log, text_item, ... - as this plugin's own, and its options.
#pragma once

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/options.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_cpu {

using namespace crucible::sdk;

/// What a user may set; options.cpp has the list.
extern const Options kOptions;

}  // namespace crucible_cpu
