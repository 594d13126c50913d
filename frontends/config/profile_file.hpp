// Device profiles as TOML files: reading with every mistake at its place, and writing. hwprofiles/README.md is the
// format.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/hardware/device_profile.hpp"

namespace crucible::config {

/// The profile that `text` describes; `path` is only named in messages. Errors: kBadInput with every mistake, each with
/// file, line and column: no TOML, an unknown key (with the closest one), a wrong type or unit, a number out of range,
/// no provenance, a guess without a reason, and what hardware::check() says.
Result<hardware::DeviceProfile> read_profile(const std::string& text, const std::string& path);

/// The file's profile. Errors: kBadInput when it cannot be read, is larger than 1 MiB, or as read_profile().
Result<hardware::DeviceProfile> read_profile_file(const std::filesystem::path& path);

/// A file that read_profile() reads back, numbers to six digits.
std::string write_profile(const hardware::DeviceProfile& profile);

/// The profiles of hwprofiles/, compiled in, by name. Errors: none but our own faults, for a test reads every one.
Result<std::vector<hardware::DeviceProfile>> shipped_profiles();

/// The folder of the user's own profiles: device_profiles beside the user's crucible.toml; empty where there is none.
std::filesystem::path user_profile_folder();

/// Every *.toml of a folder, by file name; none of a folder that is not there. Errors: those of read_profile_file() of
/// the first that cannot be read, and two with one name.
Result<std::vector<hardware::DeviceProfile>> read_profile_folder(const std::filesystem::path& folder);

}  // namespace crucible::config
