// Device profiles as tables and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/hardware/device_profile.hpp"

namespace crucible::cli {

/// A table, and rows as JSON.
std::string profiles_text(const std::vector<hardware::DeviceProfile>& profiles);
nlohmann::ordered_json profiles_json(const std::vector<hardware::DeviceProfile>& profiles);
/// Every figure with its unit, provenance and note: one row each.
std::string profile_text(const hardware::DeviceProfile& profile);
/// By name of the figure: value in units without prefix, provenance, note, spread.
nlohmann::ordered_json figures_json(const hardware::DeviceProfile& profile);

}  // namespace crucible::cli
