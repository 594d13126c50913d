// Prometheus' text format, version 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats): all lines of
// one metric together, behind its HELP and TYPE; base units; counters end in _total.
#include <fmt/format.h>

#include "frontends/cli/health_report.hpp"

namespace crucible::cli {
namespace {

using hardware::HealthKey;
using hardware::HealthUnit;

constexpr const char* kPrefix = "crucible_device_";

/// How a key's number becomes one in base units: the name's end that is replaced, and the digits behind the point.
struct BaseUnit {
  std::string_view suffix, base;
  int decimals = 0;
};

BaseUnit base_unit(HealthUnit unit) {
  switch (unit) {
    case HealthUnit::kCelsius:
      return {"_celsius", "_celsius"};
    case HealthUnit::kMilliwatt:
      return {"_milliwatt", "_watts", 3};
    case HealthUnit::kMicrojoule:
      return {"_microjoule", "_joules", 6};
    case HealthUnit::kHertz:
      return {"_hz", "_hertz"};
    case HealthUnit::kBytes:
      return {"_bytes", "_bytes"};
    case HealthUnit::kPercent:
      return {"_percent", "_ratio", 2};
    case HealthUnit::kCount:
    case HealthUnit::kFlag:
      return {"", ""};
  }
  return {};
}

std::string metric_name(const HealthKey& key) {
  const BaseUnit unit = base_unit(key.unit);
  std::string name(key.name);
  if (!unit.suffix.empty() && name.ends_with(unit.suffix))
    name.replace(name.size() - unit.suffix.size(), unit.suffix.size(), unit.base);
  return kPrefix + name + (key.is_counter ? "_total" : "");
}

/// In whole numbers: no digit of a large counter is lost.
std::string decimal(std::uint64_t value, int decimals) {
  std::uint64_t factor = 1;
  for (int i = 0; i < decimals; ++i) factor *= 10;
  if (factor == 1) return std::to_string(value);
  return fmt::format("{}.{:0{}}", value / factor, value % factor, decimals);
}

std::string labels(const DeviceHealth& device) {
  return fmt::format("backend=\"{}\",device=\"{}\",name=\"{}\",emulated=\"{}\"", prometheus_label(device.backend),
                     prometheus_label(device.info.id), prometheus_label(device.info.name),
                     device.info.emulated ? "true" : "false");
}

std::string head(std::string_view name, std::string_view help, std::string_view type) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

std::string key_metric(const HealthKey& key, const HealthReport& report) {
  std::string lines;
  const std::string name = metric_name(key);
  for (const DeviceHealth& device : report.devices) {
    const auto value = device.sample.number(key.name);
    if (value)
      lines += fmt::format("{}{{{}}} {}\n", name, labels(device), decimal(*value, base_unit(key.unit).decimals));
  }
  if (lines.empty()) return "";
  return head(name, key.meaning.empty() ? key.name : key.meaning, key.is_counter ? "counter" : "gauge") + lines;
}

}  // namespace

std::string prometheus_label(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

std::string health_prometheus(const HealthReport& report) {
  std::string verdicts, throttled;
  for (const DeviceHealth& device : report.devices) {
    verdicts +=
        fmt::format("crucible_device_verdict{{{}}} {}\n", labels(device), static_cast<int>(device.judgement.verdict));
    const std::string reason = device.sample.text("throttle_reason");
    if (!reason.empty())
      throttled +=
          fmt::format("crucible_device_throttled{{{},reason=\"{}\"}} 1\n", labels(device), prometheus_label(reason));
  }
  std::string text;
  if (!verdicts.empty())
    text += head("crucible_device_verdict", "0 nothing is measured, 1 good, 2 warn, 3 sick", "gauge") + verdicts;
  if (!throttled.empty())
    text += head("crucible_device_throttled", "1 while the device slows itself down", "gauge") + throttled;
  for (const HealthKey& key : hardware::health_keys()) text += key_metric(key, report);
  if (!report.problems.empty())
    text += head("crucible_backend_problem", "1 for a plugin whose devices could not be asked", "gauge");
  for (const HealthProblem& problem : report.problems)
    text += fmt::format("crucible_backend_problem{{backend=\"{}\",reason=\"{}\"}} 1\n",
                        prometheus_label(problem.backend), prometheus_label(problem.reason));
  return text;
}

}  // namespace crucible::cli
