// What a plugin says of itself before it is started: identity and the options that it takes. It comes out of the probe
// (in a child process, or from its cached answer), so reading it runs no code of the plugin here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace crucible::backend {

/// One option as the plugin's describe_options tells it.
struct OptionSchema {
  std::string name;
  std::string type;           // bool, u64, str, choice or path
  std::string default_value;  // as text; empty when the plugin gave none
  std::string help;
  std::string env;                        // the variable that sets it, if any
  std::vector<std::string> choices;       // of a choice
  std::optional<std::uint64_t> min, max;  // of a u64
  std::string
      folder;  // "harmless": the file of a folder that nobody vouches for may set it; "needs trust"; "": not said
};

struct PluginFacts {
  std::string name, vendor, version, build_id;
  std::uint32_t abi_major = 0, abi_minor = 0;
  std::vector<OptionSchema> options;  // empty for a plugin of ABI 0.1, which cannot tell
};

}  // namespace crucible::backend
