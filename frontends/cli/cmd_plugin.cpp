// `crucible plugin`: the command line of its subcommands; what they do is in files of their own, cmd_plugin_NAME.cpp.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "frontends/cli/plugin_command.hpp"

namespace crucible::cli {

namespace {

void add_plugin_explain(Commands& commands, CLI::App& plugin) {
  auto json = std::make_shared<bool>(false);
  auto name = std::make_shared<std::string>();
  auto decisions = std::make_shared<std::string>();
  CLI::App* explain =
      add_subcommand(plugin, "explain", "What the loader decides about a plugin, step by step, and why.",
                     "crucible plugin explain cpu");
  explain->add_option("NAME", *name, "The plugin's name, or the path of its file")->required();
  explain->add_flag("--json", *json, "One JSON document on standard output");
  explain->add_option("--decisions", *decisions, "Append every decision of the loader to this file, as JSON Lines");
  explain->callback([&commands, json, name, decisions] {
    commands.run = [json, name, decisions] { return run_plugin_explain(*name, *json, *decisions); };
  });
}

void add_plugin_check(Commands& commands, CLI::App& plugin) {
  CLI::App* command = add_subcommand(plugin, "check", "Tests whether a plugin conforms; needs nothing but its file.",
                                     "crucible plugin check build/libcrucible_acme.so --junit acme.xml");
  auto switches = std::make_shared<PluginCheckSwitches>();  // shared: the callback outlives this function
  command->add_option("path", switches->path, "the plugin's shared object");
  command->add_option(
      "--tier", switches->tiers,
      "tiers to run, separated by commas: static, negotiation, api, behaviour, claims, stress, faults, old, ops");
  command->add_flag("--quick", switches->quick, "the cheap tiers and samples of the others");
  command->add_option("--filter", switches->filter, "only cases whose name has a match of this regular expression");
  command->add_option("--device", switches->device, "the device's id (default: the first one)");
  command
      ->add_option("--set", switches->options,
                   "an option for the plugin, as option=value; before its variable of the environment")
      ->allow_extra_args(false)
      ->take_all();
  command->add_option("--exclude", switches->exclude,
                      "a JSON file of cases that are expected to fail or to be skipped, with reasons");
  command->add_option("--junit", switches->junit, "also write the results as JUnit XML");
  command->add_option("--certificate", switches->certificate, "also write a signed certificate of the results");
  command->add_option("--key", switches->key, "the private Ed25519 key (PEM) that signs the certificate");
  command->add_option("--make-key", switches->make_key, "make a new private key in this file");
  command->add_option("--jobs", switches->jobs, "cases at once (default: one per core)");
  command
      ->add_option("--time-factor", switches->time_factor,
                   "multiplies every time limit, for slow machines and emulators")
      ->check(CLI::PositiveNumber);
  command->add_flag("--list", switches->list, "list the cases and run none");
  command->add_flag("--json", switches->json, "print one JSON document");
  command->callback([&commands, switches] { commands.run = [switches] { return run_plugin_check(*switches); }; });

  CLI::App* one = plugin.add_subcommand("check-case", "Runs one case; `check` starts it.");
  one->group("");                                   // hidden
  auto argument = std::make_shared<std::string>();  // shared: as above
  one->add_option("task", *argument)->required();
  one->callback([&commands, argument] {
    commands.run = [argument]() -> Result<int> { return run_plugin_check_case(*argument); };
  });
}

void add_plugin_list(Commands& commands, CLI::App& plugin) {
  auto json = std::make_shared<bool>(false);  // shared with the callbacks, which run after this function
  auto no_probe = std::make_shared<bool>(false);
  auto decisions = std::make_shared<std::string>();
  CLI::App* list =
      add_subcommand(plugin, "list", "The plugins in the places that are searched.", "crucible plugin list --json");
  list->add_flag("--json", *json, "One JSON document on standard output");
  list->add_flag("--no-probe", *no_probe, "Ask and start no plugin: what is there, and what earlier probes kept of it");
  list->add_option("--decisions", *decisions, "Append every decision of the loader to this file, as JSON Lines");
  list->callback([&commands, json, no_probe, decisions] {
    commands.run = [json, no_probe, decisions] { return run_plugin_list(*json, !*no_probe, *decisions); };
  });
}

void add_plugin_options(Commands& commands, CLI::App& plugin) {
  auto json = std::make_shared<bool>(false);  // shared with the callback, which runs after this function
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      add_subcommand(plugin, "options", "What may be set of a plugin, with its help.", "crucible plugin options cpu");
  command->add_option("NAME", *name, "The plugin's name, or the path of its file")->required();
  command->add_flag("--json", *json, "One JSON document on standard output");
  command->callback(
      [&commands, json, name] { commands.run = [json, name] { return run_plugin_options(*name, *json); }; });
}

void add_plugin_new(Commands& commands, CLI::App& plugin) {
  auto arguments = std::make_shared<NewPlugin>();
  CLI::App* command =
      add_subcommand(plugin, "new", "Writes the project of a new plugin, to be built outside this tree.",
                     "crucible plugin new acme && cd acme && cmake --preset release && cmake --build --preset release\n"
                     "  crucible plugin new acme --memory handles --dialect opencl");
  command->add_option("NAME", arguments->name, "The plugin's name: small letters, digits and '_'.")->required();
  command->add_option("--dialect", arguments->dialect, "What its kernels are written in: c, opencl, cuda, hip or own.")
      ->capture_default_str();
  command
      ->add_option(
          "--memory", arguments->memory,
          "How its memory is named: host (it is this machine's), pointers (addresses that kernels take) or handles.")
      ->capture_default_str();
  command->add_option("--folder", arguments->folder, "Where to write it; by default a folder of the plugin's name.");
  command->add_flag("--force", arguments->force,
                    "Take a name that a plugin has already; write into a folder that is not empty.");
  command->add_flag("--json", arguments->json, "Print JSON.");
  command->callback([arguments, &commands] { commands.run = [arguments] { return run_plugin_new(*arguments); }; });
}

}  // namespace

void add_plugin(Commands& commands) {
  CLI::App* plugin = add_subcommand(commands.app, "plugin", "About backend plugins.", "crucible plugin list");
  plugin->require_subcommand(1);
  add_plugin_explain(commands, *plugin);
  add_plugin_check(commands, *plugin);
  add_plugin_list(commands, *plugin);
  add_plugin_options(commands, *plugin);
  add_plugin_new(commands, *plugin);
}

}  // namespace crucible::cli
