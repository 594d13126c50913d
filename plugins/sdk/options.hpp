// Options of a plugin, declared once: the same table describes them to the host (describe_options) and reads and checks
// what the user set.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::sdk {

enum class OptionType : std::uint8_t { kBool, kU64, kText, kChoice, kPath };

/// Whether a crucible.toml that lies in somebody else's folder may set the option. Only a choice among what is there is
/// harmless: a number, a switch, one of some words. What names a file or a program, or reaches a command line, never
/// is.
enum class FromFolder : std::uint8_t { kUndecided, kHarmless, kNeedsTrust };

/// One option; texts with static storage.
struct OptionSpec {
  std::string_view name;
  OptionType type = OptionType::kText;
  std::string_view default_value = {};      // as the user would write it; "" for "the plugin decides"
  std::string_view choices = {};            // kChoice: words separated by one space
  std::uint64_t min = 0, max = UINT64_MAX;  // kU64
  std::string_view help = {};               // one sentence
  std::string_view env = {};                // the variable that the host reads for it, or ""
  FromFolder from_folder = FromFolder::kUndecided;  // not decided: hosts take it as kNeedsTrust
};

class Options {
 public:
  /// Borrows the specs, which have static storage.
  explicit constexpr Options(std::span<const OptionSpec> specs) : specs_(specs) {}

  /// plugin_api.describe_options: one call of the sink per option. Pure.
  crucible_status describe(crucible_kv_sink sink, void* user) const noexcept;

  /// What the user set, else the default. Threads: any.
  /// Errors: UNSUPPORTED naming option, value and what is allowed; INTERNAL for an option that was not declared so.
  bool get_bool(std::string_view name) const;
  std::uint64_t get_u64(std::string_view name) const;
  std::string get_text(std::string_view name) const;  // kText, kChoice (one of the choices) and kPath

  /// True when the user set it or it has a default.
  bool has(std::string_view name) const;

 private:
  std::span<const OptionSpec> specs_;
};

}  // namespace crucible::sdk
