// Everything that the loader does before a plugin's code runs in this process: lists, trust, inspection, dependencies,
// probe. Each step leaves a decision, and the first refusal ends the examination.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/candidates.hpp"
#include "plugins/loader/decision.hpp"
#include "plugins/loader/facts.hpp"
#include "plugins/loader/policy.hpp"
#include "plugins/loader/trust.hpp"

namespace crucible::backend {

/// A plugin that may be loaded, with its file held open: what is loaded later must be this very file.
struct Examined {
  Candidate candidate;
  OpenFile file;
  PluginFacts facts;  // only the name when it was not probed
  bool probed = false;
  std::vector<std::string> warnings;  // doubts that did not keep it from being examined, in words for the user
  std::vector<std::string> layers;    // debug layers that the policy wants around it
  std::filesystem::path trace_file;   // of the layer "trace"
  std::shared_ptr<store::Store> store;  // of the policy
};

/// Examines one candidate. Threads: any. Errors: kUnavailable or kBadInput, with the reason of the refusing step.
Result<Examined> examine_candidate(const Candidate& candidate, const LoadPolicy& policy, DecisionLog& log);

/// What an earlier probe of just this file kept: no process is started, and nothing of the plugin runs. Nothing where
/// it was not probed yet, has changed, was refused, or is not to be probed.
std::optional<PluginFacts> remembered_facts(const Candidate& candidate, const LoadPolicy& policy);

/// What the plugin at `path` says of itself; nothing of it runs in this process.
Result<PluginFacts> examine(const std::filesystem::path& path, const LoadPolicy& policy, DecisionLog& log);

/// Starts the plugin with `options` in a child process, lists its devices and stops it; never remembered. Leaves a
/// decision of kInit.
Result<std::vector<DeviceInfo>> probe_devices(const Examined& plugin, const Options& options, const LoadPolicy& policy,
                                              DecisionLog& log);

/// Loads, asks and fills what was examined; the plugin is started at the first use of the Backend (or by start()).
/// A file that changed since it was examined is refused. Errors: as Backend::load.
Result<std::shared_ptr<Backend>> load_examined(const Examined& plugin, Options options, DecisionLog& log);

/// Examines and loads. Of a plugin that is loaded already only the lists are asked again.
Result<std::shared_ptr<Backend>> load(const Candidate& candidate, Options options, const LoadPolicy& policy,
                                      DecisionLog& log);

/// Finds by name, examines and loads.
Result<std::shared_ptr<Backend>> load(std::string_view name, Options options, const LoadPolicy& policy,
                                      DecisionLog& log);

}  // namespace crucible::backend
