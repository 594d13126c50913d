// A memory plan with names: every buffer with what it holds, for what, when and where. Its forms: text and tables
// (plan_tables.hpp), JSON, an SVG picture, and one HTML page (plan_page.hpp).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/fit.hpp"
#include "runtime/plan/roles.hpp"
#include "runtime/run/session.hpp"
#include "frontends/replay/arranged.hpp"

namespace crucible::cli {

using namespace replay;

struct PlannedBuffer {
  std::string name = {};  // of its first named value, with the number of others: "wte.weight (+1)"
  std::string kind = {};  // state, constant, input, temporary, scratch
  runtime::Role role = runtime::Role::kTemporary;  // what it is for longest
  std::vector<runtime::Turn> turns = {};           // empty: its role throughout
  std::string module = {}, site = {}, op = {};     // "blocks.0.attn", "train.py:31", "aten::addmm"; "" where not known
  std::uint64_t size_bytes = 0, offset_bytes = 0;
  std::uint32_t begin = 0, end = 0;  // steps
  runtime::Role role_at(std::uint32_t step) const { return turns.empty() ? role : runtime::role_at(turns, step); }
  /// What it takes of the arena.
  std::uint64_t reserved_bytes() const {
    return (size_bytes + runtime::kAlignment - 1) / runtime::kAlignment * runtime::kAlignment;
  }
};

struct PlannedStep {
  graph::Phase phase = graph::Phase::kForward;
  std::string ops = {}, module = {}, site = {};  // "aten::addmm, aten::gelu"; of its first op that has them
};

/// What a plan that does not fit becomes when it is given what the device has as its budget.
struct Rescue {
  std::uint64_t peak_bytes = 0, host_bytes = 0;
  std::uint32_t repeats = 0, transfers = 0;
  std::uint64_t transfer_bytes = 0;
  double repeated_share = 0;  // estimated work of the repeats, of that of all steps
};

/// The answer to --device-profile.
struct ProfileAnswer {
  hardware::DeviceProfile device = {};
  runtime::Fit fit = {};
  std::optional<Rescue> rescue = {};
};

struct PlanReport {
  std::string file = {};
  std::string kernels = {};  // who was asked for library claims: "cpu 0.1.0", or "generated kernels only, ..."
  std::vector<PlannedBuffer> buffers = {};
  std::vector<PlannedStep> steps = {};
  std::vector<std::uint64_t> live_bytes = {};  // per step, and at the time of the home copies after the last one
  memory::Plan plan = {};
  std::uint64_t time_ns = 0;  // lifetimes, offsets and the check
  int depth = 0;              // of modules in tables; 0: what keeps them readable
  std::optional<ProfileAnswer> answer = {};
  ArrangedMemory arranged = {};

  /// Names, roles and places of every buffer and step.
  void describe(const graph::Program& program, const kernel::Schedule& schedule, const runtime::Placement& placement,
                const runtime::PlanRoles& roles);
  nlohmann::ordered_json to_json() const;
  /// Offsets upward, steps to the right, phases below; a rectangle per buffer with its name as the tooltip.
  std::string to_svg() const;
};

/// "forward", "backward", "optimizer".
const char* phase_name(graph::Phase phase);
/// The colour of a role in pictures: "#4e79a7".
const char* colour_of(runtime::Role role);
/// The ids of buffers, by size, largest first.
std::vector<std::uint32_t> largest_first(std::vector<std::uint32_t> ids, const std::vector<PlannedBuffer>& buffers);

}  // namespace crucible::cli
