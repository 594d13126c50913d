// The one table of switches, each with whether the file of somebody else's folder may set it: flags, variables and
// docs/configuration.md follow it.
#include <algorithm>
#include <utility>

#include "frontends/config/key.hpp"

namespace crucible::config {

const std::vector<Key>& known_keys() {
  static const std::vector<Key> keys = {
      {.name = "backend",
       .built_in = "cpu",
       .variable = "CRUCIBLE_BACKEND",
       .help = "the plugin that runs it, or auto",
       .from_folder = FromFolder::kHarmless},
      {.name = "device",
       .variable = "CRUCIBLE_DEVICE",
       .help = "PLUGIN:INDEX, uuid:... or pci:...; empty: the first",
       .from_folder = FromFolder::kHarmless},
      {.name = "fallback",
       .type = Type::kChoice,
       .variable = "CRUCIBLE_FALLBACK",
       .help = "what happens when the backend or an op on it cannot be used",
       .choices = {"forbid", "warn", "allow"},
       .from_folder = FromFolder::kHarmless},
      {.name = "fallback_devices",
       .type = Type::kTextList,
       .variable = "CRUCIBLE_FALLBACK_DEVICES",
       .help = "who goes on when a device is lost, behind the others of its plugin; empty: as auto would choose",
       .from_folder = FromFolder::kHarmless},
      {.name = "checkpoint_every",
       .type = Type::kInteger,
       .built_in = "1",
       .variable = "CRUCIBLE_CHECKPOINT_EVERY",
       .help = "iterations between two readings of the states, for a device that takes over; 0: none",
       .max = 1000000,
       .from_folder = FromFolder::kHarmless},
      {.name = "numerics",
       .type = Type::kChoice,
       .built_in = "fast",
       .variable = "CRUCIBLE_NUMERICS",
       .help = "fast: vendors' libraries, sums in any order; strict: the same bits on every backend",
       .choices = {"fast", "strict"},
       .from_folder = FromFolder::kHarmless},
      {.name = "kernel_trial",
       .type = Type::kBool,
       .built_in = "true",
       .variable = "CRUCIBLE_KERNEL_TRIAL",
       .help = "try each compiled kernel once against the interpreter of its text before it is used",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "store.folder",
       .type = Type::kPath,
       .variable = "CRUCIBLE_STORE_DIR",
       .help =
           "where compiled kernels, verdicts and choices are kept; empty: crucible/store in the user's cache folder",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "store.enabled",
       .type = Type::kBool,
       .built_in = "true",
       .variable = "CRUCIBLE_STORE_ENABLED",
       .help = "whether anything is kept there",
       .from_folder = FromFolder::kHarmless},
      {.name = "sandbox.mode",
       .type = Type::kChoice,
       .built_in = "auto",
       .variable = "CRUCIBLE_SANDBOX",
       .help = "whether files are replayed in a process that may do little; auto: those that were not recorded here, "
               "on cpu and reference",
       .choices = {"auto", "on", "off"},
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "sandbox.seconds",
       .type = Type::kInteger,
       .built_in = "3600",
       .variable = "CRUCIBLE_SANDBOX_SECONDS",
       .help = "how long that process may take",
       .min = 1,
       .max = 1000000000,
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "sandbox.memory_bytes",
       .type = Type::kInteger,
       .built_in = "0",
       .variable = "CRUCIBLE_SANDBOX_MEMORY_BYTES",
       .help = "addresses that it may have, 1 GiB at least; 0: memory and swap of the machine, and 4 GiB",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "store.remote",
       .type = Type::kTextList,
       .variable = "CRUCIBLE_STORE_REMOTE",
       .help =
           "servers that are asked for what the store lacks, in this order: http://, https:// or s3:// (docs/store.md)",
       .from_folder = FromFolder::kNeedsTrust,
       .names_server = true},
      {.name = "store.remote_trust",
       .type = Type::kChoice,
       .built_in = "enforce",
       .variable = "CRUCIBLE_STORE_REMOTE_TRUST",
       .help = "what is done about their entries that no key of store.keys signed",
       .choices = {"enforce", "warn", "off"},
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "store.keys",
       .type = Type::kPathList,
       .variable = "CRUCIBLE_STORE_KEYS",
       .help = "public Ed25519 keys (PEM) whose entries of a server are believed",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "store.sign",
       .type = Type::kPath,
       .variable = "CRUCIBLE_STORE_SIGN",
       .help = "the secret Ed25519 key (PEM) that signs what is kept and written to a server; empty: nothing is signed",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "store.remote_write",
       .type = Type::kBool,
       .built_in = "false",
       .variable = "CRUCIBLE_STORE_REMOTE_WRITE",
       .help = "write what is kept here to the servers too",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "store.remote_timeout_ms",
       .type = Type::kInteger,
       .built_in = "10000",
       .variable = "CRUCIBLE_STORE_REMOTE_TIMEOUT_MS",
       .help = "milliseconds until a request to a server is given up; of more than 1 MiB later by 4 ms a KiB",
       .min = 1,
       .max = 3600000,
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "store.ca_file",
       .type = Type::kPath,
       .variable = "CRUCIBLE_STORE_CA_FILE",
       .help = "who may sign the servers' certificates (PEM); empty: the system's list",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "store.remote_auth_file",
       .type = Type::kPath,
       .variable = "CRUCIBLE_STORE_REMOTE_AUTH_FILE",
       .help = "a file that only you can read with USER:PASSWORD or 'Bearer TOKEN' for the servers",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "plugins.folders",
       .type = Type::kPathList,
       .variable = "CRUCIBLE_PLUGIN_PATH",
       .help = "where plugins are looked for first",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "plugins.allow",
       .type = Type::kTextList,
       .help = "the only plugins that may be loaded; empty: all",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "plugins.deny",
       .type = Type::kTextList,
       .help = "plugins that may not be loaded",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "plugins.trust",
       .type = Type::kChoice,
       .built_in = "warn",
       .variable = "CRUCIBLE_TRUST",
       .help = "what happens to files that somebody else can change",
       .choices = {"off", "warn", "enforce"},
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "plugins.pins.*",
       .type = Type::kDigest,
       .help = "the SHA-256 that the plugin's file must have",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "plugins.probe",
       .type = Type::kBool,
       .built_in = "true",
       .variable = "CRUCIBLE_PROBE",
       .help = "ask each plugin in a child process before it is loaded",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "plugins.probe_time_limit_ms",
       .type = Type::kInteger,
       .built_in = "5000",
       .variable = "CRUCIBLE_PROBE_TIME_LIMIT_MS",
       .help = "milliseconds until a probe is given up",
       .min = 1,
       .max = 3600000,
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "plugins.layers",
       .type = Type::kTextList,
       .variable = "CRUCIBLE_LAYERS",
       .help = "debug layers around every plugin",
       .choices = {"validate", "trace", "ledger"},
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "plugins.trace_file",
       .type = Type::kPath,
       .variable = "CRUCIBLE_TRACE_FILE",
       .help = "where the layer trace writes; empty: standard error",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "plugins.decisions",
       .type = Type::kPath,
       .variable = "CRUCIBLE_DECISIONS",
       .help = "a file that gets the loader's decisions as JSON Lines",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "device_profile.*.memory_bytes",
       .type = Type::kInteger,
       .help = "memory of one device, for crucible plan --device-profile",
       .min = 1,
       .from_folder = FromFolder::kHarmless},
      {.name = "device_profile.*.reserved_bytes",
       .type = Type::kInteger,
       .help = "what driver and context take of it",
       .from_folder = FromFolder::kHarmless},
      {.name = "device_profile.*.memory_bytes_per_second",
       .type = Type::kInteger,
       .help = "bandwidth of its memory",
       .from_folder = FromFolder::kHarmless},
      {.name = "device_profile.*.f32_flops_per_second",
       .type = Type::kInteger,
       .help = "peak of its vector units",
       .from_folder = FromFolder::kHarmless},
      {.name = "device_profile.*.host_link_bytes_per_second",
       .type = Type::kInteger,
       .help = "to the host, one direction",
       .from_folder = FromFolder::kHarmless},
      {.name = "device_profile.*.source", .help = "where the numbers are from", .from_folder = FromFolder::kHarmless},
  };
  return keys;
}

std::string_view from_folder_name(FromFolder from_folder) {
  switch (from_folder) {
    case FromFolder::kUndecided:
      return "undecided";
    case FromFolder::kHarmless:
      return "harmless";
    case FromFolder::kNeedsTrust:
      return "needs trust";
  }
  return "";
}

namespace {

/// The pattern's words around its one "*".
std::pair<std::string_view, std::string_view> around_star(std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  return {pattern.substr(0, star), pattern.substr(star + 1)};
}

/// What of `name` the star stands for; "" when `name` is not of that pattern.
std::string_view under_star(std::string_view pattern, std::string_view name) {
  const auto [before, after] = around_star(pattern);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) return {};
  return name.substr(before.size(), name.size() - before.size() - after.size());
}

}  // namespace

const Key* find_key(std::string_view name) {
  const auto matches = [&](const Key& key) {
    return key.name.find('*') == std::string::npos ? key.name == name : !under_star(key.name, name).empty();
  };
  const auto found = std::ranges::find_if(known_keys(), matches);
  return found == known_keys().end() ? nullptr : &*found;
}

std::vector<std::string> names_of(const std::vector<Key>& keys) {
  std::vector<std::string> names;
  for (const Key& key : keys) {
    if (key.name.find('*') == std::string::npos) names.push_back(key.name);
  }
  return names;
}

std::vector<std::string> names_beside(std::string_view name) {
  const std::size_t last = name.rfind('.');
  if (last == std::string_view::npos) return {};
  std::vector<std::string> beside;
  for (const Key& key : known_keys()) {
    const std::size_t dot = key.name.rfind('.');
    if (dot == std::string::npos || key.name.ends_with('*')) continue;
    const std::string_view table = std::string_view(key.name).substr(0, dot + 1);
    const bool is_same = table.find('*') == std::string_view::npos
                             ? name.starts_with(table) && last == dot
                             : !under_star(table, name.substr(0, last + 1)).empty();
    if (is_same) beside.push_back(key.name.substr(dot + 1));
  }
  return beside;
}

}  // namespace crucible::config
