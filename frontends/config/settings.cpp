// The layers, weakest first, and what each setting became.
#include "frontends/config/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "frontends/config/plugin_keys.hpp"
#include "frontends/config/suggest.hpp"
#include "frontends/config/toml_file.hpp"

namespace crucible::config {
namespace {

constexpr std::string_view kOptions = "backend.";

/// "cpu" and "threads" of "backend.cpu.threads"; empty ones when it is something else.
std::pair<std::string, std::string> plugin_and_option(const std::string& key) {
  if (!key.starts_with(kOptions)) return {};
  const std::size_t dot = key.find('.', kOptions.size());
  if (dot == std::string::npos) return {};
  return {key.substr(kOptions.size(), dot - kOptions.size()), key.substr(dot + 1)};
}

bool is_written(const Origin& origin) {  // by a person in a file: typed already
  return is_file(origin.layer);
}

}  // namespace

Settings Settings::load(const Surroundings& surroundings, const Requests& requests) {
  std::vector<ConfigFile> files = find_files(surroundings);
  Settings settings = put_together(surroundings, requests, files);
  // A project's file may lie in a folder that somebody else prepared, and can name plugins to run: unlike the files of
  // system and user it is not even used with a warning.
  const auto doubtful = std::ranges::find_if(files, [](const ConfigFile& file) {
    return file.layer == Layer::kProject && !file.is_named && !file.danger.empty();
  });
  if (doubtful == files.end() || settings.trust_beyond_doubt() != "warn") return settings;
  const std::string warning = fmt::format("{} is left out: {}", doubtful->path.string(), doubtful->danger);
  files.erase(doubtful);
  settings = put_together(surroundings, requests, files);
  settings.warnings_.push_back(warning);
  return settings;
}

Settings Settings::put_together(const Surroundings& surroundings, const Requests& requests,
                                const std::vector<ConfigFile>& files) {
  Settings settings;
  settings.surroundings_ = surroundings;
  for (const Key& key : known_keys()) {
    if (!key.built_in.empty()) settings.settle(key, {key.name, key.built_in, {}});
  }
  settings.files_ = files;
  settings.add_files();
  settings.add_environment(known_keys(), "");
  settings.add_requests(requests);
  settings.judge_files();
  settings.choose_fallback();
  return settings;
}

void Settings::add_files() {
  for (ConfigFile& file : files_) {
    if (!file.fault.empty()) {
      problems_.push_back({{file.layer, file.path.string()}, file.fault});
      continue;
    }
    const std::optional<std::string> text = read_text(file.path);
    if (!text) {
      problems_.push_back({{file.layer, file.path.string()}, "cannot be read, or is longer than 1 MiB"});
      continue;
    }
    judge_standing(file, *text);
    FileContent content = read_toml(*text, file.layer, file.path.string());
    for (Entry& entry : content.entries) add_entry(std::move(entry));
    for (Problem& problem : content.problems) problems_.push_back(std::move(problem));
  }
}

void Settings::add_environment(const std::vector<Key>& keys, const std::string& prefix) {
  for (const Key& key : keys) {
    if (key.variable.empty()) continue;
    std::optional<std::string> value = surroundings_.environment(key.variable);
    if (!value || value->empty()) continue;
    if (surroundings_.privileged && key.is_place()) {
      warnings_.push_back(fmt::format("{} is ignored: this process has more rights than its user", key.variable));
      continue;
    }
    if (key.type == Type::kPathList) {  // a relative folder would depend on where one stands
      std::string kept;
      for (std::string_view rest = *value; !rest.empty();) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        if (rest.starts_with('/')) kept += fmt::format("{}{}", kept.empty() ? "" : ":", rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
      if (kept.empty()) continue;
      value = kept;
    }
    settle(key, {prefix + key.name, *value, {Layer::kEnvironment, key.variable}});
  }
}

void Settings::add_requests(const Requests& requests) {
  for (const auto& [key, text] : requests.switches) {
    add_entry({key, text, {Layer::kCommandLine, "--" + key}});
  }
  for (const std::string& set : requests.sets) {
    const std::size_t equals = set.find('=');
    const Origin origin = {Layer::kCommandLine, "--set " + set.substr(0, std::min(equals, set.size()))};
    if (equals == std::string::npos || equals == 0) {
      problems_.push_back({origin, "write --set KEY=VALUE, for instance --set backend.cpu.threads=2"});
      continue;
    }
    const std::string key = set.substr(0, equals);
    add_entry({key == "backend.name" ? "backend" : key, set.substr(equals + 1), origin});
  }
  for (const auto& [key, value] : requests.api) add_entry({key, value, {Layer::kApi, key}});
}

void Settings::add_entry(Entry entry) {
  if (const auto [plugin, option] = plugin_and_option(entry.key); !plugin.empty() && !option.empty()) {
    waiting_[plugin].push_back(std::move(entry));
    return;
  }
  if (const Key* key = find_key(entry.key)) {
    settle(*key, std::move(entry));
    return;
  }
  std::string hint = did_you_mean(entry.key, names_of(known_keys()));
  // "trsut" in the table "plugins" is closer to "trust" than the whole dotted words are to each other.
  if (const std::size_t dot = entry.key.rfind('.'); hint.empty() && dot != std::string::npos) {
    const std::vector<std::string> beside = names_beside(entry.key);
    hint = did_you_mean(entry.key.substr(dot + 1), beside);
    if (hint.empty() && !beside.empty()) hint = fmt::format("; there are {}", fmt::join(beside, ", "));
  }
  problems_.push_back(
      {entry.origin, fmt::format("unknown key '{}'{}", entry.key, hint), entry.key.find('.') != std::string::npos});
}

std::filesystem::path Settings::base_of(const Origin& origin) const {
  return is_written(origin) ? std::filesystem::path(origin.where).parent_path() : surroundings_.working_folder;
}

void Settings::settle(const Key& key, Entry entry) {
  Key named = key;  // a variable's user knows the variable, not the key behind it
  if (entry.origin.layer == Layer::kEnvironment) named.name = key.variable;
  Result<Value> value = convert(named, entry.value, !is_written(entry.origin), base_of(entry.origin));
  if (!value) {
    problems_.push_back({entry.origin, value.error().message, entry.key.starts_with("plugins.")});
    return;
  }
  if (!key.is_harmless() && standing_of(entry.origin) == Standing::kFolder) return hold_back(key, std::move(entry));
  const auto [place, is_new] = settings_.try_emplace(entry.key);
  Setting& setting = place->second;
  if (!is_new) setting.overridden.insert(setting.overridden.begin(), {entry.key, setting.value, setting.origin});
  setting.value = *std::move(value);
  setting.origin = std::move(entry.origin);
}

void Settings::request_option(const std::string& plugin, const std::string& option, const std::string& text,
                              const std::string& where) {
  waiting_[plugin].push_back({fmt::format("{}{}.{}", kOptions, plugin, option), text, {Layer::kCommandLine, where}});
}

void Settings::add_plugin(const std::string& plugin, const std::vector<Key>* schema) {
  if (!settled_.insert(plugin).second) return;
  const std::string prefix = fmt::format("{}{}.", kOptions, plugin);
  std::vector<Entry> entries;
  if (const auto found = waiting_.find(plugin); found != waiting_.end()) {
    entries = std::move(found->second);
    waiting_.erase(found);
  }
  if (schema == nullptr) {
    add_unchecked(prefix, std::move(entries));
    return;
  }
  for (const Key& option : *schema) {
    if (!option.built_in.empty())
      settle(option, {prefix + option.name, option.built_in, {Layer::kBuiltIn, "plugin " + plugin}});
  }
  const auto add = [&](bool wanted_files) {
    for (Entry& entry : entries) {
      if ((entry.origin.layer < Layer::kEnvironment) != wanted_files) continue;
      const std::string name = entry.key.substr(prefix.size());
      const auto option = std::ranges::find(*schema, name, &Key::name);
      if (option != schema->end()) {
        settle(*option, entry);
        continue;
      }
      const std::vector<std::string> names = names_of(*schema);
      std::string hint = did_you_mean(name, names);
      if (hint.empty()) hint = names.empty() ? "; it has none" : fmt::format("; it has {}", fmt::join(names, ", "));
      problems_.push_back({entry.origin, fmt::format("plugin {} has no option '{}'{}", plugin, name, hint), false});
    }
  };
  add(true);
  add_environment(*schema, prefix);
  add(false);
}

/// An option without schema: those that have always been there have types, the others are texts for the plugin to
/// judge.
void Settings::add_unchecked(const std::string& prefix, std::vector<Entry> entries) {
  const std::vector<Key>& known = keys_of_old_plugins();
  std::ranges::stable_sort(entries, {}, [](const Entry& entry) { return entry.origin.layer; });
  const auto settle_one = [&](const Entry& entry) {
    const auto option = std::ranges::find(known, entry.key.substr(prefix.size()), &Key::name);
    if (option != known.end()) return settle(*option, entry);
    settle({.name = entry.key}, {entry.key, to_text(entry.value), entry.origin});
  };
  const auto weaker = [](const Entry& entry) { return entry.origin.layer < Layer::kEnvironment; };
  for (const Entry& entry : entries) {
    if (weaker(entry)) settle_one(entry);
  }
  add_environment(known, prefix);
  for (const Entry& entry : entries) {
    if (!weaker(entry)) settle_one(entry);
  }
}

/// Whoever names a backend means that one; who leaves the choice to us wants an answer and a word about it.
void Settings::choose_fallback() {
  if (find("fallback") != nullptr) return;
  const bool named = is_said("backend") && text("backend") != "auto";
  const bool device = is_said("device");
  settings_["fallback"] = {std::string(named || device ? "forbid" : "warn"),
                           {Layer::kBuiltIn, named || device ? "a backend is named" : "no backend is named"},
                           {}};
}

Result<void> Settings::check(std::size_t first) const {
  if (first >= problems_.size()) return {};
  const std::span<const Problem> problems = std::span(problems_).subspan(first);
  const bool files =
      std::ranges::any_of(problems, [](const Problem& problem) { return is_file(problem.origin.layer); });
  const ErrorCode code = files ? ErrorCode::kBadInput : ErrorCode::kUsage;
  const auto sentence = [](const Problem& problem) {
    if (problem.origin.layer == Layer::kEnvironment) return problem.message;  // begins with the variable
    return fmt::format("{}: {}", problem.origin.place(), problem.message);
  };
  if (problems.size() == 1) return Error{code, sentence(problems[0])};
  std::string message = fmt::format("{} problems in the configuration:", problems.size());
  for (const Problem& problem : problems) message += "\n  " + sentence(problem);
  return Error{code, std::move(message)};
}

bool Settings::may_ask_plugins() const { return std::ranges::none_of(problems_, &Problem::may_be_about_loading); }

const Setting* Settings::find(const std::string& key) const {
  const auto found = settings_.find(key);
  return found == settings_.end() ? nullptr : &found->second;
}

std::string Settings::text(const std::string& key) const {
  const Setting* setting = find(key);
  return setting == nullptr ? "" : to_text(setting->value);
}

bool Settings::flag(const std::string& key) const {
  const Setting* setting = find(key);
  const bool* value = setting == nullptr ? nullptr : std::get_if<bool>(&setting->value);
  return value != nullptr && *value;
}

std::int64_t Settings::number(const std::string& key) const {
  const Setting* setting = find(key);
  const auto* value = setting == nullptr ? nullptr : std::get_if<std::int64_t>(&setting->value);
  return value == nullptr ? 0 : *value;
}

List Settings::list(const std::string& key) const {
  const Setting* setting = find(key);
  const auto* value = setting == nullptr ? nullptr : std::get_if<List>(&setting->value);
  return value == nullptr ? List{} : *value;
}

bool Settings::is_said(const std::string& key) const {
  const Setting* setting = find(key);
  return setting != nullptr && setting->origin.layer != Layer::kBuiltIn && !to_text(setting->value).empty();
}

std::map<std::string, std::string> Settings::plugin_options(const std::string& plugin) const {
  const std::string prefix = fmt::format("{}{}.", kOptions, plugin);
  std::map<std::string, std::string> options;
  for (auto setting = settings_.lower_bound(prefix); setting != settings_.end() && setting->first.starts_with(prefix);
       ++setting) {
    if (setting->second.origin.layer == Layer::kBuiltIn) continue;  // the plugin knows its own defaults
    options[setting->first.substr(prefix.size())] = to_text(setting->second.value);
  }
  return options;
}

std::vector<std::string> Settings::plugins_with_options() const {
  std::vector<std::string> plugins;
  for (const auto& [plugin, entries] : waiting_) plugins.push_back(plugin);
  return plugins;
}

}  // namespace crucible::config
