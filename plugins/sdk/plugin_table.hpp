// The plugin's first table: start and stop, options, and the interface tables by number. A plugin names its tables
// once, as a constexpr array of PluginTable, and gives make_plugin_table<...>() to answer_query().
#pragma once

#include <cstdint>
#include <type_traits>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/options.hpp"
#include "plugins/sdk/query.hpp"

namespace crucible::sdk {

struct PluginTable {
  std::uint32_t id;  // CRUCIBLE_IF_
  const void* table;
};

inline void do_nothing() {}

/// `tables` is the array; `options` the plugin's Options, or a function that gives them; `start` is called when the
/// host has been set, `stop` while it is still there; what they throw is the answer.
template <const auto& tables, const auto& options, void (*start)() = do_nothing, void (*stop)() = do_nothing>
struct PluginFunctions {
  static crucible_status init(const crucible_host_api* host) {
    return guard([&] {
      require(host != nullptr, "init: the host's table is missing");
      set_host(host);
      start();
    });
  }
  static crucible_status shutdown() {
    return guard([] {
      stop();
      set_host(nullptr);
    });
  }
  /// Null for a number that the plugin has nothing for: an open set, a newer host may ask for more.
  static const void* interface_table(std::uint32_t id) {
    for (const PluginTable& entry : tables) {
      if (entry.id == id) return entry.table;
    }
    return nullptr;
  }
  static crucible_status describe_options(crucible_kv_sink sink, void* user) {
    if constexpr (std::is_invocable_v<decltype(options)>) {
      return options().describe(sink, user);
    } else {
      return options.describe(sink, user);
    }
  }
};

template <const auto& tables, const auto& options, void (*start)() = do_nothing, void (*stop)() = do_nothing>
constexpr crucible_plugin_api make_plugin_table() {
  using Functions = PluginFunctions<tables, options, start, stop>;
  return {sizeof(crucible_plugin_api), CRUCIBLE_ABI_MINOR,         Functions::init,
          Functions::shutdown,         Functions::interface_table, Functions::describe_options};
}

}  // namespace crucible::sdk
