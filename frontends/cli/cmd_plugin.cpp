// `crucible plugin`: what there is to do with backend plugins; each subcommand has a file of its own.
#include "frontends/cli/command.hpp"

namespace crucible::cli {

void add_plugin(Commands& commands) {
  CLI::App* plugin = add_subcommand(commands.app, "plugin", "About backend plugins.", "crucible plugin list");
  plugin->require_subcommand(1);
  add_plugin_explain(commands, *plugin);
  add_plugin_check(commands, *plugin);
  add_plugin_list(commands, *plugin);
  add_plugin_new(commands, *plugin);
}

}  // namespace crucible::cli
