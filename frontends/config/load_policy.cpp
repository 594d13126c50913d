#include "frontends/config/load_policy.hpp"

#include <fmt/format.h>

#include <string_view>

namespace crucible::config {

backend::LoadPolicy load_policy(const Settings& settings) {
  constexpr std::string_view kPins = "plugins.pins.";
  backend::LoadPolicy policy;
  const Setting* folders = settings.find("plugins.folders");
  if (folders != nullptr &&
      folders->origin.layer != Layer::kEnvironment) {  // the loader reads CRUCIBLE_PLUGIN_PATH itself
    for (const std::string& folder : settings.list("plugins.folders")) policy.folders.emplace_back(folder);
  }
  policy.allow = settings.list("plugins.allow");
  policy.deny = settings.list("plugins.deny");
  for (const auto& [key, setting] : settings.all()) {
    if (!key.starts_with(kPins)) continue;
    policy.pins[key.substr(kPins.size())] = to_text(setting.value);
    policy.pinned_by[key.substr(kPins.size())] = fmt::format("the key {} ({})", key, setting.origin.place());
  }
  const std::string trust = settings.text("plugins.trust");
  policy.trust = trust == "off"       ? backend::TrustPolicy::kOff
                 : trust == "enforce" ? backend::TrustPolicy::kEnforce
                                      : backend::TrustPolicy::kWarn;
  policy.probe = settings.flag("plugins.probe");
  policy.probe_time_limit = std::chrono::milliseconds(settings.number("plugins.probe_time_limit_ms"));
  policy.layers = settings.list("plugins.layers");
  policy.trace_file = settings.text("plugins.trace_file");
  return policy;
}

}  // namespace crucible::config
