// The options of this plugin, in one list: what they are called, what they may be, what they mean.
#pragma once

#include "plugins/abi/crucible_plugin.h"

namespace crucible_cpu {

/// One call of the sink per option, as plugin_api.describe_options wants it. Pure: needs no init.
crucible_status describe_options(crucible_kv_sink sink, void* user);

}  // namespace crucible_cpu
