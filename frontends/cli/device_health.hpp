// Asking a plugin how its devices are, and the verdict on each: what `crucible health` reports and `crucible devices`
// shows in a column.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/hardware/health_policy.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::cli {

struct DeviceHealth {
  std::string backend;
  backend::DeviceInfo info;
  hardware::HealthSample sample;
  hardware::HealthJudgement judgement;
};

/// One sample of a device, which is not opened. A plugin without the table `health`, or that cannot answer, gives a
/// sample with the reason as the text "note"; a device that is lost says so as its state.
hardware::HealthSample sample_health(const backend::Backend& backend, const std::string& device_id);

/// The sample and its verdict, by the device's profile where there is one. `before`: the sample before of the same
/// device, or null.
DeviceHealth device_health(const backend::Backend& backend, const std::string& plugin, const backend::DeviceInfo& info,
                           std::span<const hardware::DeviceProfile> profiles,
                           const hardware::HealthSample* before = nullptr);

/// The worst of them; kUnknown when there is none.
hardware::HealthVerdict worst(std::span<const DeviceHealth> devices);

}  // namespace crucible::cli
