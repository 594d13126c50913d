// The effective configuration: all layers put together, each value with where it came from and what it overrode.
//
//   load() -> general keys are settled, options of plugins wait for their plugin
//   add_plugin() -> one plugin's options are checked against its own schema and settled
//   check() -> everything that is wrong, in one error
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "frontends/config/key.hpp"
#include "frontends/config/places.hpp"
#include "frontends/config/value.hpp"

namespace crucible::config {

/// What is said beside the files and the environment.
struct Requests {
  std::vector<std::pair<std::string, std::string>> switches;  // key and text of "--backend NAME" and the like
  std::vector<std::string> sets;                              // "KEY=VALUE" of --set
  std::map<std::string, Value> api;                           // by a program that embeds us: the strongest layer
};

struct Setting {
  Value value;
  Origin origin;
  std::vector<Entry> overridden;  // what the weaker layers said, strongest first
};

/// What the file of a folder said and may not say: it is not in force.
struct HeldBack {
  Entry entry;
  std::string reason;  // why it needs the user's trust, in a few words
};

/// Not thread-safe.
class Settings {
 public:
  /// Reads every layer. Problems do not stop it: they are kept for check().
  static Settings load(const Surroundings& surroundings, const Requests& requests);

  /// An option from a switch of its own ("--threads"); before add_plugin().
  void request_option(const std::string& plugin, const std::string& option, const std::string& text,
                      const std::string& where);
  /// Settles the options of a plugin, once: `[backend.NAME]` of the files, the variables that its schema names, --set.
  /// With a null schema (a plugin of an ABI without one) nothing can be checked: texts are handed on as they are.
  void add_plugin(const std::string& plugin, const std::vector<Key>* schema);

  /// Errors: kBadInput when a file is to blame, else kUsage; one line per problem, all of them from `first` on: of
  /// problems().size() before add_plugin(), those of that plugin's options alone.
  Result<void> check(std::size_t first = 0) const;
  const std::vector<Problem>& problems() const { return problems_; }
  /// False while a rule about plugins may be among the problems: a plugin asked now would be asked without that rule.
  bool may_ask_plugins() const;
  /// What is odd and was used all the same; one sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// What has not been taken yet: warnings(), and one sentence about what of a folder's file is held back. Options of a
  /// plugin are known when it has been added, so whoever adds plugins asks again.
  std::vector<std::string> take_warnings();
  /// What a folder's file may not set, in the order of its lines.
  const std::vector<HeldBack>& held_back() const { return held_back_; }
  /// Whose word a value is.
  Standing standing_of(const Origin& origin) const;

  /// Null when nothing is set.
  const Setting* find(const std::string& key) const;
  /// "" when nothing is set; lists joined by ", ".
  std::string text(const std::string& key) const;
  bool flag(const std::string& key) const;            // false when nothing is set
  std::int64_t number(const std::string& key) const;  // 0 when nothing is set
  List list(const std::string& key) const;            // empty when nothing is set
  /// True when somebody said it: a file, the environment, the command line, the API.
  bool is_said(const std::string& key) const;
  const std::map<std::string, Setting>& all() const { return settings_; }

  /// Options of a plugin that somebody has set, by their own names, as texts: what the plugin is handed.
  std::map<std::string, std::string> plugin_options(const std::string& plugin) const;
  /// The plugins that some layer has options for, settled or not.
  std::vector<std::string> plugins_with_options() const;
  /// The files that were read.
  const std::vector<ConfigFile>& files() const { return files_; }

 private:
  static Settings put_together(const Surroundings& surroundings, const Requests& requests,
                               const std::vector<ConfigFile>& files);
  std::string trust_beyond_doubt() const;
  void add_entry(Entry entry);
  void add_files();
  void judge_standing(ConfigFile& file, const std::string& text);
  void hold_back(const Key& key, Entry entry);
  void add_environment(const std::vector<Key>& keys, const std::string& prefix);
  void add_requests(const Requests& requests);
  void add_unchecked(const std::string& prefix, std::vector<Entry> entries);
  void judge_files();
  void choose_fallback();
  /// Checks and puts an entry over what is there. Entries come weakest layer first.
  void settle(const Key& key, Entry entry);
  std::filesystem::path base_of(const Origin& origin) const;

  Surroundings surroundings_;
  std::vector<ConfigFile> files_;
  std::map<std::string, Setting> settings_;
  std::map<std::string, std::vector<Entry>> waiting_;  // plugin -> its options, weakest layer first
  std::set<std::string> settled_;                      // plugins
  std::vector<Problem> problems_;
  std::vector<std::string> warnings_;
  std::vector<HeldBack> held_back_;
  std::size_t taken_warnings_ = 0, taken_held_back_ = 0;
};

}  // namespace crucible::config
