// `crucible plugin options NAME`: what a plugin takes under backend.NAME, as it tells it in the probe; it is not
// started.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "core/base/terminal.hpp"
#include "frontends/cli/plugin_command.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/config/load_policy.hpp"
#include "frontends/replay/open_device.hpp"
#include "plugins/loader/examine.hpp"

namespace crucible::cli {
namespace {

using backend::OptionSchema;
using nlohmann::ordered_json;

/// "1 to 16", "yes or no", "one of auto, none".
std::string values_of(const OptionSchema& option) {
  if (!option.choices.empty()) return fmt::format("one of {}", fmt::join(option.choices, ", "));
  if (option.type == "bool") return "true or false";
  if (option.type == "path") return "a path or a program";
  if (option.type != "u64") return "text";
  if (!option.max || *option.max == UINT64_MAX) return fmt::format("a whole number from {}", option.min.value_or(0));
  return fmt::format("a whole number, {} to {}", option.min.value_or(0), *option.max);
}

ordered_json to_json(const OptionSchema& option) {
  ordered_json row = {{"name", option.name},       {"type", option.type},      {"default", option.default_value},
                      {"choices", option.choices}, {"help", option.help},      {"variable", option.env},
                      {"folder", option.folder},   {"min", ordered_json()},    {"max", ordered_json()}};
  if (option.min) row["min"] = *option.min;
  if (option.max) row["max"] = *option.max;
  return row;
}

void print_words(const std::string& name, const std::vector<OptionSchema>& options) {
  if (options.empty()) print_out("{} has no options\n", name);
  for (const OptionSchema& option : options) {
    print_out("backend.{}.{}: {}\n", name, option.name, values_of(option));
    print_out("    {}\n", option.help.empty() ? "The plugin gives no help." : option.help);
    if (!option.default_value.empty()) print_out("    default: {}\n", option.default_value);
    if (!option.env.empty()) print_out("    variable: {}\n", option.env);
  }
}

}  // namespace

Result<int> run_plugin_options(const std::string& name, bool json) {
  CRUCIBLE_TRY(const config::Settings settings, load_settings({}, terminal()));
  const backend::LoadPolicy policy = config::load_policy(settings);
  backend::DecisionLog& log = backend::process_log();
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".so");
  auto candidate = is_path ? Result<backend::Candidate>(backend::explicit_candidate(std::filesystem::absolute(name)))
                           : backend::find_candidate(name, policy, log);
  if (!candidate) return candidate.error();
  CRUCIBLE_TRY(const backend::Examined examined, backend::examine_candidate(*candidate, policy, log));
  const backend::PluginFacts& facts = examined.facts;
  if (!examined.probed) {
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("plugin {} was not probed, so its options are not known: allow the probe (key plugins.probe)",
                    name)};
  }
  if (!json) {
    print_words(facts.name, facts.options);
    return 0;
  }
  ordered_json document = {{"plugin", facts.name}, {"options", ordered_json::array()}};
  for (const OptionSchema& option : facts.options) document["options"].push_back(to_json(option));
  print_json(document);
  return 0;
}

}  // namespace crucible::cli
