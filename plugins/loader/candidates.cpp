#include "plugins/loader/candidates.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <expected>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "core/base/words.hpp"
#include "plugins/loader/trust.hpp"

namespace crucible::backend {
namespace {

using std::filesystem::path;

constexpr const char* kSystemManifests = "/etc/crucible/plugins.d";
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

/// Each folder once, in its first place: bin and lib of one prefix have the same lib/crucible beside them.
std::vector<Place> without_repeats(std::vector<Place> places) {
  std::set<path> seen;
  std::erase_if(places, [&](const Place& place) {
    std::error_code error;
    const path real = std::filesystem::weakly_canonical(place.folder, error);
    return !seen.insert(error ? place.folder.lexically_normal() : real).second;
  });
  return places;
}

/// Where the user's manifests are; empty where there is no such place.
path user_manifests() {
  const path config = variable("XDG_CONFIG_HOME"), home = variable("HOME");
  if (config.is_absolute()) return config / "crucible/plugins.d";
  return home.is_absolute() ? home / ".config/crucible/plugins.d" : path();
}

std::vector<Place> search_places(const LoadPolicy& policy) {
  std::vector<Place> places;
  add_variable_folders(places);
  for (const path& folder : policy.folders) {
    if (folder.is_absolute()) places.push_back({folder, "the configured folders"});
  }
  if (const path manifests = user_manifests(); !manifests.empty())
    places.push_back({manifests, "a manifest of the user", true});
  places.push_back({kSystemManifests, "a manifest of the system", true});
  for (const path& folder : runtime_folders()) {
    places.push_back({folder, "the folder of the runtime", false, true});
    places.push_back({folder.parent_path() / "lib" / "crucible", "lib/crucible beside the runtime"});
  }
  return without_repeats(std::move(places));
}

/// The files of a folder in the order of their names; none, with a refusal in the log, when one is there and cannot be
/// read.
std::vector<path> files_in(const Place& place, DecisionLog& log) {
  std::vector<path> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(place.folder, error);
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    log.add({Step::kCandidate, Outcome::kRefused, place.folder.filename(), place.folder,
             fmt::format("folder {} is passed over: {}", place.folder.string(), error.message()), 0});
  }
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Why what stands at `file` is no file to read; "" when it is one.
std::string no_file(const path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return fmt::format("it is a link to {}, which is not there", std::filesystem::read_symlink(file, error).string());
  }
  if (error) return error.message();
  if (std::filesystem::is_directory(status)) return "it is a folder";
  return std::filesystem::is_regular_file(status) ? "" : "it is no file";
}

bool is_digest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}

/// The text at `key`, "" where it has none. Errors: what stands there is no text; in words.
std::expected<std::string, std::string> text_at(const nlohmann::json& document, const char* key) {
  if (!document.contains(key)) return std::string();
  if (!document[key].is_string()) return std::unexpected(fmt::format("its \"{}\" is no text", key));
  return document[key].get<std::string>();
}

/// One word, which stands in tables, lists and keys of a configuration.
constexpr std::size_t kLongestName = 100;
bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName && name.find_first_of("/\t ") == std::string::npos &&
         printable(name) == name;
}

/// The candidate that a manifest's text names; in words why there is none.
std::expected<Candidate, std::string> parse_manifest(const std::string& content, const path& file) {
  const auto document = nlohmann::json::parse(content, nullptr, false);
  if (!document.is_object()) return std::unexpected(content.empty() ? "it is empty" : "it is no JSON object");
  for (const auto& [key, value] : document.items()) {
    if (key != "path" && key != "name" && key != "sha256") {
      return std::unexpected(fmt::format("{:?} is none of path, name, sha256", key));
    }
  }
  const auto plugin = text_at(document, "path"), named = text_at(document, "name"),
             digest = text_at(document, "sha256");
  for (const auto* text : {&plugin, &named, &digest}) {
    if (!*text) return std::unexpected(text->error());
  }
  if (!path(*plugin).is_absolute()) {
    return std::unexpected(plugin->empty() ? "it has no \"path\""
                                           : fmt::format("its \"path\" {} is not absolute", printable(*plugin)));
  }
  if (plugin->find('\0') != std::string::npos) return std::unexpected("its \"path\" is no path");
  if (!digest->empty() && !is_digest(*digest))
    return std::unexpected("its \"sha256\" is no SHA-256: 64 hexadecimal digits");
  std::string name = *named;
  if (name.empty()) name = name_in(path(*plugin).filename());
  if (name.empty()) name = file.stem();
  if (!is_name(name))
    return std::unexpected(fmt::format("'{}' is no name of a plugin", printable(name.substr(0, kLongestName))));
  return Candidate{name, *plugin, "", *digest, false};
}

/// Reads {"name": "acme", "path": "/opt/acme/libcrucible_acme.so", "sha256": "..."}; name and sha256 may be left out.
std::expected<Candidate, std::string> read_manifest(const path& file, const std::string& source) {
  constexpr std::size_t kLargest = 1 << 16;
  if (std::string reason = no_file(file); !reason.empty()) return std::unexpected(std::move(reason));
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::unexpected(fmt::format("it cannot be read: {}", std::strerror(errno)));
  std::string content(kLargest + 1, '\0');
  stream.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(stream.gcount()));
  if (content.size() > kLargest) return std::unexpected("it is longer than 64 KiB");
  auto candidate = parse_manifest(content, file);
  if (candidate) {
    candidate->source = fmt::format("{} ({})", source, file.string());
    candidate->manifest = file;
  }
  return candidate;
}

void look_at_library(const path& file, const std::string& name, const Place& place, std::vector<Candidate>& found,
                     DecisionLog& log) {
  if (const std::string reason = no_file(file); !reason.empty()) {
    log.add({Step::kCandidate, Outcome::kRefused, name, file,
             fmt::format("{} is passed over: {}", file.string(), reason), 0});
    return;
  }
  found.push_back({name, file, place.source, "", place.runtime});
}

/// The refusal of a manifest whose plugin is gone; nothing where something stands at its path, or where that cannot be
/// told.
std::optional<Decision> left_behind(const Candidate& candidate) {
  std::error_code error;
  const auto type = std::filesystem::status(candidate.path, error).type();
  if (type != std::filesystem::file_type::not_found) return std::nullopt;
  return Decision{Step::kCandidate,
                  Outcome::kRefused,
                  candidate.name,
                  candidate.manifest,
                  fmt::format("manifest {} is passed over: its plugin is gone ({} is not there): remove the manifest, "
                              "or install plugin {} again",
                              candidate.manifest.string(), printable(candidate.path.string()), candidate.name),
                  0};
}

/// The candidates of one place. `wanted` ("": all) is the only name that is looked for.
void look_in(const Place& place, std::string_view wanted, std::vector<Candidate>& found, DecisionLog& log) {
  if (!place.manifests && !wanted.empty()) {
    const path file = place.folder / fmt::format("{}{}{}", kPrefix, wanted, kSuffix);
    std::error_code error;
    if (std::filesystem::exists(std::filesystem::symlink_status(file, error)))
      look_at_library(file, std::string(wanted), place, found, log);
    return;
  }
  for (const path& file : files_in(place, log)) {
    if (!place.manifests) {
      if (const std::string name = name_in(file.filename()); !name.empty())
        look_at_library(file, name, place, found, log);
      continue;
    }
    if (file.extension() != ".json") continue;
    auto candidate = read_manifest(file, place.source);
    if (!candidate) {
      log.add({Step::kCandidate, Outcome::kRefused, file.stem(), file,
               fmt::format("manifest {} is passed over: {}", file.string(), candidate.error()), 0});
    } else if (!wanted.empty() && candidate->name != wanted) {
      continue;
    } else if (std::optional<Decision> gone = left_behind(*candidate)) {
      log.add(*std::move(gone));
    } else {
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
  std::vector<Place> places = search_places(policy);
  for (const path& folder : runtime_folders()) {
    places.push_back({folder / name, "the plugin's own folder beside the runtime"});
    places.push_back({folder.parent_path() / "lib" / "crucible" / name, "the plugin's own folder in lib/crucible"});
  }
  places = without_repeats(std::move(places));
  for (const Place& place : places) {
    look_in(place, name, found, log);
    looked += place.manifests ? fmt::format("\n  {}/*.json", place.folder.string())
                              : fmt::format("\n  {}/{}{}{}", place.folder.string(), kPrefix, name, kSuffix);
  }
  std::vector<Candidate> kept = keep_first(std::move(found), log);
  if (!kept.empty()) return kept.front();
  for (const Decision& decision : log.of(name)) {
    if (decision.step == Step::kCandidate && decision.outcome == Outcome::kRefused && !decision.path.empty())
      looked += "\n  " + decision.reason;
  }
  const path manifests = user_manifests();
  const std::string reason = fmt::format(
      "plugin {} was not found; looked for{}\nset CRUCIBLE_PLUGIN_PATH to the folder that has it, or write a manifest "
      "with its path: {}/{}.json",
      name, looked, manifests.empty() ? kSystemManifests : manifests.string(), name);
  log.add({Step::kCandidate, Outcome::kRefused, std::string(name), "", reason, 0});
  return Error{ErrorCode::kUnavailable, reason};
}

std::vector<Decision> manifests_left_behind(const LoadPolicy& policy) {
  std::vector<Decision> all;
  DecisionLog looking;
  for (const Place& place : search_places(policy)) {
    if (!place.manifests) continue;
    for (const path& file : files_in(place, looking)) {
      if (file.extension() != ".json") continue;
      const auto candidate = read_manifest(file, place.source);
      if (!candidate) continue;
      if (std::optional<Decision> gone = left_behind(*candidate)) all.push_back(*std::move(gone));
    }
  }
  return all;
}

Candidate explicit_candidate(const path& file) {
  const std::string name = name_in(file.filename());
  return {name.empty() ? file.stem().string() : name, file, "the path that was given", "", false};
}

}  // namespace crucible::backend
