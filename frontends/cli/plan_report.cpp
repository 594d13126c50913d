// From a placement to a report, and the report as JSON.
#include "frontends/cli/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "frontends/cli/plan_fit.hpp"
#include "frontends/cli/plan_tables.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string kind_name(graph::ValueKind kind) {
  switch (kind) {
    case graph::ValueKind::kTemporary:
      return "temporary";
    case graph::ValueKind::kState:
      return "state";
    case graph::ValueKind::kInput:
      return "input";
    case graph::ValueKind::kConstant:
      return "constant";
  }
  return "";
}

/// "%12 aten::addmm of blocks.0.attn" of a temporary, the name of everything else.
std::string buffer_name(const graph::Program& program, const runtime::PlanRoles& roles, graph::ValueId id) {
  const runtime::ValueRole& value = roles.values[id];
  const bool is_named = program.values[id].kind != graph::ValueKind::kTemporary ||
                        value.role == runtime::Role::kGradient || !program.values[id].name.empty() ||
                        value.name.starts_with('%');
  return is_named ? value.name : fmt::format("%{} {}", id, value.name);
}

PlannedStep describe_step(const graph::Program& program, const kernel::Step& step, graph::Phase phase) {
  PlannedStep described{.phase = phase};
  constexpr std::size_t kLong = 80;
  std::vector<std::string> names;
  for (const graph::OpId op : step.ops) {
    const std::uint32_t number = program.ops[op].source;
    if (number >= program.sources.size()) continue;
    const graph::Source& source = program.sources[number];
    if (described.module.empty()) described.module = source.module;
    if (described.site.empty()) described.site = source.site;
    if (std::ranges::find(names, source.op) == names.end()) names.push_back(source.op);
  }
  for (const std::string& name : names) {
    if (described.ops.size() + name.size() > kLong) return described.ops += ", ...", described;
    described.ops += (described.ops.empty() ? "" : ", ") + name;
  }
  return described;
}

Json to_json_row(const PlannedBuffer& buffer) {
  Json row = {{"name", buffer.name},
              {"kind", buffer.kind},
              {"role", runtime::role_name(buffer.role)},
              {"module", buffer.module},
              {"site", buffer.site},
              {"op", buffer.op},
              {"offset_bytes", buffer.offset_bytes},
              {"size_bytes", buffer.size_bytes},
              {"begin", buffer.begin},
              {"end", buffer.end}};
  for (const runtime::Turn& turn : buffer.turns)
    row["turns"].push_back({{"begin", turn.begin}, {"role", runtime::role_name(turn.role)}});
  return row;
}

}  // namespace

const char* phase_name(graph::Phase phase) {
  switch (phase) {
    case graph::Phase::kForward:
      return "forward";
    case graph::Phase::kBackward:
      return "backward";
    case graph::Phase::kOptimizer:
      return "optimizer";
  }
  return "";
}

std::vector<std::uint32_t> largest_first(std::vector<std::uint32_t> ids, const std::vector<PlannedBuffer>& buffers) {
  std::ranges::stable_sort(
      ids, [&](std::uint32_t a, std::uint32_t b) { return buffers[a].size_bytes > buffers[b].size_bytes; });
  return ids;
}

void PlanReport::describe(const graph::Program& program, const kernel::Schedule& schedule,
                          const runtime::Placement& placement, const runtime::PlanRoles& roles) {
  for (std::size_t step = 0; step < schedule.steps.size(); ++step) {
    steps.push_back(describe_step(program, schedule.steps[step], roles.steps[step]));
  }
  buffers.assign(placement.buffers.size(), {});
  for (std::size_t id = 0; id < buffers.size(); ++id) {
    PlannedBuffer& row = buffers[id];
    row.role = roles.buffers[id];
    if (roles.turns[id].size() > 1 || roles.turns[id].front().role != row.role) row.turns = roles.turns[id];
    row.size_bytes = placement.buffers[id].size_bytes;
    row.offset_bytes = placement.plan.offsets[id];
    row.begin = placement.buffers[id].begin;
    row.end = placement.buffers[id].end;
    const graph::ValueId value = roles.value_of[id];
    if (value == graph::kNone) {
      row.name = fmt::format("scratch of step {}", row.begin);
      row.kind = "scratch";
      if (row.begin < steps.size())
        row.module = steps[row.begin].module, row.site = steps[row.begin].site, row.op = steps[row.begin].ops;
      continue;
    }
    row.name = buffer_name(program, roles, value);
    if (placement.has_two_places() && placement.second_of[value] == id) row.name += ", the next iteration's";
    if (roles.members[id] > 1) row.name += fmt::format(" (+{})", roles.members[id] - 1);
    row.kind = kind_name(program.values[value].kind);
    row.module = roles.values[value].module;
    const std::uint32_t source = roles.values[value].source;
    if (source < program.sources.size()) row.site = program.sources[source].site, row.op = program.sources[source].op;
  }
  plan = placement.plan;
  live_bytes = runtime::live_bytes(placement, steps.size());
}

Json PlanReport::to_json() const {
  Json document;
  document["file"] = file;
  document["lower_bound_bytes"] = plan.lower_bound_bytes;
  document["lower_bound_step"] = plan.lower_bound_time;
  document["peak_bytes"] = plan.peak_bytes;
  document["optimal"] = plan.peak_bytes == plan.lower_bound_bytes;
  document["buffers"] = buffers.size();
  document["steps"] = steps.size();
  document["time_ns"] = time_ns;
  document["kernels"] = kernels;
  document["memory"] = arranged.to_json();
  if (answer) document["device_profile"] = fit_json(*answer);
  document["roles"] = roles_json(*this);
  document["phases"] = phases_json(*this);
  document["modules"] = modules_json(*this);
  document["witness"] = Json::array();
  for (const std::uint32_t id : largest_first(plan.witness, buffers))
    document["witness"].push_back(to_json_row(buffers[id]));
  document["table"] = Json::array();
  for (const PlannedBuffer& buffer : buffers) document["table"].push_back(to_json_row(buffer));
  document["live_bytes"] = live_bytes;
  return document;
}

}  // namespace crucible::cli
