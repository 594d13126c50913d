// Roles of values by what reads and writes them, modules of the backward by what it reads, names of gradients by what
// they update: see roles.hpp.
#include "runtime/plan/roles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace crucible::runtime {
namespace {

using graph::kNone;
using graph::OpId;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;

/// "blocks.0.norm1" of "exp_avg of blocks.0.norm1.weight".
std::string module_of_name(std::string_view name) {
  if (const std::size_t of = name.rfind(" of "); of != std::string_view::npos) name.remove_prefix(of + 4);
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? "" : std::string(name.substr(0, dot));
}

class Assigner {
 public:
  Assigner(const graph::Program& program, const Placement& placement, const RecordedRoles& recorded)
      : program_(program),
        placement_(placement),
        recorded_(recorded),
        values_(program.values.size()),
        readers_(program.values.size()) {
    for (const graph::Op& op : program.ops) {
      if (recorded_phase(op) == Phase::kBackward && trace_op(op) != kNone)
        last_backward_ = std::max(last_backward_, std::int64_t{trace_op(op)});
    }
    for (OpId op = 0; op < program.ops.size(); ++op) {
      for (const graph::Operand& input : program.ops[op].inputs) {
        if (!input.is_scalar()) readers_[input.value][static_cast<std::size_t>(phase_of(program.ops[op]))] = true;
      }
    }
  }

  /// The phase that an op works for. What comes after the last backward and is none itself prepares the optimizer's
  /// step: clipping of gradients runs in no phase of its own.
  Phase phase_of(const graph::Op& op) const { return is_after_backward(op) ? Phase::kOptimizer : recorded_phase(op); }

  std::vector<ValueRole> run() {
    for (const graph::State& state : program_.states) name_state(state);
    for (const graph::Input& input : program_.inputs) {
      values_[input.value].role = Role::kInput;
      values_[input.value].name = input.is_draw ? "recorded draw" : program_.values[input.value].name;
    }
    for (const graph::Constant& constant : program_.constants) name_constant(constant.value);
    for (const graph::Op& op : program_.ops) name_results(op);
    for (const graph::State& state : program_.states) {
      if (values_[state.start].role == Role::kParameter && state.end != state.start) find_gradient(state);
      if (state.end != state.start) values_[state.end] = with_source(values_[state.start], values_[state.end].source);
    }
    for (ValueId value = 0; value < values_.size(); ++value) {
      if (values_[value].name.empty()) values_[value].name = fmt::format("%{}", value);
    }
    return std::move(values_);
  }

 private:
  static ValueRole with_source(ValueRole role, std::uint32_t source) {
    role.source = source;
    return role;
  }
  const graph::Source* source_of(const graph::Op& op) const {
    return op.source < program_.sources.size() ? &program_.sources[op.source] : nullptr;
  }
  Phase recorded_phase(const graph::Op& op) const {
    const graph::Source* source = source_of(op);
    return source ? source->phase : Phase::kForward;
  }
  bool is_after_backward(const graph::Op& op) const {
    return recorded_phase(op) == Phase::kForward && trace_op(op) != kNone && last_backward_ >= 0 &&
           trace_op(op) > last_backward_;
  }
  std::uint32_t trace_op(const graph::Op& op) const {
    const graph::Source* source = source_of(op);
    return source ? source->trace_op : kNone;
  }
  bool is_read_in(ValueId value, Phase phase) const { return readers_[value][static_cast<std::size_t>(phase)]; }
  trace::Role recorded(const std::string& name) const {
    const auto found = recorded_.find(name);
    return found == recorded_.end() ? trace::Role::kUnknown : found->second;
  }

  void name_state(const graph::State& state) {
    ValueRole& value = values_[state.start];
    value.name = program_.values[state.start].name;
    value.module = module_of_name(value.name);
    switch (recorded(value.name)) {
      case trace::Role::kParameter:
        value.role = Role::kParameter;
        return;
      case trace::Role::kBuffer:
        value.role = Role::kModuleBuffer;
        return;
      case trace::Role::kOptimizerState:
        value.role = Role::kOptimizerState;
        return;
      case trace::Role::kInput:
      case trace::Role::kUnknown:
        value.role = state_role(state, value.name);
        return;
    }
  }

  /// Without the recording's word: by its name, then by who reads and who writes it.
  Role state_role(const graph::State& state, std::string_view name) const {
    if (name.starts_with("grad of ")) return Role::kGradient;
    if (name.find(" of ") != std::string_view::npos) return Role::kOptimizerState;
    const bool computes = is_read_in(state.start, Phase::kForward) || is_read_in(state.start, Phase::kBackward);
    if (!computes && is_read_in(state.start, Phase::kOptimizer)) return Role::kOptimizerState;
    if (state.end == state.start) return Role::kParameter;
    const OpId writer = program_.values[state.end].producer;
    const bool updated = writer < program_.ops.size() && phase_of(program_.ops[writer]) == Phase::kOptimizer;
    return updated ? Role::kParameter : Role::kModuleBuffer;
  }

  void name_constant(ValueId id) {
    ValueRole& value = values_[id];
    value.name = program_.values[id].name;
    value.module = module_of_name(value.name);
    const trace::Role role = recorded(value.name);
    value.role = role == trace::Role::kParameter ? Role::kParameter
                 : role == trace::Role::kBuffer  ? Role::kModuleBuffer
                                                 : Role::kConstant;
  }

  void name_results(const graph::Op& op) {
    const graph::Source* source = source_of(op);
    const std::string module = source && !source->module.empty() ? source->module : module_of_inputs(op);
    for (const graph::Operand& output : op.outputs) {
      if (program_.values[output.value].kind != ValueKind::kTemporary) continue;
      ValueRole& value = values_[output.value];
      value.source = source ? op.source : kNone;
      value.module = module;
      value.role = Role::kTemporary;
      value.name = program_.values[output.value].name;
      if (!value.name.empty() || source == nullptr) continue;
      value.name = module.empty() ? source->op : fmt::format("{} of {}", source->op, module);
    }
  }

  std::string module_of_inputs(const graph::Op& op) const {
    std::array<std::string, 3> found;  // of a state, a value of the forward, anything else
    for (const graph::Operand& input : op.inputs) {
      if (input.is_scalar() || values_[input.value].module.empty()) continue;
      const ValueRole& value = values_[input.value];
      const OpId producer = program_.values[input.value].producer;
      const bool is_made = producer < program_.ops.size();
      std::string& place = found[!is_made ? 0 : phase_of(program_.ops[producer]) == Phase::kForward ? 1 : 2];
      if (place.empty()) place = value.module;
    }
    for (const std::string& module : found) {
      if (!module.empty()) return module;
    }
    return "";
  }

  /// From the parameter's new value back through the optimizer (and clipping) to what the backward made, element for
  /// element.
  void find_gradient(const graph::State& parameter) {
    constexpr std::size_t kFar = 64;  // an optimizer's update of one parameter has a few dozen ops
    const std::int64_t elements = program_.values[parameter.start].elements;
    std::vector<ValueId> open = {parameter.end};
    for (std::size_t next = 0; next < open.size() && next < kFar; ++next) {
      const OpId producer = program_.values[open[next]].producer;
      if (producer >= program_.ops.size()) continue;
      const graph::Op& op = program_.ops[producer];
      if (phase_of(op) == Phase::kBackward || is_after_backward(op)) {
        ValueRole& value = values_[open[next]];
        value.role = Role::kGradient;
        value.name = "grad of " + program_.values[parameter.start].name;
        value.module = values_[parameter.start].module;
      }
      // A gradient that never leaves a kernel (a conversion after automatic mixed precision) is held as what it is made
      // of.
      const bool is_held = placement_.buffer_of[open[next]] != kNone;
      if (phase_of(op) != Phase::kOptimizer && is_held) continue;
      for (const graph::Operand& input : op.inputs) {
        const bool follows = !input.is_scalar() && program_.values[input.value].kind == ValueKind::kTemporary &&
                             program_.values[input.value].elements == elements;
        if (follows && std::ranges::find(open, input.value) == open.end()) open.push_back(input.value);
      }
    }
  }

  const graph::Program& program_;
  const Placement& placement_;
  const RecordedRoles& recorded_;
  std::vector<ValueRole> values_;
  std::vector<std::array<bool, 3>> readers_;  // per value: by phase
  std::int64_t last_backward_ = -1;           // as an op of the recording
};

/// The earliest phase of its ops: what is fused into a kernel of the forward is computed in the forward. But what reads
/// a result of the backward is of the backward, with the ops of the forward that are computed again in it.
Phase phase_of_step(const Assigner& assigner, const graph::Program& program, const kernel::Step& step,
                    bool reads_backward) {
  Phase phase = Phase::kOptimizer;
  bool any = false;
  for (const OpId op : step.ops) {
    if (program.ops[op].source >= program.sources.size()) continue;
    phase = std::min(phase, assigner.phase_of(program.ops[op]));
    any = true;
  }
  if (!any) phase = Phase::kForward;
  return reads_backward ? std::max(phase, Phase::kBackward) : phase;
}

std::vector<Phase> phases_of_steps(const Assigner& assigner, const graph::Program& program,
                                   const kernel::Schedule& schedule) {
  std::vector<Phase> phases;
  std::vector<bool> is_of_backward(program.values.size(), false);
  for (const kernel::Step& step : schedule.steps) {
    const bool reads = std::ranges::any_of(step.buffers, [&](const kernel::BufferArgument& argument) {
      return !argument.written && is_of_backward[argument.value];
    });
    const bool is_transfer = step.kind == kernel::StepKind::kTransfer;  // belongs to what runs beside it
    phases.push_back(is_transfer && !phases.empty() ? phases.back() : phase_of_step(assigner, program, step, reads));
    for (const kernel::BufferArgument& argument : step.buffers) {
      if (argument.written && phases.back() == Phase::kBackward) is_of_backward[argument.value] = true;
    }
  }
  return phases;
}

/// When steps use a value: the first, which makes it, the last, and whether one of the backward does.
struct Use {
  std::uint32_t first = kNone, length = 0;
  bool in_backward = false;
};

std::vector<Use> find_uses(const graph::Program& program, const kernel::Schedule& schedule,
                           const std::vector<Phase>& phases) {
  std::vector<Use> uses(program.values.size());
  for (std::uint32_t step = 0; step < schedule.steps.size(); ++step) {
    for (const kernel::BufferArgument& argument : schedule.steps[step].buffers) {
      Use& use = uses[argument.value];
      if (use.first == kNone) use.first = step;
      use.length = step - use.first + 1;
      use.in_backward |= phases[step] == Phase::kBackward;
    }
  }
  return uses;
}

/// A copy on the other side is what its original is; so is the new value of a state that is copied home to the host.
void follow_transfers(const graph::Program& program, const kernel::Schedule& schedule, std::vector<ValueRole>& values) {
  const auto take = [&](ValueId to, ValueId from) {
    const std::uint32_t source = values[to].source;
    values[to] = values[from];
    values[to].source = source;
  };
  for (const kernel::Step& step : schedule.steps) {
    if (step.kind != kernel::StepKind::kTransfer) continue;
    const ValueId from = step.buffers[0].value, to = step.buffers[1].value;
    const bool is_home =
        std::ranges::any_of(program.states, [&](const graph::State& state) { return state.end == to; });
    is_home ? take(from, to) : take(to, from);
  }
}

/// Per buffer: the roles of the values in it, by when steps first use them; neighbours of one role are one turn.
std::vector<std::vector<Turn>> find_turns(const graph::Program& program, const Placement& placement,
                                          const PlanRoles& roles, const std::vector<Use>& uses) {
  std::vector<std::vector<Turn>> turns(placement.buffers.size());
  for (ValueId value = 0; value < program.values.size(); ++value) {
    const std::uint32_t buffer = placement.buffer_of[value];
    if (buffer == kNone) continue;
    const bool is_made = program.values[value].kind == ValueKind::kTemporary && uses[value].first != kNone;
    turns[buffer].push_back({is_made ? uses[value].first : placement.buffers[buffer].begin, roles.values[value].role});
  }
  for (ValueId value = 0; value < placement.second_of.size(); ++value) {
    if (placement.second_of[value] != kNone) turns[placement.second_of[value]] = {{0, roles.values[value].role}};
  }
  for (std::size_t buffer = 0; buffer < turns.size(); ++buffer) {
    const std::uint32_t begin = placement.buffers[buffer].begin;
    const ValueId main = roles.value_of[buffer];
    const ValueKind kind = main == kNone ? ValueKind::kTemporary : program.values[main].kind;
    if (main == kNone || kind == ValueKind::kState || kind == ValueKind::kConstant) {
      turns[buffer] = {{begin, roles.buffers[buffer]}};
      continue;
    }
    std::ranges::stable_sort(turns[buffer], {}, &Turn::begin);
    turns[buffer].front().begin = begin;
    const auto again = std::ranges::unique(turns[buffer], {}, &Turn::role);
    turns[buffer].erase(again.begin(), again.end());
  }
  return turns;
}

}  // namespace

Role role_at(const std::vector<Turn>& turns, std::uint32_t step) {
  Role role = turns.front().role;
  for (const Turn& turn : turns) {
    if (turn.begin <= step) role = turn.role;
  }
  return role;
}

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kParameter:
      return "parameter";
    case Role::kModuleBuffer:
      return "module buffer";
    case Role::kOptimizerState:
      return "optimizer state";
    case Role::kGradient:
      return "gradient";
    case Role::kActivation:
      return "activation";
    case Role::kInput:
      return "input";
    case Role::kConstant:
      return "constant";
    case Role::kTemporary:
      return "temporary";
    case Role::kWorkspace:
      return "workspace";
  }
  return "";
}

RecordedRoles recorded_roles(const trace::Trace& trace) {
  RecordedRoles roles;
  for (const trace::External& external : trace.externals) roles.emplace(external.name, external.role);
  for (const trace::FinalState& state : trace.final_states) roles.emplace(state.name, state.role);
  roles.erase("");
  return roles;
}

PlanRoles assign_roles(const graph::Program& program, const kernel::Schedule& schedule, const Placement& placement,
                       const RecordedRoles& recorded) {
  PlanRoles roles;
  Assigner assigner(program, placement, recorded);
  roles.steps = phases_of_steps(assigner, program, schedule);
  roles.values = assigner.run();
  const std::vector<Use> uses = find_uses(program, schedule, roles.steps);
  for (ValueId value = 0; value < program.values.size(); ++value) {
    const bool is_saved =
        uses[value].first != kNone && roles.steps[uses[value].first] == Phase::kForward && uses[value].in_backward;
    if (roles.values[value].role == Role::kTemporary && is_saved) roles.values[value].role = Role::kActivation;
  }
  follow_transfers(program, schedule, roles.values);
  const std::size_t buffers = placement.buffers.size();
  roles.buffers.assign(buffers, Role::kWorkspace);
  roles.value_of.assign(buffers, kNone);
  roles.members.assign(buffers, 0);
  const auto is_held = [&](ValueId value) { return program.values[value].kind != ValueKind::kTemporary; };
  for (ValueId value = 0; value < program.values.size(); ++value) {
    const std::uint32_t buffer = placement.buffer_of[value];
    if (buffer == kNone) continue;
    ++roles.members[buffer];
    std::uint32_t& best = roles.value_of[buffer];
    const bool better = best == kNone || (is_held(value) && !is_held(best)) ||
                        (is_held(value) == is_held(best) && uses[value].length > uses[best].length);
    if (better) best = value;
  }
  for (ValueId value = 0; value < placement.second_of.size(); ++value) {
    if (placement.second_of[value] == kNone) continue;
    roles.value_of[placement.second_of[value]] = value;
    roles.members[placement.second_of[value]] = 1;
  }
  for (std::size_t buffer = 0; buffer < buffers; ++buffer) {
    if (roles.value_of[buffer] != kNone) roles.buffers[buffer] = roles.values[roles.value_of[buffer]].role;
  }
  roles.turns = find_turns(program, placement, roles, uses);
  return roles;
}

std::vector<std::uint64_t> live_bytes(const Placement& placement, std::size_t steps) {
  std::vector<std::uint64_t> change(steps + 2, 0);  // modulo 2^64: falls wrap around and cancel
  for (const memory::Buffer& buffer : placement.buffers) {
    const std::uint64_t size = (buffer.size_bytes + kAlignment - 1) / kAlignment * kAlignment;
    change[std::min<std::size_t>(buffer.begin, steps + 1)] += size;
    change[std::min<std::size_t>(buffer.end, steps + 1)] -= size;
  }
  std::vector<std::uint64_t> live(steps + 1, 0);
  std::uint64_t sum = 0;
  for (std::size_t time = 0; time <= steps; ++time) live[time] = sum += change[time];
  return live;
}

}  // namespace crucible::runtime
