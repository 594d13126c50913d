// The one table of switches: flags, variables and docs/configuration.md follow it.
#include <algorithm>

#include "frontends/config/key.hpp"

namespace crucible::config {

const std::vector<Key>& known_keys() {
  static const std::vector<Key> keys = {
      {.name = "backend",
       .built_in = "cpu",
       .variable = "CRUCIBLE_BACKEND",
       .help = "the plugin that runs it, or auto"},
      {.name = "device", .variable = "CRUCIBLE_DEVICE", .help = "PLUGIN:INDEX, uuid:... or pci:...; empty: the first"},
      {.name = "fallback",
       .type = Type::kChoice,
       .variable = "CRUCIBLE_FALLBACK",
       .help = "what happens when the backend or an op on it cannot be used",
       .choices = {"forbid", "warn", "allow"}},
      {.name = "numerics",
       .type = Type::kChoice,
       .built_in = "fast",
       .variable = "CRUCIBLE_NUMERICS",
       .help = "fast: vendors' libraries; strict: the same bits everywhere",
       .choices = {"fast", "strict"}},
      {.name = "plugins.folders",
       .type = Type::kPathList,
       .variable = "CRUCIBLE_PLUGIN_PATH",
       .help = "where plugins are looked for first"},
      {.name = "plugins.allow", .type = Type::kTextList, .help = "the only plugins that may be loaded; empty: all"},
      {.name = "plugins.deny", .type = Type::kTextList, .help = "plugins that may not be loaded"},
      {.name = "plugins.trust",
       .type = Type::kChoice,
       .built_in = "warn",
       .variable = "CRUCIBLE_TRUST",
       .help = "what happens to files that somebody else can change",
       .choices = {"off", "warn", "enforce"}},
      {.name = "plugins.pins.*", .type = Type::kDigest, .help = "the SHA-256 that the plugin's file must have"},
      {.name = "plugins.probe",
       .type = Type::kBool,
       .built_in = "true",
       .variable = "CRUCIBLE_PROBE",
       .help = "ask each plugin in a child process before it is loaded"},
      {.name = "plugins.probe_time_limit_ms",
       .type = Type::kInteger,
       .built_in = "5000",
       .variable = "CRUCIBLE_PROBE_TIME_LIMIT_MS",
       .help = "milliseconds until a probe is given up",
       .min = 1,
       .max = 3600000},
      {.name = "plugins.layers",
       .type = Type::kTextList,
       .variable = "CRUCIBLE_LAYERS",
       .help = "debug layers around every plugin",
       .choices = {"validate", "trace", "ledger"}},
      {.name = "plugins.trace_file",
       .type = Type::kPath,
       .variable = "CRUCIBLE_TRACE_FILE",
       .help = "where the layer trace writes; empty: standard error"},
      {.name = "plugins.decisions",
       .type = Type::kPath,
       .variable = "CRUCIBLE_DECISIONS",
       .help = "a file that gets the loader's decisions as JSON Lines"},
  };
  return keys;
}

const Key* find_key(std::string_view name) {
  const auto matches = [&](const Key& key) {
    if (!key.name.ends_with(".*")) return key.name == name;
    const std::size_t stem = key.name.size() - 1;
    return name.size() > stem && name.substr(0, stem) == std::string_view(key.name).substr(0, stem);
  };
  const auto found = std::ranges::find_if(known_keys(), matches);
  return found == known_keys().end() ? nullptr : &*found;
}

std::vector<std::string> names_of(const std::vector<Key>& keys) {
  std::vector<std::string> names;
  for (const Key& key : keys) {
    if (!key.name.ends_with('*')) names.push_back(key.name);
  }
  return names;
}

}  // namespace crucible::config
