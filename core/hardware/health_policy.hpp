// Whether a device can be trusted with a job: a verdict on what it says of itself, with each reason and what to do
// about it.
//
// Limits are the device's own (the temperature at which it slows down), those of its profile (hwprofiles/, figures
// health.*), else the defaults below. Pure: no device is asked here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/hardware/device_profile.hpp"
#include "core/hardware/health_sample.hpp"

namespace crucible::hardware {

/// From best to worst, kUnknown being neither: nothing of the device is measured.
enum class HealthVerdict : std::uint8_t { kUnknown, kGood, kWarn, kSick };
std::string_view name(HealthVerdict verdict);

struct HealthLimits {
  std::optional<std::uint64_t> warn_celsius = {}, sick_celsius = {};  // nothing: from the device's own thresholds
  std::uint64_t warn_celsius_untold = 85, sick_celsius_untold = 95;   // of a device that tells no threshold
  std::uint64_t warn_corrected_errors = 1000;                         // since the driver started
  std::uint64_t warn_retired_pages = 15, sick_retired_pages = 60;
  std::uint64_t warn_memory_percent = 98;
};
/// The profile's figures health.*, else the defaults. Null: the defaults.
HealthLimits limits_of(const DeviceProfile* profile);

/// Degrees from which a device is warned about and sick. Between the two the device's own: 5 below the slowdown, 3
/// below the shutdown; where it tells no shutdown, 5 above the slowdown.
struct TemperatureLimits {
  std::uint64_t warn = 0, sick = 0;
};
TemperatureLimits temperature_limits(const HealthSample& sample, const HealthLimits& limits);

/// One reason for a verdict.
struct HealthFinding {
  HealthVerdict verdict = HealthVerdict::kWarn;
  std::string reason;     // "91 C, and the device slows down at 92 C"
  std::string next_step;  // "check fans and air"
};

struct HealthJudgement {
  HealthVerdict verdict = HealthVerdict::kUnknown;  // the worst of the findings; kGood when there is none
  std::vector<HealthFinding> findings;              // the worst first
};

/// `before`: an earlier sample of the same device, or null; then counters that rose, or went back, count too.
HealthJudgement judge(const HealthSample& sample, const HealthLimits& limits, const HealthSample* before = nullptr);

}  // namespace crucible::hardware
