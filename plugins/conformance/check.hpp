// A whole check of one plugin: which cases, their results, the report. `crucible plugin check` is a shell around it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/conformance/exclusions.hpp"
#include "plugins/conformance/result.hpp"
#include "plugins/conformance/runner.hpp"

namespace crucible::conformance {

struct CheckOptions {
  Command command;                 // starts a child: ends in run_child()
  Settings settings;               // plugin, device, options, quick; the folder is made here
  std::vector<std::string> tiers;  // names; empty: all
  std::string filter;              // a regular expression, searched in the names of cases; "": all
  std::vector<Exclusion> exclusions;
  Limits limits;
  unsigned jobs = 1;
  std::function<void(const CaseResult&, std::size_t done, std::size_t total)> progress;  // may be empty
};

/// The cases that the options choose. Errors: kUsage for an unknown tier or a damaged expression.
Result<std::vector<Case>> choose_cases(const CheckOptions& options);

/// Runs them. The plugin has the options of the settings, and beside them those whose variables the environment sets;
/// what it keeps is kept for its case alone, because what an earlier run compiled proves nothing. Errors: kBadInput
/// when the file is no plugin; kUnavailable when it cannot be loaded, refuses this host or has not the device; kUsage
/// as above.
Result<Report> check_plugin(const CheckOptions& options);

}  // namespace crucible::conformance
