// See replay_profile.hpp.
#include "frontends/cli/replay_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "frontends/cli/command.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShown = 15;

const char* kind_text(const kernel::Step& step) {
  switch (step.kind) {
    case kernel::StepKind::kLibrary:
      return "library";
    case kernel::StepKind::kTransfer:
      return "transfer";
    case kernel::StepKind::kLaunch:
      return "generated";
  }
  return "";
}

/// "matmul, add, tanh" of a step, each kind once, at most six; "attention" of a call that is one.
std::string op_names(const ReplayReport& report, const kernel::Step& step) {
  if (step.kind == kernel::StepKind::kLibrary && step.library.kind == kernel::LibraryKind::kAttention) return "attention";
  std::vector<std::string_view> names;
  for (const graph::OpId op : step.ops) {
    const std::string_view name = graph::name(report.program.ops[op].kind);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  const std::size_t shown = std::min<std::size_t>(names.size(), 6);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(", {} more", names.size() - shown);
  return text;
}

/// "train.py:31 (blocks.0.norm1)" of the step's first op that has a source.
std::string source_text(const ReplayReport& report, const kernel::Step& step) {
  for (const graph::OpId op : step.ops) {
    const std::uint32_t source = report.program.ops[op].source;
    if (source >= report.program.sources.size()) continue;
    const graph::Source& found = report.program.sources[source];
    return found.module.empty() ? found.site : fmt::format("{} ({})", found.site, found.module);
  }
  return "";
}

std::vector<std::size_t> hottest(const std::vector<std::uint64_t>& profile, std::size_t count) {
  std::vector<std::size_t> order(profile.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return profile[a] > profile[b]; });
  order.resize(std::min(order.size(), count));
  return order;
}

/// Nanoseconds, at least one: a clock that is too coarse is no reason to divide by zero.
double measured(const ReplayReport& report, std::size_t index) {
  return std::max(1.0, static_cast<double>(report.profile[index]));
}

bool is_predicted(const ReplayReport& report) { return report.predictions.size() == report.profile.size(); }

bool is_emulated(const ReplayReport& report) { return report.device != nullptr && report.device->info().emulated; }

/// What is said of the whole iteration.
std::string sums_text(const ReplayReport& report, double total) {
  if (!is_predicted(report)) {
    return fmt::format("{} steps, {} in total. No device profile: `crucible devices --calibrate` makes one, and the steps are "
                       "then compared with what the device can do\n",
                       report.profile.size(), format_ns(total));
  }
  double predicted = 0, roof = 0;
  for (const hardware::Prediction& prediction : report.predictions) predicted += prediction.total_ns(), roof += prediction.roof_ns();
  return fmt::format("{} steps, {} in total, median of {}; {} at best, {:.0f}% of the roofline ({}: {}{}{})\n", report.profile.size(),
                     format_ns(total), report.profile_runs, format_ns(predicted), 100 * roof / total, report.device_profile->name,
                     report.device_profile->source, report.device_profile->date.empty() ? "" : ", ", report.device_profile->date);
}

}  // namespace

double roofline_share(const hardware::Prediction& prediction, double measured_ns) {
  return measured_ns > 0 ? prediction.roof_ns() / measured_ns : 0;
}

std::string profile_text(const ReplayReport& report) {
  const double total = std::max(1.0, static_cast<double>(std::accumulate(report.profile.begin(), report.profile.end(), std::uint64_t{0})));
  const bool predicted = is_predicted(report);
  std::vector<std::vector<std::string>> rows = {{"step", "time", "share"}};
  if (predicted) rows[0].insert(rows[0].end(), {"at best", "roofline", "bound by"});
  rows[0].insert(rows[0].end(), {"gflop/s", "gb/s", "by", "ops", "source"});
  for (const std::size_t index : hottest(report.profile, kShown)) {
    const kernel::Step& step = report.session.schedule().steps[index];
    const double time = measured(report, index);
    std::vector<std::string> row = {std::to_string(index), format_ns(time), fmt::format("{:.1f}%", 100 * time / total)};
    if (predicted) {
      const hardware::Prediction& prediction = report.predictions[index];
      row.insert(row.end(), {format_ns(prediction.total_ns()), fmt::format("{:.0f}%", 100 * roofline_share(prediction, time)),
                             std::string(name(prediction.bound()))});
    }
    row.insert(row.end(), {fmt::format("{:.1f}", static_cast<double>(step.flops) / time),
                           fmt::format("{:.1f}", static_cast<double>(step.bytes) / time), kind_text(step), op_names(report, step),
                           source_text(report, step)});
    rows.push_back(std::move(row));
  }
  const std::string emulated = is_emulated(report) ? fmt::format("emulated, these are no device's times: {}\n", report.device->info().name) : "";
  const std::string from = report.times_from.empty() ? "" : fmt::format("times are those of {}\n", report.times_from);
  return "\n" + emulated + sums_text(report, total) + from + format_table(rows);
}

Json profile_json(const ReplayReport& report) {
  Json rows = Json::array();
  for (const std::size_t index : hottest(report.profile, report.profile.size())) {
    const kernel::Step& step = report.session.schedule().steps[index];
    const double time = measured(report, index);
    Json row = {{"step", index},
                {"time_ns", report.profile[index]},
                {"kind", kind_text(step)},
                {"ops", op_names(report, step)},
                {"source", source_text(report, step)},
                {"flops", step.flops},
                {"bytes", step.bytes},
                {"flops_per_second", 1e9 * static_cast<double>(step.flops) / time},
                {"bytes_per_second", 1e9 * static_cast<double>(step.bytes) / time}};
    if (is_predicted(report)) {
      const hardware::Prediction& prediction = report.predictions[index];
      row["predicted_ns"] = prediction.total_ns();
      row["memory_ns"] = prediction.memory_ns;
      row["compute_ns"] = prediction.compute_ns;
      row["launch_ns"] = prediction.launch_ns;
      row["bound"] = name(prediction.bound());
      row["roofline_share"] = roofline_share(prediction, time);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json profile_trace(const ReplayReport& report) {
  constexpr int kProcess = 1, kMeasured = 1, kPredicted = 2;
  Json events = Json::array();
  const auto named = [&](const char* what, int thread, const std::string& name) {
    events.push_back({{"ph", "M"}, {"name", what}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}});
  };
  named("process_name", kMeasured, fmt::format("{} on {}", report.file, report.device == nullptr ? "" : report.device->info().name));
  named("thread_name", kMeasured, fmt::format("{}, median of {}", is_emulated(report) ? "emulated" : "measured", report.profile_runs));
  if (is_predicted(report)) named("thread_name", kPredicted, fmt::format("at best, {}", report.device_profile->name));
  double at_us = 0;
  for (std::size_t index = 0; index < report.profile.size(); ++index) {
    const kernel::Step& step = report.session.schedule().steps[index];
    const double time = measured(report, index);
    Json arguments = {{"step", index}, {"source", source_text(report, step)}, {"flops", step.flops}, {"bytes", step.bytes},
                      {"gflop_per_second", static_cast<double>(step.flops) / time}, {"gb_per_second", static_cast<double>(step.bytes) / time}};
    if (is_predicted(report)) {
      const hardware::Prediction& prediction = report.predictions[index];
      arguments["predicted_us"] = prediction.total_ns() / 1e3;
      arguments["bound"] = name(prediction.bound());
      arguments["roofline_share"] = roofline_share(prediction, time);
      events.push_back({{"ph", "X"}, {"name", op_names(report, step)}, {"cat", "predicted"}, {"pid", kProcess}, {"tid", kPredicted},
                        {"ts", at_us}, {"dur", prediction.total_ns() / 1e3}, {"args", {{"step", index}, {"bound", name(prediction.bound())}}}});
    }
    events.push_back({{"ph", "X"}, {"name", op_names(report, step)}, {"cat", kind_text(step)}, {"pid", kProcess}, {"tid", kMeasured},
                      {"ts", at_us}, {"dur", time / 1e3}, {"args", std::move(arguments)}});
    at_us += time / 1e3;
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}};
}

}  // namespace crucible::cli
