// The way to the loader, under the policy of the configuration: which plugins there are, what they say of
// themselves, and starting one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "frontends/config/settings.hpp"
#include "frontends/replay/observer.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/decision.hpp"
#include "plugins/loader/examine.hpp"
#include "plugins/loader/facts.hpp"

namespace crucible::replay {

/// Why a plugin of that name is not used.
inline constexpr const char* kReferenceNameTaken =
    "the name reference belongs to the interpreter inside crucible: a plugin must be called otherwise";

/// Tells what is odd about the configuration and what of a folder's file is left out.
void tell_warnings(config::Settings& settings, const Observer& observer);

/// Appends every decision of `log` from now on to `file`, one line of JSON each; "" does nothing.
/// Errors: kUsage when the file cannot be written.
Result<void> write_decisions(backend::DecisionLog& log, const std::string& file);

/// Lets the file of plugins.decisions have the loader's decisions. Errors: kUsage when it cannot be written.
Result<void> keep_decisions(const config::Settings& settings);

/// Every plugin in the folders that are searched, by name.
std::vector<backend::FoundBackend> list_plugins(const config::Settings& settings);

/// What was found in those folders and is passed over: manifests whose plugin is gone or that name none, links to
/// nothing, folders that cannot be read. Each with what to do.
std::vector<backend::Decision> passed_over(const config::Settings& settings);

/// Warns of each manifest that an uninstalled plugin has left behind, once per process. That of the plugin that is
/// asked for is named by the error of not finding it.
void tell_left_behind(const config::Settings& settings, const std::string& asked_for, const Observer& observer);

/// What the plugin says of itself without being started; nothing when it cannot be found, is refused, does
/// not answer (loading it then says why), or is not to be probed.
std::optional<backend::PluginFacts> plugin_facts(const config::Settings& settings, const std::string& name);

/// The same from an earlier probe of just this file, where there was one: nothing is loaded, started or asked.
std::optional<backend::PluginFacts> remembered_facts(const config::Settings& settings, const std::string& name);

/// Checks the plugin's options against its own schema and settles them in `settings`; tells what is left out of them.
void settle_options(config::Settings& settings, const std::string& name, const Observer& observer);

/// The same with what is known of the plugin already, and without telling; nothing: its options are taken as they are.
void settle_known_options(config::Settings& settings, const std::string& name,
                          const std::optional<backend::PluginFacts>& facts);

/// What a plugin that was examined is started with: its options, settled and checked. Errors: those of
/// Settings::check() about just these options, whatever is wrong with other plugins'.
Result<backend::Options> options_of(config::Settings& settings, const backend::Examined& plugin);

/// Finds, loads and starts the plugin with its settled options and the store of the configuration. Errors: the
/// loader's, with its record; those of kept_store().
Result<std::shared_ptr<backend::Backend>> load_plugin(const config::Settings& settings, const std::string& name,
                                                      const Observer& observer);

/// One device of one plugin, whatever the configuration would choose; "" is the first. For commands that look at all of
/// them. Errors: those of the plugin's options and the loader's.
Result<std::shared_ptr<backend::Device>> open_listed(config::Settings& settings, const std::string& name,
                                                     const std::string& device_id, const Observer& observer);

}  // namespace crucible::replay
