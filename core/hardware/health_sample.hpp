// What a device says of how it is: temperature, power, clocks, memory, errors; each value or the reason why it is not
// there.
//
// Plugins answer with keys and values (the ABI's table `health`); the table of keys below is what is understood of
// them, and reports follow it. What it means is health_policy.hpp's. No vendor is named here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::hardware {

enum class HealthUnit : std::uint8_t { kCelsius, kMilliwatt, kMicrojoule, kHertz, kBytes, kPercent, kCount, kFlag };

/// One number that a device may tell.
struct HealthKey {
  std::string_view name;      // "temperature_celsius"
  HealthUnit unit = HealthUnit::kCount;
  bool is_counter = false;    // only grows while the driver runs
  std::uint64_t largest = 0;  // above it the number cannot be true; 0: any
  std::string_view meaning;
};
/// All that are understood, in the order in which they are shown.
std::span<const HealthKey> health_keys();
const HealthKey* find_health_key(std::string_view name);

/// A number that could have been there and is not.
struct AbsentValue {
  std::string key, reason;
  bool operator==(const AbsentValue&) const = default;
};

/// How the device is in its plugin's own words.
enum class DeviceState : std::uint8_t { kOk, kDegraded, kLost };
std::string_view name(DeviceState state);

class HealthSample {
 public:
  /// Takes a number. One that cannot be true (a sensor's 0xFFFFFFFF) is an absent value with that reason; unknown keys
  /// are kept, for reports of newer plugins.
  void set_number(std::string_view key, std::uint64_t value);
  /// Takes a text; an empty one is none.
  void set_text(std::string_view key, std::string_view text);
  void set_absent(std::string_view key, std::string_view reason);
  void set_state(DeviceState state, std::string_view reason);

  std::optional<std::uint64_t> number(std::string_view key) const;
  /// "" where there is none.
  std::string text(std::string_view key) const;
  const std::map<std::string, std::uint64_t, std::less<>>& numbers() const { return numbers_; }
  const std::map<std::string, std::string, std::less<>>& texts() const { return texts_; }
  const std::vector<AbsentValue>& absent() const { return absent_; }
  DeviceState state() const { return state_; }
  const std::string& state_reason() const { return state_reason_; }

 private:
  std::map<std::string, std::uint64_t, std::less<>> numbers_;
  std::map<std::string, std::string, std::less<>> texts_;
  std::vector<AbsentValue> absent_;
  DeviceState state_ = DeviceState::kOk;
  std::string state_reason_;
};

}  // namespace crucible::hardware
