// Where plugins are looked for, and what is found there. Nothing is opened or run. The current directory is never one
// of the places: whoever can write there could choose the code that runs.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/loader/decision.hpp"
#include "plugins/loader/policy.hpp"

namespace crucible::backend {

/// A file that may be a plugin.
struct Candidate {
  std::string name;                     // "cpu" of libcrucible_cpu.so, or what its manifest says
  std::filesystem::path path;           // absolute
  std::string source;                   // which place it is from, in words
  std::string pin;                      // SHA-256 from its manifest, or empty
  bool beside_runtime = false;          // found where the runtime's own libraries are
  std::filesystem::path manifest = {};  // that names it, or empty
};

/// Every candidate, the ones that are found first in front; of two with one name the first is kept and the log says so.
/// Places, in order: CRUCIBLE_PLUGIN_PATH (absolute folders, colon-separated; not in a process with raised rights),
/// policy.folders, manifests of the user and of the system (NAME.json in plugins.d), the folder of the executable or of
/// the library that this code is in, ../lib/crucible beside it.
/// Threads: any.
std::vector<Candidate> find_candidates(const LoadPolicy& policy, DecisionLog& log);

/// The candidate called `name`; also in a folder of its name in the last two of these places, where a plugin lies that
/// is too slow to load for everybody who asks all plugins. Errors: kUsage for what is no name; kUnavailable with every
/// place that was looked at.
Result<Candidate> find_candidate(std::string_view name, const LoadPolicy& policy, DecisionLog& log);

/// Manifests whose plugin is gone: somebody uninstalled it and left the manifest. Each as the refusal that looking for
/// the plugin logs, with what to do.
std::vector<Decision> manifests_left_behind(const LoadPolicy& policy);

/// The candidate that the user named by its file.
Candidate explicit_candidate(const std::filesystem::path& path);

/// The folders of the runtime: of the executable, and of the shared library with this code where that is another one.
std::vector<std::filesystem::path> runtime_folders();

}  // namespace crucible::backend
