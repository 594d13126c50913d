#include "frontends/replay/plugin_access.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/config/load_policy.hpp"
#include "frontends/config/plugin_keys.hpp"
#include "frontends/replay/kept_store.hpp"
#include "frontends/replay/open_device.hpp"
#include "plugins/loader/inspect.hpp"

namespace crucible::replay {

void tell_warnings(config::Settings& settings, const Observer& observer) {
  for (const std::string& warning : settings.take_warnings()) {
    if (observer.notice) observer.notice({Notice::Level::kWarning, warning, true});
  }
}

Result<void> write_decisions(backend::DecisionLog& log, const std::string& file) {
  if (file.empty()) return {};
  const Result<void> opened = log.append_to(file);
  if (opened) return {};
  return Error{ErrorCode::kUsage, fmt::format("the loader's decisions: {}", opened.error().message)};
}

Result<void> keep_decisions(const config::Settings& settings) {
  const config::Setting* setting = settings.find("plugins.decisions");
  // What the variable names, the loader's log writes by itself.
  if (setting == nullptr || setting->origin.layer == config::Layer::kEnvironment) return {};
  return write_decisions(backend::process_log(), config::to_text(setting->value));
}

std::vector<backend::FoundBackend> list_plugins(const config::Settings& settings) {
  backend::DecisionLog looking;  // what is only looked at is not decided: the log of the process gets what is loaded
  std::vector<backend::FoundBackend> found;
  for (const backend::Candidate& candidate : backend::find_candidates(config::load_policy(settings), looking)) {
    if (backend::exports_symbol(candidate.path, CRUCIBLE_QUERY_SYMBOL))
      found.push_back({candidate.name, candidate.path});
  }
  std::ranges::sort(found, {}, &backend::FoundBackend::name);
  return found;
}

std::vector<backend::Decision> passed_over(const config::Settings& settings) {
  backend::DecisionLog looking;
  backend::find_candidates(config::load_policy(settings), looking);
  std::vector<backend::Decision> decisions = looking.all();
  std::erase_if(decisions, [](const backend::Decision& decision) {
    return decision.step != backend::Step::kCandidate || decision.outcome != backend::Outcome::kRefused;
  });
  return decisions;
}

void tell_left_behind(const config::Settings& settings, const std::string& asked_for, const Observer& observer) {
  backend::DecisionLog& log = backend::process_log();
  for (backend::Decision& decision : backend::manifests_left_behind(config::load_policy(settings))) {
    const auto is_same = [&](const backend::Decision& other) { return other.reason == decision.reason; };
    if (decision.plugin == asked_for || std::ranges::any_of(log.of(decision.plugin), is_same)) continue;
    observer.tell(Notice::Level::kWarning, decision.reason);
    log.add(std::move(decision));
  }
}

std::optional<backend::PluginFacts> plugin_facts(const config::Settings& settings, const std::string& name) {
  backend::DecisionLog looking;
  const backend::LoadPolicy policy = config::load_policy(settings);
  const Result<backend::Candidate> candidate = backend::find_candidate(name, policy, looking);
  if (!candidate) return std::nullopt;
  const Result<backend::Examined> examined = backend::examine_candidate(*candidate, policy, looking);
  if (!examined || !examined->probed) return std::nullopt;
  return examined->facts;
}

std::optional<backend::PluginFacts> remembered_facts(const config::Settings& settings, const std::string& name) {
  backend::DecisionLog looking;
  const backend::LoadPolicy policy = config::load_policy(settings);
  const Result<backend::Candidate> candidate = backend::find_candidate(name, policy, looking);
  return candidate ? backend::remembered_facts(*candidate, policy) : std::nullopt;
}

void settle_known_options(config::Settings& settings, const std::string& name,
                          const std::optional<backend::PluginFacts>& facts) {
  static const std::vector<config::Key> kNoOptions;
  if (name == kReferenceBackend) return settings.add_plugin(name, &kNoOptions);
  if (!facts || facts->options.empty()) return settings.add_plugin(name, nullptr);
  const std::vector<config::Key> keys = config::keys_of(facts->options);
  settings.add_plugin(name, &keys);
}

void settle_options(config::Settings& settings, const std::string& name, const Observer& observer) {
  settle_known_options(settings, name, name == kReferenceBackend ? std::nullopt : plugin_facts(settings, name));
  tell_warnings(settings, observer);
}

Result<backend::Options> options_of(config::Settings& settings, const backend::Examined& plugin) {
  const std::string& name = plugin.candidate.name;
  const std::size_t known = settings.problems().size();
  settle_known_options(settings, name, plugin.probed ? std::optional(plugin.facts) : std::nullopt);
  CRUCIBLE_TRY_VOID(settings.check(known));
  return settings.plugin_options(name);
}

Result<std::shared_ptr<backend::Backend>> load_plugin(const config::Settings& settings, const std::string& name,
                                                      const Observer& observer) {
  if (name == kReferenceBackend) return Error{ErrorCode::kUnavailable, kReferenceNameTaken};
  backend::LoadPolicy policy = config::load_policy(settings);
  CRUCIBLE_TRY(policy.store, kept_store(settings, observer));
  return backend::load(name, settings.plugin_options(name), policy, backend::process_log());
}

Result<std::shared_ptr<backend::Device>> open_listed(config::Settings& settings, const std::string& name,
                                                     const std::string& device_id, const Observer& observer) {
  const std::size_t known = settings.problems().size();
  settle_options(settings, name, observer);
  CRUCIBLE_TRY_VOID(settings.check(known));
  CRUCIBLE_TRY(const std::shared_ptr<backend::Backend> backend, load_plugin(settings, name, observer));
  return backend->open(device_id);
}

}  // namespace crucible::replay
