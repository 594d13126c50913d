// `crucible config trust`: shows what the crucible.toml of a folder asks for beyond a choice among what is there, and
// keeps that the user vouches for just this content at just this place. Nothing of the folder is loaded or run.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/terminal.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/config_trust.hpp"
#include "frontends/config/trust_store.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/plugin_access.hpp"

namespace crucible::cli {
namespace {

using config::TrustedFile;
using nlohmann::ordered_json;

/// The file that was named, or the one that a command in this folder would read.
Result<std::filesystem::path> wanted_file(const TrustSwitches& switches, const config::Surroundings& surroundings) {
  if (!switches.file.empty()) {
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::absolute(switches.file, error);
    return std::filesystem::is_directory(whole, error) ? whole / "crucible.toml" : whole;
  }
  config::Surroundings folder = surroundings;
  folder.named_file.clear();  // $CRUCIBLE_CONFIG is the user's word already
  for (const config::ConfigFile& file : config::find_files(folder)) {
    if (file.layer == config::Layer::kProject) return file.path;
  }
  return Error{ErrorCode::kUsage, "there is no crucible.toml in this folder or above: name one"};
}

/// What the file says, as if nobody vouched for it, with what is remembered of the plugins that it has options for.
config::Settings judged(const std::filesystem::path& file, config::Surroundings surroundings) {
  surroundings.named_file = file;
  surroundings.named_as = config::Standing::kFolder;
  config::Settings settings = config::Settings::load(surroundings, {});
  for (const std::string& plugin : settings.plugins_with_options()) {
    settle_known_options(settings, plugin,
                         plugin == kReferenceBackend ? std::nullopt : remembered_facts(settings, plugin));
  }
  return settings;
}

const config::ConfigFile* project_of(const config::Settings& settings) {
  const auto file = std::ranges::find(settings.files(), config::Layer::kProject, &config::ConfigFile::layer);
  return file == settings.files().end() ? nullptr : &*file;
}

ordered_json to_json(const config::ConfigFile& file, const config::Settings& settings, bool is_trusted) {
  ordered_json document = {{"file", config::place_of(file.path)}, {"sha256", file.sha256}, {"trusted", is_trusted},
                           {"asks_for", ordered_json::array()}};
  for (const config::HeldBack& held : settings.held_back()) {
    document["asks_for"].push_back({{"key", held.entry.key}, {"value", config::to_text(held.entry.value)},
                                    {"line", held.entry.origin.line}, {"reason", held.reason}});
  }
  return document;
}

std::string to_text(const config::ConfigFile& file, const config::Settings& settings) {
  std::string text = fmt::format("{}\nsha256 {}\n", config::shown(config::place_of(file.path)), file.sha256);
  if (settings.held_back().empty()) return text + "asks for nothing that needs trust\n";
  std::vector<std::vector<std::string>> rows = {{"line", "key", "value", "needs trust, for it"}};
  for (const config::HeldBack& held : settings.held_back()) {
    rows.push_back({std::to_string(held.entry.origin.line), config::shown(held.entry.key),
                    config::shown(config::to_text(held.entry.value)), held.reason});
  }
  return text + format_table(rows);
}

/// Errors: kUsage where there is nobody to ask.
Result<bool> agreed(const TrustSwitches& switches) {
  if (switches.yes) return true;
  if (switches.json || isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) {
    return Error{ErrorCode::kUsage,
                 "nothing was trusted: there is no terminal to ask on, so say --yes when that is all right"};
  }
  print_out("trust it, as long as it stays as it is? [y/N] ");
  std::fflush(stdout);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

Result<int> add(const TrustSwitches& switches) {
  const config::Surroundings surroundings = config::process_surroundings();
  CRUCIBLE_TRY(const std::filesystem::path path, wanted_file(switches, surroundings));
  const config::Settings settings = judged(path, surroundings);
  const config::ConfigFile* const file = project_of(settings);
  if (file == nullptr) return Error{ErrorCode::kBadInput, "a process with more rights than its user trusts nothing"};
  for (const config::Problem& problem : settings.problems()) {
    if (problem.origin.layer != config::Layer::kProject) continue;
    return Error{ErrorCode::kBadInput, fmt::format("nothing was trusted: {}: {}", config::shown(problem.origin.place()),
                                                   config::shown(problem.message))};
  }
  if (!file->danger.empty()) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("nothing was trusted: {}: {}", config::shown(file->path.string()), file->danger)};
  }
  const std::filesystem::path store = config::trust_store(surroundings);
  CRUCIBLE_TRY(std::vector<TrustedFile> trusted, config::read_trusted(store));
  const TrustedFile wanted = {config::place_of(file->path), file->sha256};
  bool is_trusted = std::ranges::find(trusted, wanted) != trusted.end();
  if (!switches.json) print_out("{}", to_text(*file, settings));
  Result<bool> answer = is_trusted || settings.held_back().empty() ? Result<bool>(false) : agreed(switches);
  if (answer && *answer) {
    std::erase_if(trusted, [&](const TrustedFile& one) { return one.place == wanted.place; });
    trusted.push_back(wanted);
    CRUCIBLE_TRY_VOID(config::write_trusted(store, trusted));
    is_trusted = true;
  }
  if (switches.json) print_json(to_json(*file, settings, is_trusted));
  if (!answer) return answer.error();
  if (!switches.json && !settings.held_back().empty()) print_out("{}\n", is_trusted ? "trusted" : "not trusted");
  return is_trusted || settings.held_back().empty() ? 0 : 1;
}

/// "trusted", "changed" or "gone": what became of a file since.
std::string state_of(const TrustedFile& file) {
  const std::optional<std::string> text = config::read_text(file.place);
  return !text ? "gone" : config::sha256_of(*text) == file.sha256 ? "trusted" : "changed";
}

Result<int> list(bool json) {
  CRUCIBLE_TRY(const std::vector<TrustedFile> trusted,
               config::read_trusted(config::trust_store(config::process_surroundings())));
  ordered_json document = {{"files", ordered_json::array()}};
  std::vector<std::vector<std::string>> rows = {{"file", "state", "sha256"}};
  for (const TrustedFile& file : trusted) {
    document["files"].push_back({{"file", file.place}, {"state", state_of(file)}, {"sha256", file.sha256}});
    rows.push_back({config::shown(file.place), state_of(file), file.sha256});
  }
  if (json) {
    print_json(document);
  } else {
    print_out("{}", trusted.empty() ? "no file of a folder is trusted\n" : format_table(rows));
  }
  return 0;
}

Result<int> remove(const TrustSwitches& switches) {
  const config::Surroundings surroundings = config::process_surroundings();
  CRUCIBLE_TRY(const std::filesystem::path path, wanted_file(switches, surroundings));
  const std::filesystem::path store = config::trust_store(surroundings);
  CRUCIBLE_TRY(std::vector<TrustedFile> trusted, config::read_trusted(store));
  const std::string place = config::place_of(path);
  const std::size_t removed = std::erase_if(trusted, [&](const TrustedFile& one) { return one.place == place; });
  if (removed > 0) CRUCIBLE_TRY_VOID(config::write_trusted(store, trusted));
  if (switches.json) {
    print_json({{"file", place}, {"removed", removed > 0}});
  } else {
    print_out("{} {}\n", config::shown(place), removed > 0 ? "is trusted no more" : "was not trusted");
  }
  return 0;
}

}  // namespace

Result<int> run_config_trust(const TrustSwitches& switches) {
  return switches.list ? list(switches.json) : switches.remove ? remove(switches) : add(switches);
}

}  // namespace crucible::cli
