// The subcommands of `crucible plugin` without the command line: what they are told, and what they do.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {

struct PluginCheckSwitches {
  std::string path, tiers, filter, device, junit, certificate, key, make_key, exclude;
  std::vector<std::string> options;
  bool quick = false, json = false, list = false;
  unsigned jobs = 0;
  double time_factor = 1;
};

struct NewPlugin {
  std::string name, dialect = "c", memory = "host", folder;
  bool force = false, json = false;
};

// What each does: its words, and its exit code. One per file cmd_plugin_NAME.cpp.
Result<int> run_plugin_explain(const std::string& name, bool json, const std::string& decisions_file);
Result<int> run_plugin_check(const PluginCheckSwitches& switches);
Result<int> run_plugin_list(bool json, bool ask, const std::string& decisions);
Result<int> run_plugin_options(const std::string& name, bool json);
Result<int> run_plugin_new(const NewPlugin& arguments);
/// One case of the kit, in the process that `check` started for it.
Result<int> run_plugin_check_case(const std::string& task);

}  // namespace crucible::cli
