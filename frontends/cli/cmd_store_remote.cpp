// `crucible store push` and `pull`, and what `stats` and `explain` say about remotes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/figures.hpp"
#include "core/base/output.hpp"
#include "core/base/terminal.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/store_command.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/remote_settings.hpp"

namespace crucible::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kKeyDigits = 64;

Result<ContentHash> whole_key(const std::string& digits) {
  const Result<ContentHash> key = store::parse_hash(digits);
  if (key) return *key;
  return Error{ErrorCode::kUsage, fmt::format("'{}' is no whole key: a remote is asked by all 64 hexadecimal digits",
                                              digits.substr(0, 80))};
}

/// Whether remotes that believe each other have one answer.
bool do_agree(const std::vector<store::Asked>& asked) {
  const store::Statement* first = nullptr;
  for (const store::Asked& each : asked) {
    if (!each.statement) continue;
    if (first != nullptr && first->outputs != each.statement->outputs) return false;
    first = &*each.statement;
  }
  return true;
}

}  // namespace

void add_remote_switches(CLI::App& command, StoreSwitches& switches) {
  command
      .add_option("--remote", switches.remotes,
                  "A server, http://, https:// or s3://; again for more (default: store.remote of the configuration)")
      ->allow_extra_args(false)
      ->take_all();
  command
      .add_option("--trust", switches.remote_trust,
                  "What is done about a remote's entries that no key of --key signed (default: store.remote_trust)")
      ->check(CLI::IsMember({"enforce", "warn", "off"}));
  command
      .add_option("--key", switches.keys,
                  "A public Ed25519 key (PEM) whose entries are believed; again for more (default: store.keys)")
      ->allow_extra_args(false)
      ->take_all();
  command
      .add_option("--set", switches.layers.sets, "KEY=VALUE of the configuration, for instance store.ca_file=our.pem")
      ->allow_extra_args(false)
      ->take_all();
  command.add_option("--config", switches.layers.config_file,
                     "Take this file for the crucible.toml of this folder or one above (also $CRUCIBLE_CONFIG)");
}

Result<std::unique_ptr<store::Store>> open_with_remotes(const StoreSwitches& switches, bool must_exist,
                                                        bool may_write) {
  CRUCIBLE_TRY(const config::Settings settings, load_settings(switches.layers, terminal()));
  store::RemoteSettings remotes = remote_settings(settings);
  if (!switches.remotes.empty()) remotes.urls = switches.remotes;
  if (!switches.remote_trust.empty()) remotes.trust = switches.remote_trust;
  if (!switches.keys.empty()) remotes.keys.assign(switches.keys.begin(), switches.keys.end());
  if (!switches.sign.empty()) remotes.sign = switches.sign;
  remotes.may_write = may_write;
  CRUCIBLE_TRY(store::StoreOptions options, store_options(switches, must_exist));
  CRUCIBLE_TRY_VOID(add_remotes(remotes, options));
  return store::Store::open(std::move(options));
}

Result<std::pair<store::Explanation, std::vector<store::Asked>>> explain_with_remotes(store::Store& store,
                                                                                      const std::string& digits) {
  Result<store::Explanation> here = store.explain(digits);
  std::vector<store::Asked> asked;
  if (here) asked = store.ask(hash_of(here->key));
  if (!here && digits.size() == kKeyDigits) {
    CRUCIBLE_TRY(const ContentHash key, whole_key(digits));
    asked = store.ask(key);
    const auto known = std::ranges::find_if(asked, [](const auto& each) { return each.statement.has_value(); });
    if (known != asked.end()) here = store.explain(known->statement->key);
    if (known == asked.end() && !asked.empty()) {
      std::string words;
      for (const store::Asked& each : asked) words += fmt::format("; {}: {}", each.place, each.words);
      return Error{ErrorCode::kUsage, here.error().message + words};
    }
  }
  if (!here) return here.error();
  return std::pair(*std::move(here), std::move(asked));
}

ordered_json asked_json(const std::vector<store::Asked>& asked) {
  ordered_json list = ordered_json::array();
  for (const store::Asked& each : asked) {
    ordered_json one = {{"remote", each.place}, {"words", each.words}, {"believed", each.statement.has_value()}};
    if (each.statement) {
      one["maker"] = each.statement->maker;
      one["made_ns"] = each.statement->made_ns;
      one["outputs"] = ordered_json::array();
      for (const store::Output& output : each.statement->outputs) {
        one["outputs"].push_back({{"name", output.name}, {"sha256", output.blob.hex()}, {"size_bytes", output.size}});
      }
    }
    list.push_back(std::move(one));
  }
  return list;
}

void print_asked(const std::vector<store::Asked>& asked) {
  for (const store::Asked& each : asked) {
    std::string made = each.statement ? fmt::format(", made by {}", each.statement->maker) : "";
    print_out("{}: {}{}\n", each.place, each.words, made);
  }
  if (!do_agree(asked)) print_text("they have different answers: the first one's is used\n");
}

ordered_json presence_json(store::Store& store) {
  ordered_json list = ordered_json::array();
  for (const store::Presence& each : store.presence()) {
    ordered_json one = {{"remote", each.place}, {"entries", each.entries}, {"blobs", each.blobs}};
    if (!each.fault.empty()) one = {{"remote", each.place}, {"fault", each.fault}};
    list.push_back(std::move(one));
  }
  return list;
}

void print_presence(store::Store& store, const store::Totals& totals) {
  for (const store::Presence& each : store.presence()) {
    if (!each.fault.empty()) print_out("{}\n", each.fault);
    if (each.fault.empty()) {
      print_out("{} has {} of these {} entries and {} of these {} blobs\n", each.place, each.entries, totals.entries,
                each.blobs, totals.blobs);
    }
  }
}

Result<int> run_push(const StoreSwitches& switches) {
  CRUCIBLE_TRY(const auto store, open_with_remotes(switches, true, true));
  CRUCIBLE_TRY(const auto all, store->push());
  ordered_json list = ordered_json::array();
  std::vector<std::vector<std::string>> rows = {
      {"remote", "written", "blobs", "size", "there already", "there, another answer", "left"}};
  for (const auto& [place, pushed] : all) {
    list.push_back({{"remote", place},
                    {"entries", pushed.entries},
                    {"blobs", pushed.blobs},
                    {"sent_bytes", pushed.bytes},
                    {"there", pushed.there},
                    {"differing", pushed.differing},
                    {"left", pushed.left}});
    rows.push_back({place, fmt::format("{}", pushed.entries), fmt::format("{}", pushed.blobs),
                    format_bytes(pushed.bytes), fmt::format("{}", pushed.there), fmt::format("{}", pushed.differing),
                    fmt::format("{}", pushed.left)});
  }
  if (switches.json) {
    print_json({{"remotes", list}});
  } else {
    print_text(format_table(rows));
  }
  return 0;
}

Result<int> run_pull(const StoreSwitches& switches) {
  CRUCIBLE_TRY(const auto store, open_with_remotes(switches, false, false));
  if (store->places() == 0) {
    return Error{ErrorCode::kUsage,
                 "there is no remote to pull from: --remote URL, or store.remote of the configuration"};
  }
  std::vector<ContentHash> keys;
  for (const std::string& digits : switches.wanted) {
    CRUCIBLE_TRY(const ContentHash key, whole_key(digits));
    keys.push_back(key);
  }
  if (switches.wanted.empty()) {
    CRUCIBLE_TRY(keys, store->missed());
  }
  const std::vector<bool> here = store->pull(keys);
  const auto count = static_cast<std::size_t>(std::ranges::count(here, true));
  ordered_json list = ordered_json::array();
  std::vector<std::vector<std::string>> rows = {{"key", "is here"}};
  for (std::size_t at = 0; at < keys.size(); ++at) {
    list.push_back({{"key", keys[at].hex()}, {"here", static_cast<bool>(here[at])}});
    rows.push_back({keys[at].hex().substr(0, 12), here[at] ? "yes" : "no"});
  }
  if (switches.json) {
    print_json({{"keys", list}});
  } else {
    if (rows.size() > 1) print_text(format_table(rows));
    print_out("{} of {} are here\n", count, plural(keys.size(), "key"));
  }
  return !switches.wanted.empty() && count < keys.size() ? 1 : 0;
}

}  // namespace crucible::cli
