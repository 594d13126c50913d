// Debug layers around a plugin's tables, switched on at run time without a rebuild:
//   validate  misuse by the host is refused before it reaches the plugin, and named: function, argument, object, rule;
//             what the plugin does wrong in the call itself (an exception, an error object without functions) is named
//             too
//   trace     every call with its arguments, result and time, as JSON Lines
//   ledger    what still lives when the plugin is stopped, by kind and by the call that made it
// The wrapped functions are generated from abi.toml. Layers cost a mutex or two per call; without them there is no
// cost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/abi/stubs.hpp"

namespace crucible::layers {

struct Options {
  bool validate = false, trace = false, ledger = false;
  std::string plugin;  // its name, for the texts
  /// Gets each line of the trace, without a newline. Threads: any, one call at a time.
  std::function<void(std::string_view line)> write_trace;
  /// Gets each misuse and leak in words. Threads: any, one call at a time.
  std::function<void(std::string_view text)> report;

  bool any() const { return validate || trace || ledger; }
};

/// How many plugins can be wrapped at once.
inline constexpr int kSlots = 8;

/// Wraps the full-size `tables` in place. Returns a slot for unwrap(), or -1 when all slots are taken: nothing is
/// wrapped. Threads: any.
int wrap(abi::Tables& tables, const Options& options);

/// Ends what wrap() began, when the plugin was stopped: reports leaks where the ledger is on, returns how many objects
/// still lived. The wrapped tables must not be used any more. Threads: any.
std::uint64_t unwrap(int slot);

}  // namespace crucible::layers
