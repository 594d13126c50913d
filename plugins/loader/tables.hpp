// The tables of a loaded plugin, copied to full size and checked: what is missing answers "unimplemented" (stubs.hpp).
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "plugins/abi/stubs.hpp"

namespace crucible::backend {

using Tables = abi::Tables;

/// Copies what the plugin behind `api` has. Errors: kBadInput when a mandatory table is missing, or a table says that
/// it is too short to be one or longer than any can be.
Result<Tables> copy_tables(const crucible_plugin_api& api, const std::string& plugin_name);

/// `api` in full size: init and shutdown succeed and do nothing where the plugin lacks them.
crucible_plugin_api copy_api(const crucible_plugin_api* api);

}  // namespace crucible::backend
