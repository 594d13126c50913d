// Full-size copies of a plugin's tables. An entry that the plugin does not have, because its table is older and shorter
// or because it left it NULL, becomes a function that answers CRUCIBLE_E_UNIMPLEMENTED; so no caller tests versions.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.hpp"
#include "plugins/abi/crucible_plugin.h"

namespace crucible::backend {

struct Tables {
  crucible_if_device device;
  crucible_if_memory memory;
  crucible_if_compile compile;
  crucible_if_plan plan;
  crucible_if_library library;
};

/// Every table full of "unimplemented".
Tables unimplemented_tables();

/// Copies what the plugin behind `api` has. Errors: kBadInput when a mandatory table is missing or too short to be one.
Result<Tables> copy_tables(const crucible_plugin_api& api, const std::string& plugin_name);

/// `api` in full size: init and shutdown succeed and do nothing where the plugin lacks them.
crucible_plugin_api copy_api(const crucible_plugin_api* api);

}  // namespace crucible::backend
