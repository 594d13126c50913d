// Table and JSON: see health_report.hpp. Prometheus is health_prometheus.cpp.
#include "frontends/cli/health_report.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "frontends/cli/command.hpp"

namespace crucible::cli {
namespace {

using hardware::HealthSample;
using nlohmann::ordered_json;

constexpr const char* kNothing = "-";

std::string optional_text(const std::optional<std::uint64_t>& value, double factor, std::string_view unit) {
  return value ? fmt::format("{:.0f} {}", static_cast<double>(*value) * factor, unit) : kNothing;
}

/// "350 / 700 W": now and at most.
std::string power_text(const HealthSample& sample) {
  const auto now = sample.number("power_milliwatt"), limit = sample.number("power_limit_milliwatt");
  if (!now || !limit) return optional_text(now, 1e-3, "W");
  return fmt::format("{:.0f} / {:.0f} W", static_cast<double>(*now) / 1e3, static_cast<double>(*limit) / 1e3);
}

std::string memory_text(const HealthSample& sample) {
  const auto used = sample.number("memory_used_bytes"), total = sample.number("memory_total_bytes");
  if (!used) return kNothing;
  return total ? fmt::format("{} of {}", format_bytes(*used), format_bytes(*total)) : format_bytes(*used);
}

std::string errors_text(const HealthSample& sample) {
  constexpr std::pair<const char*, const char*> kCounts[] = {{"ecc_errors", "memory"},
                                                             {"ecc_corrected", "corrected"},
                                                             {"device_errors", "device"},
                                                             {"program_errors", "program"}};
  std::string text;
  bool is_counted = false;
  for (const auto& [key, words] : kCounts) {
    const auto count = sample.number(key);
    is_counted |= count.has_value();
    if (count.value_or(0) > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", *count, words);
  }
  if (!text.empty()) return text;
  return is_counted ? "none" : kNothing;
}

std::string throttle_text(const HealthSample& sample) {
  if (const std::string reason = sample.text("throttle_reason"); !reason.empty()) return reason;
  return sample.number("clock_hz") ? "none" : kNothing;
}

std::string name_text(const DeviceHealth& device) {
  const bool says_so = device.info.name.find("emulated") != std::string::npos;
  return device.info.name + (device.info.emulated && !says_so ? " (emulated)" : "");
}

/// "energy_microjoule, processes" by their reason: what fails for one reason is one line.
std::map<std::string, std::string> absent_by_reason(const HealthSample& sample) {
  std::map<std::string, std::string> lines;
  for (const hardware::AbsentValue& value : sample.absent()) {
    std::string& keys = lines[value.reason];
    keys += (keys.empty() ? "" : ", ") + value.key;
  }
  return lines;
}

ordered_json findings_json(const hardware::HealthJudgement& judgement) {
  ordered_json findings = ordered_json::array();
  for (const hardware::HealthFinding& finding : judgement.findings) {
    findings.push_back(
        {{"verdict", hardware::name(finding.verdict)}, {"reason", finding.reason}, {"next_step", finding.next_step}});
  }
  return findings;
}

ordered_json device_json(const DeviceHealth& device) {
  ordered_json row = {{"backend", device.backend},
                      {"id", device.info.id},
                      {"name", device.info.name},
                      {"emulated", device.info.emulated},
                      {"verdict", hardware::name(device.judgement.verdict)},
                      {"findings", findings_json(device.judgement)},
                      {"state", hardware::name(device.sample.state())},
                      {"state_reason", device.sample.state_reason()},
                      {"values", ordered_json::object()},
                      {"texts", ordered_json::object()},
                      {"not_measured", ordered_json::object()}};
  for (const auto& [key, value] : device.sample.numbers()) row["values"][key] = value;
  for (const auto& [key, value] : device.sample.texts()) row["texts"][key] = value;
  for (const hardware::AbsentValue& value : device.sample.absent()) row["not_measured"][value.key] = value.reason;
  return row;
}

/// Lines that are worth saying once.
class OnceLines {
 public:
  explicit OnceLines(std::set<std::string>* told) : told_(told) {}
  void add(const std::string& line) {
    if (told_ == nullptr || told_->insert(line).second) text += line;
  }
  std::string text;

 private:
  std::set<std::string>* told_;
};

}  // namespace

std::string health_text(const HealthReport& report, std::set<std::string>* told) {
  std::vector<std::vector<std::string>> rows = {
      {"device", "name", "verdict", "temperature", "power", "clock", "memory", "throttling", "errors"}};
  std::string findings;
  OnceLines once(told);
  for (const DeviceHealth& device : report.devices) {
    const HealthSample& sample = device.sample;
    rows.push_back({device.info.id, name_text(device), std::string(hardware::name(device.judgement.verdict)),
                    optional_text(sample.number("temperature_celsius"), 1, "C"), power_text(sample),
                    optional_text(sample.number("clock_hz"), 1e-6, "MHz"), memory_text(sample), throttle_text(sample),
                    errors_text(sample)});
    for (const hardware::HealthFinding& finding : device.judgement.findings) {
      findings += fmt::format("  {} {}: {}; {}\n", device.info.id, hardware::name(finding.verdict), finding.reason,
                              finding.next_step);
    }
    if (const std::string note = sample.text("note"); !note.empty())
      once.add(fmt::format("  {}: {}\n", device.info.id, note));
    for (const auto& [reason, keys] : absent_by_reason(sample))
      once.add(fmt::format("  {} without {}: {}\n", device.info.id, keys, reason));
  }
  for (const HealthProblem& problem : report.problems)
    once.add(fmt::format("  {} cannot be asked: {}\n", problem.backend, problem.reason));
  return format_table(rows) + findings + once.text;
}

ordered_json health_json(const HealthReport& report) {
  ordered_json document = {{"devices", ordered_json::array()}, {"problems", ordered_json::array()}};
  for (const DeviceHealth& device : report.devices) document["devices"].push_back(device_json(device));
  for (const HealthProblem& problem : report.problems) {
    document["problems"].push_back(ordered_json{{"backend", problem.backend}, {"reason", problem.reason}});
  }
  return document;
}

}  // namespace crucible::cli
