// Rules of the verdict: see health_policy.hpp. One function per subject; each adds what it finds.
#include "core/hardware/health_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace crucible::hardware {
namespace {

constexpr std::uint64_t kBelowSlowdown = 5, kAboveSlowdown = 5, kBelowShutdown = 3;

/// What is judged, and what was found so far.
struct Case {
  const HealthSample& sample;
  const HealthLimits& limits;
  const HealthSample* before;
  std::vector<HealthFinding> found = {};

  std::uint64_t count(std::string_view key) const { return sample.number(key).value_or(0); }
  void warn(std::string reason, std::string next_step) {
    found.push_back({HealthVerdict::kWarn, std::move(reason), std::move(next_step)});
  }
  void sick(std::string reason, std::string next_step) {
    found.push_back({HealthVerdict::kSick, std::move(reason), std::move(next_step)});
  }
  /// By how much a counter rose since the sample before; nothing where one of the two lacks it, or it went back.
  std::optional<std::uint64_t> rise(std::string_view key) const {
    if (before == nullptr) return std::nullopt;
    const auto now = sample.number(key), then = before->number(key);
    if (!now || !then || *now <= *then) return std::nullopt;
    return *now - *then;
  }
};

void judge_state(Case& c) {
  if (c.sample.state() == DeviceState::kLost) {
    c.sick("the device is lost: " + c.sample.state_reason(),
           "move the job to another device; reset this one, or restart the machine");
  }
}

void judge_temperature(Case& c) {
  const auto celsius = c.sample.number("temperature_celsius");
  if (!celsius) return;
  const TemperatureLimits limits = temperature_limits(c.sample, c.limits);
  const auto slowdown = c.sample.number("temperature_slowdown_celsius");
  const std::string own = slowdown ? fmt::format(", and the device slows down at {} C", *slowdown) : "";
  if (*celsius >= limits.sick) {
    c.sick(fmt::format("{} C, {} C is too hot{}", *celsius, limits.sick, own),
           "pause the job and look at fans, air and dust before it goes on");
  } else if (*celsius >= limits.warn) {
    c.warn(fmt::format("{} C, from {} C on that is a warning{}", *celsius, limits.warn, own),
           "look at fans and air, or lower the power limit");
  }
}

void judge_clocks(Case& c) {
  if (const std::string reason = c.sample.text("throttle_reason"); !reason.empty()) {
    c.warn("the device slows itself down: " + reason, "look at cooling and power supply: results are right, but late");
  }
  if (const auto events = c.rise("throttle_events")) {
    c.warn(fmt::format("it was slowed down {} times since the last sample", *events),
           "look at cooling and power supply");
  }
}

void judge_memory_errors(Case& c) {
  if (const std::uint64_t errors = c.count("ecc_errors"); errors > 0) {
    c.sick(fmt::format("{} errors of the memory that were not corrected", errors),
           "go back to a checkpoint from before them, reset the device, replace it if they come again");
  } else if (const std::uint64_t lifetime = c.count("ecc_errors_lifetime"); lifetime > 0) {
    c.warn(fmt::format("{} errors of the memory in its life that were not corrected", lifetime),
           "watch it; replace it if they come again");
  }
  if (const std::uint64_t corrected = c.count("ecc_corrected"); corrected >= c.limits.warn_corrected_errors) {
    c.warn(fmt::format("{} corrected errors of the memory, from {} on that is a warning", corrected,
                       c.limits.warn_corrected_errors),
           "plan to replace the device: such errors come before those that cannot be corrected");
  }
  const std::string memory = c.sample.text("memory_health");
  if (memory == "degraded") c.warn("the device calls its memory degraded", "plan to replace the device");
  if (memory == "critical" || memory == "replace")
    c.sick("the device calls its memory " + memory, "replace the device");
}

void judge_repairs(Case& c) {
  if (c.count("repair_failed") > 0) c.sick("its memory could not be repaired", "replace the device");
  if (c.count("repair_pending") > 0)
    c.warn("its memory is repaired at the next reset", "reset the device between two jobs");
  const std::uint64_t pages = c.count("retired_pages");
  if (pages >= c.limits.sick_retired_pages) {
    c.sick(fmt::format("{} retired pages, {} are too many", pages, c.limits.sick_retired_pages), "replace the device");
  } else if (pages >= c.limits.warn_retired_pages) {
    c.warn(fmt::format("{} retired pages, from {} on that is a warning", pages, c.limits.warn_retired_pages),
           "plan to replace the device");
  }
}

void judge_events(Case& c) {
  const std::string events = c.sample.text("driver_events");
  const std::string which = events.empty() ? "" : " (" + events + ")";
  if (const std::uint64_t errors = c.count("device_errors"); errors > 0) {
    c.sick(fmt::format("the driver blames {} errors on the device{}", errors, which),
           "move the job to another device and reset this one");
  }
  if (const std::uint64_t errors = c.count("program_errors"); errors > 0) {
    c.warn(fmt::format("the driver blames {} errors on a program{}", errors, which),
           "find the program, then watch whether they go on without it");
  }
}

void judge_memory_use(Case& c) {
  const auto used = c.sample.number("memory_used_bytes"), total = c.sample.number("memory_total_bytes");
  if (!used || !total || *total == 0) return;
  const std::uint64_t percent =
      static_cast<std::uint64_t>(static_cast<double>(*used) * 100 / static_cast<double>(*total));
  if (percent >= c.limits.warn_memory_percent) {
    c.warn(fmt::format("{} % of its memory is in use", percent),
           "end programs that are not needed, or use a smaller batch");
  }
}

/// A counter that is smaller than before: the driver, or the device, began anew.
void judge_restart(Case& c) {
  if (c.before == nullptr) return;
  for (const HealthKey& key : health_keys()) {
    const auto now = c.sample.number(key.name), then = c.before->number(key.name);
    if (!key.is_counter || !now || !then || *now >= *then) continue;
    c.warn(fmt::format("{} went back from {} to {}: driver or device began anew", key.name, *then, *now),
           "see in the system's log why, and whether the job is still there");
    return;
  }
}

bool is_measured(const HealthSample& sample) {
  return std::ranges::any_of(health_keys(), [&](const HealthKey& key) { return sample.number(key.name).has_value(); });
}

void set_from(const DeviceProfile& profile, std::string_view key, std::uint64_t& limit) {
  if (profile.find(key) != nullptr) limit = static_cast<std::uint64_t>(std::max(profile.value(key), 0.0));
}

void set_from(const DeviceProfile& profile, std::string_view key, std::optional<std::uint64_t>& limit) {
  if (profile.find(key) != nullptr) limit = static_cast<std::uint64_t>(std::max(profile.value(key), 0.0));
}

}  // namespace

std::string_view name(HealthVerdict verdict) {
  switch (verdict) {
    case HealthVerdict::kUnknown:
      return "unknown";
    case HealthVerdict::kGood:
      return "good";
    case HealthVerdict::kWarn:
      return "warn";
    case HealthVerdict::kSick:
      return "sick";
  }
  return "";
}

HealthLimits limits_of(const DeviceProfile* profile) {
  HealthLimits limits;
  if (profile == nullptr) return limits;
  set_from(*profile, "health.warn_celsius", limits.warn_celsius);
  set_from(*profile, "health.sick_celsius", limits.sick_celsius);
  set_from(*profile, "health.warn_corrected_errors", limits.warn_corrected_errors);
  set_from(*profile, "health.warn_retired_pages", limits.warn_retired_pages);
  set_from(*profile, "health.sick_retired_pages", limits.sick_retired_pages);
  set_from(*profile, "health.warn_memory_percent", limits.warn_memory_percent);
  return limits;
}

TemperatureLimits temperature_limits(const HealthSample& sample, const HealthLimits& limits) {
  const auto slowdown = sample.number("temperature_slowdown_celsius"),
             shutdown = sample.number("temperature_shutdown_celsius");
  const auto below = [](std::uint64_t degrees, std::uint64_t by) { return degrees > by ? degrees - by : 0; };
  TemperatureLimits own = {limits.warn_celsius_untold, limits.sick_celsius_untold};
  if (slowdown) own = {below(*slowdown, kBelowSlowdown), *slowdown + kAboveSlowdown};
  if (shutdown) own.sick = below(*shutdown, kBelowShutdown);
  own.warn = std::min(limits.warn_celsius.value_or(own.warn), limits.sick_celsius.value_or(own.sick));
  own.sick = limits.sick_celsius.value_or(own.sick);
  return own;
}

HealthJudgement judge(const HealthSample& sample, const HealthLimits& limits, const HealthSample* before) {
  Case c{sample, limits, before};
  judge_state(c);
  judge_temperature(c);
  judge_clocks(c);
  judge_memory_errors(c);
  judge_repairs(c);
  judge_events(c);
  judge_memory_use(c);
  judge_restart(c);
  // The plugin complains of something that no rule here knows.
  if (c.found.empty() && sample.state() == DeviceState::kDegraded)
    c.warn(sample.state_reason(), "see what its plugin's README says of it");
  std::ranges::stable_sort(c.found, std::ranges::greater{}, &HealthFinding::verdict);
  HealthJudgement judgement{.findings = std::move(c.found)};
  if (!judgement.findings.empty()) {
    judgement.verdict = judgement.findings.front().verdict;
  } else if (is_measured(sample)) {
    judgement.verdict = HealthVerdict::kGood;
  }
  return judgement;
}

}  // namespace crucible::hardware
