// The health of devices as a table, as JSON and in Prometheus' text format. Pure: what was sampled is handed in.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "frontends/cli/device_health.hpp"

namespace crucible::cli {

/// A plugin whose devices could not be asked.
struct HealthProblem {
  std::string backend, reason;
};

struct HealthReport {
  std::vector<DeviceHealth> devices;
  std::vector<HealthProblem> problems;
};

/// A row per device, then each finding with what to do about it, and what is not measured with the reason. `told`:
/// lines of the last kind that were printed before are left out, and added; null: all.
std::string health_text(const HealthReport& report, std::set<std::string>* told = nullptr);

/// Keys `devices` and `problems` (docs/health.md).
nlohmann::ordered_json health_json(const HealthReport& report);

/// Text format 0.0.4: a metric with HELP and TYPE for each key that some device tells, in base units, labels escaped.
std::string health_prometheus(const HealthReport& report);
/// A label's value between quotes: backslash, quote and newline escaped.
std::string prometheus_label(std::string_view value);

}  // namespace crucible::cli
