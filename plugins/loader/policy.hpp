// What the user has decided about plugins before any is loaded: where to look, whom to trust, how long a probe may
// take. Values only; frontends fill it from configuration, the loader obeys it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace crucible::store {
class Store;
}

namespace crucible::backend {

/// off: owner and mode are not looked at. warn: a violation is told and the plugin is loaded. enforce: it is refused.
enum class TrustPolicy : std::uint8_t { kOff, kWarn, kEnforce };

struct LoadPolicy {
  std::vector<std::filesystem::path> folders;    // searched after CRUCIBLE_PLUGIN_PATH, before all others; absolute
  std::vector<std::string> allow, deny;          // plugin names; an empty allow list allows all; deny wins
  std::map<std::string, std::string> pins;       // plugin name -> SHA-256 of its file, 64 hexadecimal digits
  std::map<std::string, std::string> pinned_by;  // plugin name -> who said its pin, for messages: a file and its line
  TrustPolicy trust = TrustPolicy::kWarn;
  bool probe = true;  // ask the plugin in a child process before it is loaded here
  std::chrono::milliseconds probe_time_limit{5000};
  std::uint64_t probe_memory_bytes = std::uint64_t{8} << 30;
  std::filesystem::path cache_folder;  // of probe results; empty: $XDG_CACHE_HOME/crucible or ~/.cache/crucible
  std::vector<std::string> layers;     // of "validate", "trace", "ledger": wrapped around every plugin
  std::filesystem::path trace_file;    // where the layer "trace" writes; empty: standard error
  std::shared_ptr<store::Store> store;  // where plugins keep what they compiled; null: nowhere
};

}  // namespace crucible::backend
