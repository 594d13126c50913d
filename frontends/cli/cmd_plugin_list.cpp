// `crucible plugin list`: every plugin in the places that are searched, one row each. A plugin that cannot be used is a
// row with its reason, and keeps no other from being shown. Nothing of any plugin runs in this process: what is known
// of it comes from the probe, and its devices from a child that starts it with the options of the configuration; with
// --no-probe from what earlier probes kept.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "core/base/terminal.hpp"
#include "frontends/cli/plugin_command.hpp"
#include "frontends/cli/plugin_words.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/config/load_policy.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/plugin_access.hpp"
#include "plugins/loader/examine.hpp"
#include "plugins/loader/inspect.hpp"

namespace crucible::cli {
namespace {

using nlohmann::ordered_json;

struct Row {
  backend::Candidate candidate;
  backend::PluginFacts facts;
  std::vector<backend::DeviceInfo> devices;
  std::string problem;                    // why it cannot be used
  ErrorCode code = ErrorCode::kBadInput;  // and in which way
  backend::Step refused_at = backend::Step::kCandidate;
  std::string warnings;  // why one may hesitate
  bool is_plugin = true;
  bool is_asked = true;  // false: neither probed nor started
  bool is_misconfigured = false;
};

/// The configuration, which the threads that fill rows share.
struct SharedSettings {
  config::Settings& settings;
  std::mutex mutex;
};

std::string abi_of(const backend::PluginFacts& facts) {
  return facts.name.empty() ? "" : fmt::format("{}.{}", facts.abi_major, facts.abi_minor);
}

PluginState state_of(const Row& row) {
  if (row.is_misconfigured) return misconfigured_state(Error{row.code, row.problem});
  if (!row.problem.empty())
    return refused_state(Error{row.code, row.problem}, row.refused_at, row.candidate.name, row.candidate.path);
  if (!row.is_asked)
    return {row.facts.name.empty() ? "unknown" : "seen before", row.facts.name.empty() ? "it was not asked" : ""};
  return {"usable", row.warnings.empty() ? "" : "but " + short_reason(row.warnings, row.candidate.path)};
}

void refuse(Row& row, const Error& error, const backend::DecisionLog& log) {
  row.problem = error.message;
  row.code = error.code;
  row.refused_at = log.of(row.candidate.name).back().step;
}

void fill_row(Row& row, SharedSettings& shared, const backend::LoadPolicy& policy, backend::DecisionLog& log) {
  const Result<backend::Examined> examined = backend::examine_candidate(row.candidate, policy, log);
  if (!examined) {
    // The runtime's own libraries are named like plugins; anywhere else a library without the query is a broken plugin.
    row.is_plugin = !(row.candidate.beside_runtime && examined.error().code == ErrorCode::kBadInput &&
                      log.of(row.candidate.name).back().step == backend::Step::kInspect);
    refuse(row, examined.error(), log);
    return;
  }
  row.facts = examined->facts;
  if (row.candidate.name == kReferenceBackend) {
    row.problem = kReferenceNameTaken;
    return;
  }
  for (const std::string& warning : examined->warnings) row.warnings += row.warnings.empty() ? warning : "; " + warning;
  const Result<backend::Options> options = [&] {
    const std::lock_guard lock(shared.mutex);
    return options_of(shared.settings, *examined);
  }();
  if (!options) {
    row.problem = options.error().message;
    row.code = options.error().code;
    row.is_misconfigured = true;
    return;
  }
  auto devices = backend::probe_devices(*examined, *options, policy, log);
  if (devices) {
    row.devices = *std::move(devices);
  } else {
    refuse(row, devices.error(), log);
  }
}

/// What was found and cannot even be looked at: manifests that say nothing, links to nothing, folders that may not be
/// read.
void add_refused_candidates(const backend::DecisionLog& log, std::vector<Row>& rows) {
  for (const backend::Decision& decision : log.all()) {
    if (decision.step != backend::Step::kCandidate || decision.outcome != backend::Outcome::kRefused) continue;
    Row& row = rows.emplace_back();
    row.candidate.name = decision.plugin;
    row.candidate.path = decision.path;
    row.problem = decision.reason;
  }
}

/// Without starting anything: who the plugin is, where that is remembered.
void fill_row_unasked(Row& row, const backend::LoadPolicy& policy) {
  row.is_asked = false;
  const bool is_plugin = backend::exports_symbol(row.candidate.path, CRUCIBLE_QUERY_SYMBOL);
  row.is_plugin = is_plugin || !row.candidate.beside_runtime;  // the runtime's own libraries are named like plugins
  if (!is_plugin)
    row.problem = fmt::format("{} is not a Crucible plugin: it exports no {}", row.candidate.path.string(),
                              CRUCIBLE_QUERY_SYMBOL);
  if (auto facts = backend::remembered_facts(row.candidate, policy)) row.facts = *std::move(facts);
}

std::vector<Row> all_rows(config::Settings& settings, bool ask, backend::DecisionLog& log) {
  const backend::LoadPolicy policy = config::load_policy(settings);
  SharedSettings shared{settings, {}};
  std::vector<Row> rows;
  for (backend::Candidate& candidate : backend::find_candidates(policy, log)) {
    rows.emplace_back().candidate = std::move(candidate);
  }
  std::atomic<std::size_t> next{0};
  const std::size_t candidates = rows.size();
  add_refused_candidates(log, rows);
  const auto work = [&] {
    for (std::size_t i; (i = next++) < candidates;) {
      if (ask) fill_row(rows[i], shared, policy, log);
      if (!ask) fill_row_unasked(rows[i], policy);
    }
  };
  // Twice the processors: one plugin that hangs until its time limit does not hold up the others.
  const std::size_t wanted = std::min<std::size_t>(rows.size(), 2 * std::max(2u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < wanted; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  std::erase_if(rows, [](const Row& row) { return !row.is_plugin; });
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.candidate.name < b.candidate.name; });
  return rows;
}

ordered_json row_json(const Row& row) {
  ordered_json devices = ordered_json::array();
  for (const backend::DeviceInfo& device : row.devices) {
    devices.push_back({{"id", device.id}, {"name", device.name}, {"kind", device.kind}});
  }
  return {{"name", row.candidate.name},
          {"path", row.candidate.path.string()},
          {"source", row.candidate.source},
          {"vendor", row.facts.vendor},
          {"version", row.facts.version},
          {"abi", abi_of(row.facts)},
          {"build_id", row.facts.build_id},
          {"devices", devices},
          {"usable", row.is_asked ? ordered_json(row.problem.empty()) : ordered_json(nullptr)},
          {"state", state_of(row).word},
          {"reason", row.problem},
          {"warning", row.warnings}};
}

}  // namespace

Result<int> run_plugin_list(bool json, bool ask, const std::string& decisions) {
  CRUCIBLE_TRY(config::Settings settings, load_settings({}, terminal()));
  backend::DecisionLog& log = backend::process_log();
  CRUCIBLE_TRY_VOID(write_decisions(log, decisions));
  ordered_json document = {{"plugins", ordered_json::array()}};
  std::vector<std::vector<std::string>> table = {{"plugin", "state", "devices", "version", "abi", "vendor", "why"}};
  std::map<std::string, std::string> folders;  // folder -> the files of it that are in the table
  const std::vector<Row> rows = all_rows(settings, ask, log);
  tell_warnings(settings, terminal());
  for (const Row& row : rows) {
    document["plugins"].push_back(row_json(row));
    const PluginState state = state_of(row);
    table.push_back({row.candidate.name, state.word,
                     row.problem.empty() && row.is_asked ? std::to_string(row.devices.size()) : "", row.facts.version,
                     abi_of(row.facts), row.facts.vendor, state.why});
    std::string& files = folders[row.candidate.path.parent_path()];
    files += (files.empty() ? "" : ", ") + row.candidate.path.filename().string();
  }
  if (json) {
    print_json(document);
    return 0;
  }
  print_out("{}\n", format_table(table));
  for (const auto& [folder, files] : folders) print_out("in {}: {}\n", folder, files);
  print_out("crucible plugin explain NAME has the whole reason and what to do\n");
  return 0;
}

}  // namespace crucible::cli
