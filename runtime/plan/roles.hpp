// What every buffer of a plan is for: parameter, gradient, activation and so on, with the module and the line that it
// belongs to. Reports read it; planning itself knows sizes and lifetimes alone. Made of the program's phases and names,
// so a program without sources has states, inputs, constants and temporaries only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"
#include "runtime/run/session.hpp"
#include "core/trace/trace.hpp"

namespace crucible::runtime {

enum class Role : std::uint8_t {
  kParameter,
  kModuleBuffer,    // running statistics and the like
  kOptimizerState,  // momentum, counts of steps
  kGradient,        // of a parameter, on its way from the backward to the optimizer, or carried
  kActivation,      // made by a step of the forward and read by one of the backward
  kInput,           // data, recorded draws
  kConstant,
  kTemporary,  // everything else that an op makes
  kWorkspace,  // scratch of a library call
};
inline constexpr int kRoleCount = static_cast<int>(Role::kWorkspace) + 1;

/// "parameter", "module buffer", "optimizer state", "gradient", "activation", "input", "constant", "temporary",
/// "workspace".
std::string_view role_name(Role role);

/// What a value is. `module` of an op of the backward, which runs in no module, is that of what it reads: of a
/// parameter before a value of the forward before one of the backward.
struct ValueRole {
  Role role = Role::kTemporary;
  std::string name;                     // "blocks.0.norm1.weight", "grad of wte.weight", "aten::addmm of blocks.0.attn"
  std::string module;                   // "blocks.0.norm1"; "" is the outermost or not known
  std::uint32_t source = graph::kNone;  // of the op that makes it, in Program::sources
};

/// What a buffer is for from step `begin` on, until its next turn.
struct Turn {
  std::uint32_t begin = 0;
  Role role = Role::kTemporary;
  bool operator==(const Turn&) const = default;
};

struct PlanRoles {
  std::vector<ValueRole> values;         // per value of the program
  std::vector<Role> buffers;             // per buffer of the placement: what it is for longest
  std::vector<std::vector<Turn>> turns;  // per buffer, in order: values of several roles may use it one after the other
  std::vector<std::uint32_t> value_of;   // per buffer: the value that it is named after; kNone: workspace
  std::vector<std::uint32_t> members;    // per buffer: how many values lie in it in turn
  /// Per step: the earliest phase of its ops, but at least the backward where it reads what the backward made. Clipping
  /// counts to the optimizer.
  std::vector<graph::Phase> steps;
};

/// The role of a buffer at a step at which it is alive; `turns` is not empty.
Role role_at(const std::vector<Turn>& turns, std::uint32_t step);

/// What the recording says of its states, by name.
using RecordedRoles = std::map<std::string, trace::Role, std::less<>>;
RecordedRoles recorded_roles(const trace::Trace& trace);

/// A buffer that several values use in turn is named after the state, constant or input in it, else after the value
/// that is alive longest; one that holds a state or a constant has one turn. States that `recorded` does not know are
/// sorted by which phases read and write them.
PlanRoles assign_roles(const graph::Program& program, const kernel::Schedule& schedule, const Placement& placement,
                       const RecordedRoles& recorded);

/// Bytes alive at each step, and at the time of the home copies after the last one: sizes rounded up to kAlignment, so
/// that the largest is the lower bound.
std::vector<std::uint64_t> live_bytes(const Placement& placement, std::size_t steps);

}  // namespace crucible::runtime
