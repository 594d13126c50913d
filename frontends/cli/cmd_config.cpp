// `crucible config`: the effective configuration as a table or as JSON, and with --explain where each value came from
// and what it overrode. A configuration with mistakes is shown as far as it goes, and the exit code says so.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "frontends/cli/command.hpp"
#include "frontends/cli/open_device.hpp"
#include "frontends/cli/plugin_access.hpp"

namespace crucible::cli {
namespace {

using nlohmann::ordered_json;

struct ConfigOptions {
  DeviceChoice choice;
  bool json = false;
};

ordered_json json_of(const config::Value& value) {
  struct Writer {
    ordered_json operator()(bool flag) const { return flag; }
    ordered_json operator()(std::int64_t number) const { return number; }
    ordered_json operator()(const std::string& text) const { return text; }
    ordered_json operator()(const config::List& list) const { return list; }
    ordered_json operator()(const config::Foreign& foreign) const { return foreign.what; }
  };
  return std::visit(Writer{}, value);
}

ordered_json json_of(const config::Origin& origin) {
  ordered_json json = {{"layer", config::layer_name(origin.layer)}};
  if (!origin.where.empty()) json["where"] = origin.where;
  if (origin.line != 0) json["line"] = origin.line, json["column"] = origin.column;
  return json;
}

ordered_json to_json(const config::Settings& settings) {
  ordered_json document = {{"values", ordered_json::array()}};
  for (const auto& [key, setting] : settings.all()) {
    ordered_json row = {{"key", key}, {"value", json_of(setting.value)}, {"origin", json_of(setting.origin)}};
    row["overridden"] = ordered_json::array();
    for (const config::Entry& entry : setting.overridden) {
      row["overridden"].push_back({{"value", json_of(entry.value)}, {"origin", json_of(entry.origin)}});
    }
    document["values"].push_back(std::move(row));
  }
  document["files"] = ordered_json::array();
  for (const config::ConfigFile& file : settings.files()) {
    document["files"].push_back({{"layer", config::layer_name(file.layer)}, {"path", file.path.string()}});
  }
  document["problems"] = ordered_json::array();
  for (const config::Problem& problem : settings.problems()) {
    document["problems"].push_back({{"origin", json_of(problem.origin)}, {"reason", problem.message}});
  }
  document["warnings"] = settings.warnings();
  return document;
}

std::string to_table(const config::Settings& settings, bool explain) {
  std::vector<std::vector<std::string>> rows = {{"key", "value"}};
  if (explain) rows[0].insert(rows[0].end(), {"from", "overrides"});
  for (const auto& [key, setting] : settings.all()) {
    const std::string value = config::to_text(setting.value);
    rows.push_back({key, value.empty() ? "-" : value});
    if (!explain) continue;
    std::string overridden;
    for (const config::Entry& entry : setting.overridden) {
      const std::string weaker = config::to_text(entry.value);
      overridden +=
          fmt::format("{}{} ({})", overridden.empty() ? "" : "; ", weaker.empty() ? "-" : weaker, entry.origin.text());
    }
    rows.back().insert(rows.back().end(), {setting.origin.text(), overridden});
  }
  return format_table(rows);
}

Result<int> run(const ConfigOptions& options) {
  config::Settings settings = load_unchecked_settings(options.choice);
  for (const std::string& plugin : settings.plugins_with_options()) {
    // Without its schema nothing is known to be wrong: say that nobody looked, rather than that all is well.
    if (!settings.may_ask_plugins()) break;
    const bool is_there = plugin_facts(settings, plugin).has_value();
    settle_options(settings, plugin);
    if (!is_there) fmt::print(stderr, "crucible: note: options of {} are not checked: it cannot be asked\n", plugin);
  }
  for (const std::string& warning : settings.warnings()) fmt::print(stderr, "crucible: warning: {}\n", warning);
  if (options.json) {
    print_json(to_json(settings));
  } else {
    fmt::print("{}", to_table(settings, options.choice.explain));
  }
  CRUCIBLE_TRY_VOID(settings.check());
  return 0;
}

}  // namespace

void add_config(Commands& commands) {
  auto options = std::make_shared<ConfigOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_subcommand(commands.app, "config", "The effective configuration and where it comes from.",
                                     "crucible config --explain --set backend.cpu.threads=2");
  add_device_switches(*command, options->choice);
  command->get_option("--explain")->description("Also where each value came from and what it overrode");
  command->add_flag("--json", options->json, "One JSON document on standard output");
  command->callback([&commands, options] { commands.run = [options] { return run(*options); }; });
}

}  // namespace crucible::cli
