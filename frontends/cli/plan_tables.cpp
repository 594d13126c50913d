// Sums and tables of a plan: see plan_tables.hpp.
#include "frontends/cli/plan_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "frontends/cli/arranged_text.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/plan_fit.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;
using runtime::Role;
using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kColumnNames[kColumnCount] = {"parameters",  "states",  "gradients",
                                                    "activations", "scratch", "other"};
constexpr const char* kColumnKeys[kColumnCount] = {"parameters_bytes",  "states_bytes",     "gradients_bytes",
                                                   "activations_bytes", "workspaces_bytes", "other_bytes"};

std::uint64_t& at(Columns& columns, Role role) { return columns[static_cast<std::size_t>(column_of(role))]; }

std::uint64_t sum(const Columns& columns) { return std::accumulate(columns.begin(), columns.end(), std::uint64_t{0}); }

/// The end of a text that is too long for its column: of a path the end says more.
std::string shorten(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() - (width - 3));
}

/// "gelu of blocks.0.mlp" of "%348 aten::gelu of blocks.0.mlp", as much as has to go.
std::string shorten_name(std::string name, std::size_t width) {
  if (name.size() > width && name.starts_with('%')) name.erase(0, std::min(name.find(' '), name.size() - 1) + 1);
  if (name.size() > width && name.starts_with("aten::")) name.erase(0, 6);
  return shorten(name, width);
}

std::string dash_or_bytes(std::uint64_t bytes) { return bytes == 0 ? "-" : format_bytes(bytes); }

void append(std::vector<std::string>& row, const Columns& columns) {
  for (const std::uint64_t bytes : columns) row.push_back(dash_or_bytes(bytes));
}

std::vector<std::string> header(std::vector<std::string> row) {
  row.insert(row.end(), std::begin(kColumnNames), std::end(kColumnNames));
  return row;
}

Json to_json(const Columns& columns) {
  Json json;
  for (std::size_t i = 0; i < columns.size(); ++i) json[kColumnKeys[i]] = columns[i];
  return json;
}

std::vector<ModuleSum> sum_at(const PlanReport& report, int depth) {
  std::map<std::string, ModuleSum> sums;
  const auto of = [&](const PlannedBuffer& buffer) -> ModuleSum& {
    const std::string module = cut_module(buffer.module, depth);
    ModuleSum& sum = sums[module];
    sum.module = module;
    return sum;
  };
  for (const PlannedBuffer& buffer : report.buffers) {
    ModuleSum& sum = of(buffer);
    ++sum.buffers;
    sum.bytes += buffer.reserved_bytes();
  }
  for (const std::uint32_t id : report.plan.witness) {
    const PlannedBuffer& buffer = report.buffers[id];
    at(of(buffer).at_peak, buffer.role_at(report.plan.lower_bound_time)) += buffer.reserved_bytes();
  }
  std::vector<ModuleSum> sorted;
  for (auto& [module, sum] : sums) sorted.push_back(std::move(sum));
  std::ranges::stable_sort(sorted, [](const ModuleSum& a, const ModuleSum& b) {
    return std::pair(a.bytes_at_peak(), a.bytes) > std::pair(b.bytes_at_peak(), b.bytes);
  });
  return sorted;
}

int deepest(const PlanReport& report) {
  std::ptrdiff_t parts = 1;
  for (const PlannedBuffer& buffer : report.buffers)
    parts = std::max(parts, std::ranges::count(buffer.module, '.') + 1);
  return static_cast<int>(parts);
}

std::string figures(const PlanReport& report) {
  const memory::Plan& plan = report.plan;
  const bool optimal = plan.peak_bytes == plan.lower_bound_bytes;
  std::string text = fmt::format("peak         {} ({} bytes)\n", format_bytes(plan.peak_bytes), plan.peak_bytes);
  text += fmt::format("lower bound  {} ({} bytes) at step {} of {}{}\n", format_bytes(plan.lower_bound_bytes),
                      plan.lower_bound_bytes, plan.lower_bound_time, report.steps.size(),
                      optimal ? ": the plan is optimal" : "");
  text += fmt::format("buffers      {}, planned and checked in {}\n", report.buffers.size(),
                      format_ns(static_cast<double>(report.time_ns)));
  text += arranged_text(report.arranged, 13);
  return text + fmt::format("kernels      {}\n", report.kernels);
}

std::string role_table(const PlanReport& report) {
  Rows rows = {{"role", "buffers", "bytes", "alive at the peak", "share"}};
  for (const RoleSum& sum : sum_roles(report)) {
    const double share = 100.0 * static_cast<double>(sum.bytes_at_peak) /
                         static_cast<double>(std::max<std::uint64_t>(report.plan.lower_bound_bytes, 1));
    rows.push_back({std::string(role_name(sum.role)), std::to_string(sum.buffers), format_bytes(sum.bytes),
                    format_bytes(sum.bytes_at_peak), fmt::format("{:.1f} %", share)});
  }
  return format_table(rows);
}

std::string phase_table(const PlanReport& report) {
  Rows rows = {header({"phase", "steps", "alive", "at"})};
  for (const PhaseSum& sum : sum_phases(report)) {
    rows.push_back({phase_name(sum.phase), std::to_string(sum.steps), format_bytes(sum.peak_bytes),
                    std::to_string(sum.peak_step)});
    append(rows.back(), sum.at_peak);
  }
  return format_table(rows);
}

std::string module_table(const PlanReport& report) {
  constexpr std::size_t kShown = 30, kWidth = 24;
  const std::vector<ModuleSum> sums = sum_modules(report, report.depth);
  Rows rows = {header({"module", "alive"})};
  for (std::size_t i = 0; i < std::min(sums.size(), kShown); ++i) {
    rows.push_back(
        {sums[i].module.empty() ? "(none)" : shorten(sums[i].module, kWidth), dash_or_bytes(sums[i].bytes_at_peak())});
    append(rows.back(), sums[i].at_peak);
  }
  std::string text = format_table(rows);
  if (sums.size() > kShown)
    text += fmt::format("and {} modules more: --json has all, --depth N cuts their names\n", sums.size() - kShown);
  return text;
}

std::string largest_table(const PlanReport& report) {
  constexpr std::size_t kShown = 20;
  const std::vector<std::uint32_t> largest = largest_first(report.plan.witness, report.buffers);
  Rows rows = {{"size", "steps", "role", "holds", "line"}};
  for (std::size_t i = 0; i < std::min(largest.size(), kShown); ++i) {
    const PlannedBuffer& buffer = report.buffers[largest[i]];
    rows.push_back({format_bytes(buffer.size_bytes), fmt::format("{}-{}", buffer.begin, buffer.end),
                    std::string(role_name(buffer.role_at(report.plan.lower_bound_time))), shorten_name(buffer.name, 38),
                    shorten(buffer.site, 20)});
  }
  return fmt::format("{} buffers are alive at the peak; the largest:\n{}", largest.size(), format_table(rows));
}

}  // namespace

Column column_of(Role role) {
  switch (role) {
    case Role::kParameter:
      return Column::kParameters;
    case Role::kModuleBuffer:
    case Role::kOptimizerState:
      return Column::kStates;
    case Role::kGradient:
      return Column::kGradients;
    case Role::kActivation:
      return Column::kActivations;
    case Role::kWorkspace:
      return Column::kWorkspaces;
    case Role::kInput:
    case Role::kConstant:
    case Role::kTemporary:
      return Column::kOther;
  }
  return Column::kOther;
}

std::uint64_t ModuleSum::bytes_at_peak() const { return sum(at_peak); }

std::vector<RoleSum> sum_roles(const PlanReport& report) {
  std::vector<RoleSum> sums;
  for (int role = 0; role < runtime::kRoleCount; ++role) sums.push_back({.role = static_cast<Role>(role)});
  for (const PlannedBuffer& buffer : report.buffers) {
    RoleSum& sum = sums[static_cast<std::size_t>(buffer.role)];
    ++sum.buffers;
    sum.bytes += buffer.reserved_bytes();
  }
  for (const std::uint32_t id : report.plan.witness) {
    const PlannedBuffer& buffer = report.buffers[id];
    sums[static_cast<std::size_t>(buffer.role_at(report.plan.lower_bound_time))].bytes_at_peak +=
        buffer.reserved_bytes();
  }
  std::erase_if(sums, [](const RoleSum& sum) { return sum.buffers == 0 && sum.bytes_at_peak == 0; });
  return sums;
}

std::vector<PhaseSum> sum_phases(const PlanReport& report) {
  std::array<PhaseSum, 3> sums;
  for (std::uint32_t step = 0; step < report.steps.size(); ++step) {
    PhaseSum& sum = sums[static_cast<std::size_t>(report.steps[step].phase)];
    sum.phase = report.steps[step].phase;
    ++sum.steps;
    if (report.live_bytes[step] > sum.peak_bytes) sum.peak_bytes = report.live_bytes[step], sum.peak_step = step;
  }
  std::vector<PhaseSum> kept;
  for (PhaseSum& sum : sums) {
    if (sum.steps == 0) continue;
    for (const PlannedBuffer& buffer : report.buffers) {
      if (buffer.begin <= sum.peak_step && sum.peak_step < buffer.end)
        at(sum.at_peak, buffer.role_at(sum.peak_step)) += buffer.reserved_bytes();
    }
    kept.push_back(sum);
  }
  return kept;
}

std::string cut_module(const std::string& module, int depth) {
  std::size_t end = 0;
  for (int part = 0; part < depth && end != std::string::npos; ++part) end = module.find('.', part == 0 ? 0 : end + 1);
  return module.substr(0, end);
}

std::vector<ModuleSum> sum_modules(const PlanReport& report, int depth) {
  constexpr std::size_t kReadable = 16;
  if (depth > 0) return sum_at(report, depth);
  std::vector<ModuleSum> best = sum_at(report, 1);
  const int last = deepest(report);
  for (int deeper = 2; deeper <= last; ++deeper) {
    std::vector<ModuleSum> sums = sum_at(report, deeper);
    if (sums.size() > kReadable) break;
    best = std::move(sums);
  }
  return best;
}

std::string plan_text(const PlanReport& report) {
  std::string text = figures(report);
  if (report.answer) text += "\n" + fit_text(*report.answer);
  text += "\n" + role_table(report);
  text += "\nalive where each phase is largest:\n" + phase_table(report);
  text += "\nalive at the peak, by module:\n" + module_table(report);
  return text + "\n" + largest_table(report);
}

Json roles_json(const PlanReport& report) {
  Json rows = Json::array();
  for (const RoleSum& sum : sum_roles(report)) {
    rows.push_back({{"role", role_name(sum.role)},
                    {"buffers", sum.buffers},
                    {"bytes", sum.bytes},
                    {"bytes_at_peak", sum.bytes_at_peak}});
  }
  return rows;
}

Json phases_json(const PlanReport& report) {
  Json rows = Json::array();
  for (const PhaseSum& sum : sum_phases(report)) {
    Json row = {{"phase", phase_name(sum.phase)},
                {"steps", sum.steps},
                {"peak_bytes", sum.peak_bytes},
                {"peak_step", sum.peak_step}};
    row.update(to_json(sum.at_peak));
    rows.push_back(std::move(row));
  }
  return rows;
}

Json modules_json(const PlanReport& report) {
  Json rows = Json::array();
  for (const ModuleSum& sum : sum_modules(report, report.depth)) {
    Json row = {
        {"module", sum.module}, {"buffers", sum.buffers}, {"bytes", sum.bytes}, {"bytes_at_peak", sum.bytes_at_peak()}};
    row.update(to_json(sum.at_peak));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace crucible::cli
