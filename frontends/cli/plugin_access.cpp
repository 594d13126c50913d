#include "frontends/cli/plugin_access.hpp"

#include "frontends/config/plugin_keys.hpp"

namespace crucible::cli {

std::vector<backend::FoundBackend> list_plugins(const config::Settings&) { return backend::list_backends(); }

std::optional<backend::PluginFacts> plugin_facts(const config::Settings&, const std::string&) { return std::nullopt; }

void settle_options(config::Settings& settings, const std::string& name) {
  const std::optional<backend::PluginFacts> facts = plugin_facts(settings, name);
  if (!facts || facts->options.empty()) return settings.add_plugin(name, nullptr);
  const std::vector<config::Key> keys = config::keys_of(facts->options);
  settings.add_plugin(name, &keys);
}

Result<std::shared_ptr<backend::Backend>> load_plugin(const config::Settings& settings, const std::string& name) {
  CRUCIBLE_TRY(const std::filesystem::path path, backend::find_backend(name));
  return backend::Backend::load(path, settings.plugin_options(name));
}

Result<std::shared_ptr<backend::Device>> open_listed(config::Settings& settings, const std::string& name,
                                                     const std::string& device_id) {
  settle_options(settings, name);
  CRUCIBLE_TRY_VOID(settings.check());
  CRUCIBLE_TRY(const std::shared_ptr<backend::Backend> backend, load_plugin(settings, name));
  return backend->open(device_id);
}

}  // namespace crucible::cli
