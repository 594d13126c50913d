// Asking a plugin who it is, and checking all that it answers before a pointer of it is followed. The same code runs in
// the probe, where a lie ends the probe, and in the host, which runs it only after the probe has passed.
#pragma once

#include <filesystem>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/abi/crucible_plugin.h"
#include "plugins/loader/facts.hpp"
#include "plugins/loader/tables.hpp"

namespace crucible::backend {

struct QueryAnswer {
  PluginFacts facts;  // without the options
  crucible_plugin_api api{};
};

/// Calls the query and checks the answer. An exception that it throws is an error.
/// Errors: kBadInput when the answer is nonsense, kUnavailable when the plugin refuses or has another major version.
Result<QueryAnswer> ask(crucible_plugin_query_fn query, const std::filesystem::path& path);

/// Checks the place and the size of every table, then copies them in full size.
/// Errors: kBadInput for a table that cannot be one and for a mandatory one that is missing.
Result<Tables> take_tables(const QueryAnswer& answer, const std::filesystem::path& path);

/// The options that the plugin takes; empty when it cannot tell. Errors: kBadInput, or the plugin's own error.
Result<std::vector<OptionSchema>> ask_options(const QueryAnswer& answer, const std::filesystem::path& path);

}  // namespace crucible::backend
