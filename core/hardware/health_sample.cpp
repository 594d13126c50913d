// The table of a device's numbers: see health_sample.hpp.
#include "core/hardware/health_sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace crucible::hardware {
namespace {

// What no device of today reaches by far: a number above it is a sensor that does not answer, or a unit that was
// mistaken.
constexpr std::uint64_t kHot = 200, kMuchPower = 100'000'000, kFast = 100'000'000'000,
                        kManyBytes = std::uint64_t{1} << 50;

constexpr auto kKeys = std::to_array<HealthKey>({
    {"temperature_celsius", HealthUnit::kCelsius, false, kHot, "hottest sensor of the processor"},
    {"temperature_memory_celsius", HealthUnit::kCelsius, false, kHot, "hottest sensor of the memory"},
    {"temperature_slowdown_celsius", HealthUnit::kCelsius, false, kHot, "at which the device slows itself down"},
    {"temperature_shutdown_celsius", HealthUnit::kCelsius, false, kHot, "at which the device switches itself off"},
    {"power_milliwatt", HealthUnit::kMilliwatt, false, kMuchPower, "drawn now"},
    {"power_limit_milliwatt", HealthUnit::kMilliwatt, false, kMuchPower, "that the device keeps to"},
    {"energy_microjoule", HealthUnit::kMicrojoule, true, 0, "drawn since the driver started"},
    {"clock_hz", HealthUnit::kHertz, false, kFast, "of the processor, now"},
    {"clock_max_hz", HealthUnit::kHertz, false, kFast, "of the processor, at most"},
    {"clock_memory_hz", HealthUnit::kHertz, false, kFast, "of the memory, now"},
    {"memory_used_bytes", HealthUnit::kBytes, false, kManyBytes, "by all programs"},
    {"memory_total_bytes", HealthUnit::kBytes, false, kManyBytes, ""},
    {"utilization_percent", HealthUnit::kPercent, false, 100, "of the time, in which the processor had work"},
    {"ecc_errors", HealthUnit::kCount, true, 0, "that were not corrected, since the driver started"},
    {"ecc_corrected", HealthUnit::kCount, true, 0, "that were corrected, since the driver started"},
    {"ecc_errors_lifetime", HealthUnit::kCount, true, 0, "that were not corrected, in the device's life"},
    {"ecc_corrected_lifetime", HealthUnit::kCount, true, 0, "that were corrected, in the device's life"},
    {"retired_pages", HealthUnit::kCount, false, 0, "of the memory that are not used any more"},
    {"remapped_rows", HealthUnit::kCount, false, 0, "of the memory that spare ones replace"},
    {"repair_pending", HealthUnit::kFlag, false, 1, "1: the memory is repaired at the next reset"},
    {"repair_failed", HealthUnit::kFlag, false, 1, "1: the memory could not be repaired"},
    {"device_errors", HealthUnit::kCount, true, 0, "that the driver blames on the device, since somebody listens"},
    {"program_errors", HealthUnit::kCount, true, 0, "that the driver blames on a program, since somebody listens"},
    {"throttle_events", HealthUnit::kCount, true, 0, "times that the device was slowed down, since it started"},
    {"processes", HealthUnit::kCount, false, 0, "that compute on the device"},
});

}  // namespace

std::span<const HealthKey> health_keys() { return kKeys; }

const HealthKey* find_health_key(std::string_view name) {
  const auto found = std::ranges::find(kKeys, name, &HealthKey::name);
  return found == kKeys.end() ? nullptr : &*found;
}

std::string_view name(DeviceState state) {
  switch (state) {
    case DeviceState::kOk:
      return "ok";
    case DeviceState::kDegraded:
      return "degraded";
    case DeviceState::kLost:
      return "lost";
  }
  return "";
}

void HealthSample::set_number(std::string_view key, std::uint64_t value) {
  const HealthKey* const known = find_health_key(key);
  if (known != nullptr && known->largest != 0 && value > known->largest) {
    set_absent(key, fmt::format("the driver told {}, which cannot be", value));
    return;
  }
  numbers_.insert_or_assign(std::string(key), value);
}

void HealthSample::set_text(std::string_view key, std::string_view text) {
  if (!text.empty()) texts_.insert_or_assign(std::string(key), std::string(text));
}

void HealthSample::set_absent(std::string_view key, std::string_view reason) {
  absent_.push_back({std::string(key), std::string(reason)});
}

void HealthSample::set_state(DeviceState state, std::string_view reason) {
  state_ = state;
  state_reason_ = reason;
}

std::optional<std::uint64_t> HealthSample::number(std::string_view key) const {
  const auto found = numbers_.find(key);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

std::string HealthSample::text(std::string_view key) const {
  const auto found = texts_.find(key);
  return found == texts_.end() ? "" : found->second;
}

}  // namespace crucible::hardware
