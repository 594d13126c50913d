// The device profiles that there are: those compiled in, the files of the user's folder, `[device_profile.NAME]` of the
// configuration, and any file that is named.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/hardware/device_profile.hpp"
#include "frontends/config/settings.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::replay {

/// All profiles by name. A file of the user's folder takes the place of a shipped one of its name; the configuration
/// adds to both, and changes single numbers. Errors: kBadInput when a file cannot be read, or when a profile of the
/// configuration has no memory_bytes, or keeps back more than it has.
Result<std::vector<hardware::DeviceProfile>> device_profiles(const config::Settings& settings);

/// The profile of that name; a name with '/' or ending in ".toml" is a file's path. Errors: kUsage with the closest
/// name, and where all are listed; kBadInput of a file.
Result<hardware::DeviceProfile> choose_profile(const std::vector<hardware::DeviceProfile>& profiles,
                                               const std::string& name);

/// What a cost model goes by: the profile called `name`, else the one of the device that is here, if anybody
/// has one (hardware::find_for_device). Null device: only the name counts. Errors: as choose_profile().
Result<std::optional<hardware::DeviceProfile>> profile_of_device(const config::Settings& settings,
                                                                 const std::string& name,
                                                                 const backend::Device* device);

/// With how many threads a device works, as it says itself; 0 where it does not.
std::uint32_t threads_of(const backend::Device& device);

}  // namespace crucible::replay
