// The debug layers of plugins/layers, as a policy asks for them: names to switches, lines to a file or to standard
// error.
#pragma once

#include "core/base/result.hpp"
#include "plugins/loader/examine.hpp"
#include "plugins/loader/tables.hpp"

namespace crucible::backend {

/// Wraps `tables` with the layers that the plugin was examined for. Returns the slot for layers::unwrap(), -1 when none
/// is asked for. Errors: kUsage for a layer that there is not; kUnavailable when too many plugins are wrapped, or the
/// trace file cannot be written.
Result<int> wrap_in_layers(Tables& tables, const Examined& plugin);

}  // namespace crucible::backend
