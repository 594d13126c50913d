#include "plugins/loader/candidates.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "plugins/loader/trust.hpp"

namespace crucible::backend {
namespace {

using std::filesystem::path;

constexpr std::string_view kPrefix = "libcrucible_", kSuffix = ".so";

/// "cpu" of "libcrucible_cpu.so"; "" of other names.
std::string name_in(const std::string& file) {
  if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix) || file.size() <= kPrefix.size() + kSuffix.size())
    return "";
  return file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
}

struct Place {
  path folder;
  std::string source;
  bool manifests = false;  // it has NAME.json files that say where a plugin is, not plugins
  bool runtime = false;    // the runtime's own libraries are here too
};

/// A variable of the environment; "" where it must not be believed.
std::string variable(const char* name) {
  if (is_privileged()) return "";
  const char* const value = secure_getenv(name);
  return value == nullptr ? "" : value;
}

void add_variable_folders(std::vector<Place>& places) {
  std::string rest = variable("CRUCIBLE_PLUGIN_PATH");
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const path folder(rest.substr(0, colon));
    if (folder.is_absolute()) places.push_back({folder, "CRUCIBLE_PLUGIN_PATH"});
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
}

std::vector<Place> search_places(const LoadPolicy& policy) {
  std::vector<Place> places;
  add_variable_folders(places);
  for (const path& folder : policy.folders) {
    if (folder.is_absolute()) places.push_back({folder, "the configured folders"});
  }
  const std::string config = variable("XDG_CONFIG_HOME"), home = variable("HOME");
  if (path(config).is_absolute()) {
    places.push_back({path(config) / "crucible/plugins.d", "a manifest of the user", true});
  } else if (path(home).is_absolute()) {
    places.push_back({path(home) / ".config/crucible/plugins.d", "a manifest of the user", true});
  }
  places.push_back({"/etc/crucible/plugins.d", "a manifest of the system", true});
  for (const path& folder : runtime_folders()) {
    places.push_back({folder, "the folder of the runtime", false, true});
    places.push_back({folder.parent_path() / "lib" / "crucible", "lib/crucible beside the runtime"});
  }
  return places;
}

/// The files of a folder in the order of their names; empty when it cannot be read.
std::vector<path> files_in(const path& folder) {
  std::vector<path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Reads {"name": "acme", "path": "/opt/acme/libcrucible_acme.so", "sha256": "..."}; name and sha256 may be left out.
Result<Candidate> read_manifest(const path& file, const std::string& source) {
  std::ifstream stream(file);
  const auto document = nlohmann::json::parse(stream, nullptr, false);
  const auto text = [&](const char* key) {
    return document.is_object() && document.contains(key) && document[key].is_string()
               ? document[key].get<std::string>()
               : std::string();
  };
  const path plugin = text("path");
  if (!plugin.is_absolute()) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("manifest {} is passed over: it is not JSON with an absolute \"path\"", file.string())};
  }
  std::string name = text("name");
  if (name.empty()) name = name_in(plugin.filename());
  if (name.empty()) name = file.stem();
  return Candidate{name, plugin, fmt::format("{} ({})", source, file.string()), text("sha256"), false};
}

/// The candidates of one place. `wanted` ("": all) is the only name that is looked for.
void look_in(const Place& place, std::string_view wanted, std::vector<Candidate>& found, DecisionLog& log) {
  if (!place.manifests && !wanted.empty()) {
    const path file = place.folder / fmt::format("{}{}{}", kPrefix, wanted, kSuffix);
    std::error_code error;
    if (std::filesystem::exists(file, error)) {
      found.push_back({std::string(wanted), file, place.source, "", place.runtime});
    }
    return;
  }
  for (const path& file : files_in(place.folder)) {
    if (!place.manifests) {
      std::error_code error;
      const std::string name = name_in(file.filename());
      if (!name.empty() && std::filesystem::is_regular_file(file, error)) {
        found.push_back({name, file, place.source, "", place.runtime});
      }
      continue;
    }
    if (file.extension() != ".json") continue;
    Result<Candidate> candidate = read_manifest(file, place.source);
    if (!candidate) {
      log.add({Step::kCandidate, Outcome::kRefused, file.stem(), file, candidate.error().message, 0});
    } else if (wanted.empty() || candidate->name == wanted) {
      found.push_back(*std::move(candidate));
    }
  }
}

/// Keeps the first of each name and logs what became of every candidate.
std::vector<Candidate> keep_first(std::vector<Candidate> found, DecisionLog& log) {
  std::map<std::string, path> first;
  std::vector<Candidate> kept;
  std::set<std::pair<std::string, path>> seen;
  for (Candidate& candidate : found) {
    std::error_code error;
    const path real = std::filesystem::weakly_canonical(candidate.path, error);
    if (!seen.emplace(candidate.name, error ? candidate.path : real).second) continue;  // one file by two ways
    const auto [place, is_first] = first.try_emplace(candidate.name, candidate.path);
    if (!is_first) {
      log.add({Step::kCandidate, Outcome::kSkipped, candidate.name, candidate.path,
               fmt::format("{} of the same name comes first", place->second.string()), 0});
      continue;
    }
    log.add({Step::kCandidate, Outcome::kPassed, candidate.name, candidate.path,
             fmt::format("found in {}", candidate.source), 0});
    kept.push_back(std::move(candidate));
  }
  return kept;
}

}  // namespace

std::vector<path> runtime_folders() {
  std::vector<path> folders;
  std::error_code error;
  const path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(executable.parent_path());
  // This code may be in a library that a foreign program has loaded, such as Python.
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&runtime_folders), &info) != 0 && info.dli_fname != nullptr) {
    const path library = std::filesystem::canonical(info.dli_fname, error);
    if (!error && std::find(folders.begin(), folders.end(), library.parent_path()) == folders.end()) {
      folders.push_back(library.parent_path());
    }
  }
  return folders;
}

std::vector<Candidate> find_candidates(const LoadPolicy& policy, DecisionLog& log) {
  std::vector<Candidate> found;
  for (const Place& place : search_places(policy)) look_in(place, "", found, log);
  return keep_first(std::move(found), log);
}

Result<Candidate> find_candidate(std::string_view name, const LoadPolicy& policy, DecisionLog& log) {
  if (name.empty() || name.find('/') != std::string_view::npos) {
    return Error{ErrorCode::kUsage,
                 fmt::format("'{}' is not the name of a backend: names have letters, digits and '_'", name)};
  }
  std::vector<Candidate> found;
  std::string looked;
  for (const Place& place : search_places(policy)) {
    look_in(place, name, found, log);
    looked += place.manifests ? fmt::format("\n  {}/*.json", place.folder.string())
                              : fmt::format("\n  {}/{}{}{}", place.folder.string(), kPrefix, name, kSuffix);
  }
  std::vector<Candidate> kept = keep_first(std::move(found), log);
  if (!kept.empty()) return kept.front();
  const std::string reason = fmt::format(
      "plugin {} was not found; looked for{}\nset CRUCIBLE_PLUGIN_PATH to the folder that has it", name, looked);
  log.add({Step::kCandidate, Outcome::kRefused, std::string(name), "", reason, 0});
  return Error{ErrorCode::kUnavailable, reason};
}

Candidate explicit_candidate(const path& file) {
  const std::string name = name_in(file.filename());
  return {name.empty() ? file.stem().string() : name, file, "the path that was given", "", false};
}

}  // namespace crucible::backend
