// The device profiles that a command knows: the built-in ones and `[device_profile.NAME]` of the configuration.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/runtime/device_profile.hpp"
#include "frontends/config/settings.hpp"

namespace crucible::cli {

/// All profiles by name. The configuration adds to them, and changes single numbers of those that are built in.
/// Errors: kBadInput when one of the configuration has no memory_bytes, or keeps back more than it has.
Result<std::vector<runtime::DeviceProfile>> device_profiles(const config::Settings& settings);

/// The profile of that name. Errors: kUsage with the closest name, and where all are listed.
Result<runtime::DeviceProfile> choose_profile(const std::vector<runtime::DeviceProfile>& profiles,
                                              const std::string& name);

/// A table, and rows as JSON.
std::string profiles_text(const std::vector<runtime::DeviceProfile>& profiles);
nlohmann::ordered_json profiles_json(const std::vector<runtime::DeviceProfile>& profiles);

}  // namespace crucible::cli
