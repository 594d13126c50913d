// `crucible config`: the effective configuration as a table or as JSON, and with --explain where each value came from,
// whose word that is and what it overrode. A configuration with mistakes is shown as far as it goes, and the exit code
// says so. Nothing is loaded or run: options are checked by what earlier probes kept, unless --probe asks the plugins.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/terminal.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/config_trust.hpp"
#include "frontends/cli/switches.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/plugin_access.hpp"

namespace crucible::cli {
namespace {

using nlohmann::ordered_json;

struct ConfigOptions {
  DeviceChoice choice;
  bool json = false, probe = false;
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

ordered_json json_of(const config::Settings& settings, const config::Origin& origin) {
  ordered_json json = {{"layer", config::layer_name(origin.layer)},
                       {"trust", config::standing_name(settings.standing_of(origin))}};
  if (!origin.where.empty()) json["where"] = origin.where;
  if (origin.line != 0) json["line"] = origin.line, json["column"] = origin.column;
  return json;
}

ordered_json to_json(const config::Settings& settings) {
  ordered_json document = {{"values", ordered_json::array()}};
  for (const auto& [key, setting] : settings.all()) {
    ordered_json row = {{"key", key}, {"value", json_of(setting.value)}, {"origin", json_of(settings, setting.origin)}};
    row["overridden"] = ordered_json::array();
    for (const config::Entry& entry : setting.overridden) {
      row["overridden"].push_back({{"value", json_of(entry.value)}, {"origin", json_of(settings, entry.origin)}});
    }
    document["values"].push_back(std::move(row));
  }
  document["files"] = ordered_json::array();
  for (const config::ConfigFile& file : settings.files()) {
    document["files"].push_back({{"layer", config::layer_name(file.layer)}, {"path", file.path.string()},
                                 {"trust", config::standing_name(file.standing)}, {"sha256", file.sha256}});
  }
  document["held_back"] = ordered_json::array();
  for (const config::HeldBack& held : settings.held_back()) {
    document["held_back"].push_back({{"key", held.entry.key}, {"value", json_of(held.entry.value)},
                                     {"origin", json_of(settings, held.entry.origin)}, {"reason", held.reason}});
  }
  document["problems"] = ordered_json::array();
  for (const config::Problem& problem : settings.problems()) {
    document["problems"].push_back({{"origin", json_of(settings, problem.origin)}, {"reason", problem.message}});
  }
  document["warnings"] = settings.warnings();
  return document;
}

std::string to_table(const config::Settings& settings, bool explain) {
  std::vector<std::vector<std::string>> rows = {{"key", "value"}};
  if (explain) rows[0].insert(rows[0].end(), {"from", "trust", "overrides"});
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
    rows.back().insert(
        rows.back().end(),
        {setting.origin.text(), std::string(config::standing_name(settings.standing_of(setting.origin))), overridden});
  }
  std::string text = format_table(rows);
  for (const config::HeldBack& held : settings.held_back()) {
    if (!explain) break;
    text += fmt::format("left out: {} = {} ({}): it {}\n", config::shown(held.entry.key),
                        config::shown(config::to_text(held.entry.value)), config::shown(held.entry.origin.text()),
                        held.reason);
  }
  return text;
}

/// Checks the options of every plugin that has some, and of the one that would be opened, against what is known of it.
void settle_all_options(config::Settings& settings, const ConfigOptions& options) {
  if (!settings.may_ask_plugins()) return;
  const std::vector<std::string> with_options = settings.plugins_with_options();
  std::vector<std::string> plugins = with_options;
  const std::string chosen = chosen_backend(settings);
  const bool has_own = std::ranges::find(with_options, chosen) != with_options.end();
  if (chosen != "auto" && !has_own) plugins.push_back(chosen);
  for (const std::string& plugin : plugins) {
    const bool has_options = plugin != chosen || has_own;
    const auto facts = plugin == kReferenceBackend ? std::nullopt
                       : options.probe             ? plugin_facts(settings, plugin)
                                                   : remembered_facts(settings, plugin);
    settle_known_options(settings, plugin, facts);
    // Without its schema nothing is known to be wrong: say that nobody looked, rather than that all is well.
    if (facts || plugin == kReferenceBackend || !has_options) continue;
    tell("crucible: note: options of {} are not checked: {}\n", plugin,
               options.probe ? "it cannot be asked" : "nothing is remembered of it; --probe asks it");
  }
}

Result<int> run(const ConfigOptions& options) {
  config::Settings settings = read_settings(options.choice);
  settle_all_options(settings, options);
  tell_warnings(settings, terminal());
  if (options.json) {
    print_json(to_json(settings));
  } else {
    print_out("{}", to_table(settings, options.choice.explain));
  }
  CRUCIBLE_TRY_VOID(settings.check());
  return 0;
}

void add_config_trust(Commands& commands, CLI::App& config) {
  auto switches = std::make_shared<TrustSwitches>();  // shared with the callback, which runs after this function
  CLI::App* command =
      add_subcommand(config, "trust", "Lets the crucible.toml of a folder name programs, libraries and files.",
                     "crucible config trust          shows what the file of this folder asks for, and asks\n"
                     "  crucible config trust --list");
  command->add_option("file", switches->file, "The file, or its folder (default: the one that is found from here)");
  command->add_flag("--yes", switches->yes, "Ask nothing");
  auto* const list_flag =
      command->add_flag("--list", switches->list, "The files that are trusted, and what became of them");
  command->add_flag("--remove", switches->remove, "Trust the file no more")->excludes(list_flag);
  command->add_flag("--json", switches->json, "One JSON document on standard output");
  command->callback([&commands, switches] { commands.run = [switches] { return run_config_trust(*switches); }; });
}

}  // namespace

void add_config(Commands& commands) {
  auto options = std::make_shared<ConfigOptions>();  // shared with the callback, which runs after this function
  CLI::App* command = add_subcommand(commands.app, "config", "The effective configuration and where it comes from.",
                                     "crucible config --explain --set backend.cpu.threads=2");
  add_device_switches(*command, options->choice);
  command->get_option("--explain")
      ->description("Also where each value came from, whose word that is and what it overrode");
  command->add_flag("--probe", options->probe, "Check options of plugins by asking them, each in a process of its own");
  command->add_flag("--json", options->json, "One JSON document on standard output");
  command->callback([&commands, options] {
    if (!commands.run) commands.run = [options] { return run(*options); };  // a subcommand has been there before
  });
  add_config_trust(commands, *command);
}

}  // namespace crucible::cli
