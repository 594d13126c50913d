// See profile_text.hpp.
#include "frontends/cli/profile_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/terminal.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/replay/replay_profile.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShown = 15;

/// What is said of the whole iteration.
std::string sums_text(const ReplayReport& report, double total) {
  if (!is_predicted(report)) {
    return fmt::format(
        "{} steps, {} in total. No device profile: `crucible devices --calibrate` makes one, and the steps are "
        "then compared with what the device can do\n",
        report.profile.size(), format_ns(total));
  }
  double predicted = 0, roof = 0;
  for (const hardware::Prediction& prediction : report.predictions)
    predicted += prediction.total_ns(), roof += prediction.roof_ns();
  return fmt::format("{} steps, {} in total, median of {}; {} at best, {:.0f}% of the roofline ({}: {}{}{})\n",
                     report.profile.size(), format_ns(total), report.profile_runs, format_ns(predicted),
                     100 * roof / total, report.device_profile->name, report.device_profile->source,
                     report.device_profile->date.empty() ? "" : ", ", report.device_profile->date);
}

}  // namespace

std::string profile_text(const ReplayReport& report) {
  const auto sum = std::accumulate(report.profile.begin(), report.profile.end(), std::uint64_t{0});
  const double total = std::max(1.0, static_cast<double>(sum));
  std::vector<std::vector<std::string>> rows = {{"step", "time", "share"}};
  if (is_predicted(report)) rows[0].insert(rows[0].end(), {"at best", "roofline", "bound by"});
  rows[0].insert(rows[0].end(), {"gflop/s", "gb/s", "by", "ops", "source"});
  for (const ProfiledStep& hot : hottest_steps(report, kShown)) {
    std::vector<std::string> row = {std::to_string(hot.index), format_ns(hot.time_ns),
                                    fmt::format("{:.1f}%", 100 * hot.time_ns / total)};
    if (hot.prediction != nullptr) {
      row.insert(row.end(), {format_ns(hot.prediction->total_ns()),
                             fmt::format("{:.0f}%", 100 * roofline_share(*hot.prediction, hot.time_ns)),
                             std::string(name(hot.prediction->bound()))});
    }
    row.insert(row.end(), {fmt::format("{:.1f}", static_cast<double>(hot.step.flops) / hot.time_ns),
                           fmt::format("{:.1f}", static_cast<double>(hot.step.bytes) / hot.time_ns),
                           std::string(hot.kind), hot.ops, hot.source});
    rows.push_back(std::move(row));
  }
  const std::string emulated =
      is_emulated(report) ? fmt::format("emulated, these are no device's times: {}\n", report.device->info().name) : "";
  const std::string from = report.times_from.empty() ? "" : fmt::format("times are those of {}\n", report.times_from);
  return "\n" + emulated + sums_text(report, total) + from + format_table(rows);
}

bool is_list(const std::vector<std::string>& names) { return names.size() == 1 && names[0] == "list"; }

void print_counters(const backend::Device& device, bool json) {
  const backend::KnownCounters known = backend::known_counters(device.backend(), device.info().id);
  if (json) {
    Json document = {{"device", device.info().name}, {"counters", Json::array()}};
    for (const backend::Counter& counter : known.counters)
      document["counters"].push_back({{"name", counter.name}, {"what", counter.what}});
    if (known.counters.empty()) document["refused"] = known.why_none;
    return print_json(document);
  }
  if (known.counters.empty()) {
    print_out("{} has no counters: {}\n", describe(device), known.why_none);
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"counter", "what it counts"}};
  for (const backend::Counter& counter : known.counters) rows.push_back({counter.name, counter.what});
  print_out("{}\n{}", describe(device), format_table(rows));
}

std::string counters_text(const ReplayCounters& counters, bool emulated) {
  if (!counters.refusal.empty()) return fmt::format("counters  none: {}\n", counters.refusal);
  std::vector<std::vector<std::string>> rows = {{"counter", "one replay"}};
  for (const backend::CounterValue& counter : counters.values)
    rows.push_back({counter.name, std::to_string(counter.value)});
  return (emulated ? "\nemulated, these are no device's counts\n" : "\n") + format_table(rows);
}

}  // namespace crucible::cli
