// The answer to the host's query: the one exported function of a plugin calls this and nothing else.
#pragma once

#include <string_view>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::sdk {

/// Texts with static storage.
struct Identity {
  std::string_view name;                       // as in libcrucible_NAME.so
  std::string_view vendor;                     // who answers for it
  std::string_view version;                    // of the plugin
  std::string_view build_id = {}, needs = {};  // "" or which build this is, and which driver or library it needs
};

/// Fills in `out` and returns 0, or writes why not into reject_reason and returns something else. A host of another
/// minor may have a shorter or longer `out`: no byte behind its struct_size is written. Pure: allocates nothing, reads
/// no environment. Threads: any.
std::int32_t answer_query(const crucible_query_in* in, crucible_query_out* out, const Identity& identity,
                          const crucible_plugin_api* api) noexcept;

}  // namespace crucible::sdk
