#include "frontends/cli/plugin_access.hpp"

#include <algorithm>

#include "frontends/config/load_policy.hpp"
#include "frontends/config/plugin_keys.hpp"
#include "plugins/loader/examine.hpp"
#include "plugins/loader/inspect.hpp"

namespace crucible::cli {

std::vector<backend::FoundBackend> list_plugins(const config::Settings& settings) {
  const backend::LoadPolicy policy = config::load_policy(settings);
  std::vector<backend::FoundBackend> found;
  for (const backend::Candidate& candidate : backend::find_candidates(policy, backend::process_log())) {
    if (backend::exports_symbol(candidate.path, CRUCIBLE_QUERY_SYMBOL)) found.push_back({candidate.name, candidate.path});
  }
  std::ranges::sort(found, {}, &backend::FoundBackend::name);
  return found;
}

std::optional<backend::PluginFacts> plugin_facts(const config::Settings& settings, const std::string& name) {
  const backend::LoadPolicy policy = config::load_policy(settings);
  const auto candidate = backend::find_candidate(name, policy, backend::process_log());
  if (!candidate) return std::nullopt;
  auto examined = backend::examine_candidate(*candidate, policy, backend::process_log());
  if (!examined || !examined->probed) return std::nullopt;
  return std::move(examined->facts);
}

void settle_options(config::Settings& settings, const std::string& name) {
  const std::optional<backend::PluginFacts> facts = plugin_facts(settings, name);
  if (!facts || facts->options.empty()) return settings.add_plugin(name, nullptr);
  const std::vector<config::Key> keys = config::keys_of(facts->options);
  settings.add_plugin(name, &keys);
}

Result<std::shared_ptr<backend::Backend>> load_plugin(const config::Settings& settings, const std::string& name) {
  return backend::load(name, settings.plugin_options(name), config::load_policy(settings), backend::process_log());
}

Result<std::shared_ptr<backend::Device>> open_listed(config::Settings& settings, const std::string& name,
                                                     const std::string& device_id) {
  settle_options(settings, name);
  CRUCIBLE_TRY_VOID(settings.check());
  CRUCIBLE_TRY(const std::shared_ptr<backend::Backend> backend, load_plugin(settings, name));
  return backend->open(device_id);
}

}  // namespace crucible::cli
