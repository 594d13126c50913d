// The sums of a plan: by role, by phase, by module; as text for a terminal and as JSON. A sum counts what buffers take
// of the arena, so the column "alive at the peak" adds up to the lower bound.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "frontends/cli/plan_report.hpp"

namespace crucible::cli {

/// Roles as columns of a table that fits a terminal.
enum class Column : std::uint8_t { kParameters, kStates, kGradients, kActivations, kWorkspaces, kOther };
inline constexpr int kColumnCount = static_cast<int>(Column::kOther) + 1;
/// States are optimizer states and module buffers; other: inputs, constants, temporaries.
Column column_of(runtime::Role role);
using Columns = std::array<std::uint64_t, kColumnCount>;

struct RoleSum {
  runtime::Role role = runtime::Role::kTemporary;
  std::uint64_t buffers = 0, bytes = 0, bytes_at_peak = 0;
};
/// Roles that some buffer has, in the order of the enumeration.
std::vector<RoleSum> sum_roles(const PlanReport& report);

/// A phase and the step of it at which most is alive.
struct PhaseSum {
  graph::Phase phase = graph::Phase::kForward;
  std::uint32_t steps = 0, peak_step = 0;
  std::uint64_t peak_bytes = 0;
  Columns at_peak = {};  // what is alive then
};
std::vector<PhaseSum> sum_phases(const PlanReport& report);

struct ModuleSum {
  std::string module;                    // cut at the depth
  std::uint64_t buffers = 0, bytes = 0;  // of all its buffers, over the whole iteration
  Columns at_peak = {};
  std::uint64_t bytes_at_peak() const;
};
/// By what they have alive at the peak, largest first. A `depth` of 0 takes the deepest one with at most 16 modules.
std::vector<ModuleSum> sum_modules(const PlanReport& report, int depth);
/// "blocks.0" of "blocks.0.attn.qkv" at depth 2.
std::string cut_module(const std::string& module, int depth);

/// The whole text report: figures, tables, the largest buffers at the peak. At most 100 columns wide.
std::string plan_text(const PlanReport& report);
nlohmann::ordered_json roles_json(const PlanReport& report);
nlohmann::ordered_json phases_json(const PlanReport& report);
nlohmann::ordered_json modules_json(const PlanReport& report);

}  // namespace crucible::cli
