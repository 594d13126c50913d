// See replay_profile.hpp.
#include "frontends/replay/replay_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/plan/predict.hpp"
#include "frontends/replay/device_profiles.hpp"

namespace crucible::replay {
namespace {

using Json = nlohmann::ordered_json;

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

/// "matmul, add, tanh" of a step, each kind once, at most six; the name alone of an attention by a library.
std::string op_names(const ReplayReport& report, const kernel::Step& step) {
  if (step.kind == kernel::StepKind::kLibrary && kernel::is_attention(step.library.kind))
    return step.library.kind == kernel::LibraryKind::kAttentionBackward ? "attention_backward" : "attention";
  std::vector<std::string_view> names;
  for (const graph::OpId op : step.ops) {
    const std::string_view name = graph::name(report.program().ops[op].kind);
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
    const std::uint32_t source = report.program().ops[op].source;
    if (source >= report.program().sources.size()) continue;
    const graph::Source& found = report.program().sources[source];
    return found.module.empty() ? found.site : fmt::format("{} ({})", found.site, found.module);
  }
  return "";
}

}  // namespace

Result<void> profile_replay(runtime::Session& session, const std::string& device_profile, ReplayReport& report) {
  constexpr std::uint32_t kRuns = 5;
  constexpr auto kLong = std::chrono::seconds(2);
  std::vector<std::vector<std::uint64_t>> times;  // per step
  const auto start = std::chrono::steady_clock::now();
  do {
    CRUCIBLE_TRY(const std::vector<std::uint64_t> run, session.profile());
    times.resize(run.size());
    for (std::size_t step = 0; step < run.size(); ++step) times[step].push_back(run[step]);
    ++report.profile_runs;
  } while (report.profile_runs < kRuns && std::chrono::steady_clock::now() - start < kLong);
  report.times_from = session.times_from();
  for (std::vector<std::uint64_t>& step : times) {
    const auto middle = step.begin() + static_cast<std::ptrdiff_t>(step.size() / 2);
    std::ranges::nth_element(step, middle);
    report.profile.push_back(*middle);
  }
  CRUCIBLE_TRY(report.device_profile, profile_of_device(report.opened.settings, device_profile, report.device));
  if (report.device_profile)
    report.predictions = runtime::predict_steps(session.program(), session.schedule(), *report.device_profile);
  return {};
}

bool is_predicted(const ReplayReport& report) { return report.predictions.size() == report.profile.size(); }

bool is_emulated(const ReplayReport& report) { return report.device != nullptr && report.device->info().emulated; }

ProfiledStep profiled_step(const ReplayReport& report, std::size_t index) {
  const kernel::Step& step = report.session.schedule().steps[index];
  return {.index = index,
          .step = step,
          .time_ns = std::max(1.0, static_cast<double>(report.profile[index])),
          .kind = kind_text(step),
          .ops = op_names(report, step),
          .source = source_text(report, step),
          .prediction = is_predicted(report) ? &report.predictions[index] : nullptr};
}

std::vector<ProfiledStep> hottest_steps(const ReplayReport& report, std::size_t count) {
  std::vector<std::size_t> order(report.profile.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return report.profile[a] > report.profile[b]; });
  order.resize(std::min(order.size(), count));
  std::vector<ProfiledStep> steps;
  for (const std::size_t index : order) steps.push_back(profiled_step(report, index));
  return steps;
}

double roofline_share(const hardware::Prediction& prediction, double measured_ns) {
  return measured_ns > 0 ? prediction.roof_ns() / measured_ns : 0;
}

Json profile_json(const ReplayReport& report) {
  Json rows = Json::array();
  for (const ProfiledStep& row : hottest_steps(report, report.profile.size())) {
    Json json = {{"step", row.index},
                 {"time_ns", report.profile[row.index]},
                 {"kind", row.kind},
                 {"ops", row.ops},
                 {"source", row.source},
                 {"flops", row.step.flops},
                 {"bytes", row.step.bytes},
                 {"flops_per_second", 1e9 * static_cast<double>(row.step.flops) / row.time_ns},
                 {"bytes_per_second", 1e9 * static_cast<double>(row.step.bytes) / row.time_ns}};
    if (row.prediction != nullptr) {
      json["predicted_ns"] = row.prediction->total_ns();
      json["memory_ns"] = row.prediction->memory_ns;
      json["compute_ns"] = row.prediction->compute_ns;
      json["launch_ns"] = row.prediction->launch_ns;
      json["bound"] = name(row.prediction->bound());
      json["roofline_share"] = roofline_share(*row.prediction, row.time_ns);
    }
    rows.push_back(std::move(json));
  }
  return rows;
}

Json profile_trace(const ReplayReport& report) {
  constexpr int kProcess = 1, kMeasured = 1, kPredicted = 2;
  Json events = Json::array();
  const auto named = [&](const char* what, int thread, const std::string& name) {
    events.push_back({{"ph", "M"}, {"name", what}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}});
  };
  named("process_name", kMeasured,
        fmt::format("{} on {}", report.file, report.device == nullptr ? "" : report.device->info().name));
  named("thread_name", kMeasured,
        fmt::format("{}, median of {}", is_emulated(report) ? "emulated" : "measured", report.profile_runs));
  if (is_predicted(report)) named("thread_name", kPredicted, fmt::format("at best, {}", report.device_profile->name));
  double at_us = 0;
  for (std::size_t index = 0; index < report.profile.size(); ++index) {
    const ProfiledStep row = profiled_step(report, index);
    Json arguments = {{"step", index},
                      {"source", row.source},
                      {"flops", row.step.flops},
                      {"bytes", row.step.bytes},
                      {"gflop_per_second", static_cast<double>(row.step.flops) / row.time_ns},
                      {"gb_per_second", static_cast<double>(row.step.bytes) / row.time_ns}};
    if (row.prediction != nullptr) {
      const double predicted_us = row.prediction->total_ns() / 1e3;
      arguments["predicted_us"] = predicted_us;
      arguments["bound"] = name(row.prediction->bound());
      arguments["roofline_share"] = roofline_share(*row.prediction, row.time_ns);
      events.push_back({{"ph", "X"},
                        {"name", row.ops},
                        {"cat", "predicted"},
                        {"pid", kProcess},
                        {"tid", kPredicted},
                        {"ts", at_us},
                        {"dur", predicted_us},
                        {"args", {{"step", index}, {"bound", name(row.prediction->bound())}}}});
    }
    events.push_back({{"ph", "X"},
                      {"name", row.ops},
                      {"cat", row.kind},
                      {"pid", kProcess},
                      {"tid", kMeasured},
                      {"ts", at_us},
                      {"dur", row.time_ns / 1e3},
                      {"args", std::move(arguments)}});
    at_us += row.time_ns / 1e3;
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}};
}

}  // namespace crucible::replay
