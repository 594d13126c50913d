// What the commands about plugins share: one line of a long reason.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/result.hpp"
#include "plugins/loader/decision.hpp"

namespace crucible::cli {

/// A reason on one line, without the path of the plugin that stands beside it anyway.
std::string short_reason(const std::string& reason, const std::filesystem::path& plugin);

/// What a plugin is in a table, and why in a few words. The whole reason is what `crucible plugin explain` is for.
struct PluginState {
  std::string word;  // usable, unavailable, misconfigured, not allowed, not trusted, broken
  std::string why;   // "" where there is nothing to say
};

/// The state of a plugin that was refused at `step`. A plugin that started and then said itself that it
/// cannot work here, for want of a driver or a device, is unavailable; one that fails in any other way is broken.
PluginState refused_state(const Error& error, backend::Step step, const std::string& name,
                          const std::filesystem::path& path);

/// The state of a plugin whose options are wrong: the user's to mend, and the plugin was not started.
PluginState misconfigured_state(const Error& error);

/// The same as above where the step is not known.
PluginState refused_state(const Error& error, const std::string& name, const std::filesystem::path& path);

}  // namespace crucible::cli
