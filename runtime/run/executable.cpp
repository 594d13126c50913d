// States and constants of several programs have given places in front of an arena (KeptPlaces); a bound program's have
// places outside of it. So a plan is made as for several programs, and the addresses in front are the caller's.
#include "runtime/run/executable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/plan/library_calls.hpp"
#include "runtime/plan/plan_ops.hpp"
#include "runtime/run/session_state.hpp"

namespace crucible::runtime {
namespace {

using graph::kNone;
using graph::ValueId;
using Kind = BoundForm::Kind;
using Place = BoundForm::Place;

std::uint64_t bytes_of(const graph::Value& value) {
  return static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
}

class Former {
 public:
  explicit Former(const graph::Program& given) : given_(given), form_{.program = given, .places = {}} {}

  Result<BoundForm> run(std::span<const std::uint32_t> outputs) {
    graph::Program& program = form_.program;
    is_taken_.assign(program.values.size(), false);
    for (const graph::State& state : program.states) {
      is_taken_[state.end] = true;
      add(Kind::kState, form_.places.size(), state.start, state.start != state.end);
    }
    program.outputs.clear();
    for (const std::uint32_t index : outputs) CRUCIBLE_TRY_VOID(add_output(index));
    for (std::size_t i = 0; i < program.constants.size(); ++i)
      add(Kind::kConstant, i, program.constants[i].value, false);
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      const ValueId value = program.inputs[i].value;
      add(Kind::kInput, i, value, false);
      form_.places.back().is_draw = program.inputs[i].is_draw;
      program.values[value].kind = graph::ValueKind::kConstant;
      program.constants.push_back({.value = value, .blob = kNone});
    }
    program.inputs.clear();
    CRUCIBLE_TRY_VOID(graph::verify(program));
    return std::move(form_);
  }

 private:
  void add(Kind kind, std::size_t index, ValueId value, bool is_written) {
    const graph::Value& of = form_.program.values[value];
    form_.places.push_back({.kind = kind,
                            .index = static_cast<std::uint32_t>(index),
                            .name = of.name,
                            .dtype = of.dtype,
                            .size_bytes = bytes_of(of),
                            .is_written = is_written});
  }

  /// The value itself where it is all of a temporary that leaves once; else a copy of what the output shows of it.
  Result<void> add_output(std::uint32_t index) {
    graph::Program& program = form_.program;
    if (index >= given_.outputs.size() || given_.outputs[index].is_bounds() ||
        given_.outputs[index].operand.is_scalar()) {
      return Error{ErrorCode::kUsage, fmt::format("output {} is no tensor that a run could write", index)};
    }
    const graph::Operand& operand = given_.outputs[index].operand;
    const DType dtype = program.values[operand.value].dtype;
    const std::int64_t elements = operand.view.elements();
    ValueId end = operand.value;
    const bool is_whole = program.values[end].kind == graph::ValueKind::kTemporary && !is_taken_[end] &&
                          operand.view.offset == 0 && operand.view.is_contiguous() &&
                          elements == program.values[end].elements;
    if (!is_whole) {
      end = static_cast<ValueId>(program.values.size());
      program.values.push_back({.kind = graph::ValueKind::kTemporary,
                                .dtype = dtype,
                                .elements = elements,
                                .name = "",
                                .producer = static_cast<graph::OpId>(program.ops.size())});
      graph::Operand written{.value = end, .view = graph::View::contiguous(operand.view.sizes), .scalar = {}};
      graph::Op copy;
      copy.kind = graph::OpKind::kCopy;
      copy.inputs = {operand};
      copy.outputs = {std::move(written)};
      program.ops.push_back(std::move(copy));
      is_taken_.push_back(false);
    }
    is_taken_[end] = true;
    const auto start = static_cast<ValueId>(program.values.size());
    program.values.push_back({.kind = graph::ValueKind::kState,
                              .dtype = dtype,
                              .elements = elements,
                              .name = given_.outputs[index].name,
                              .producer = kNone});
    is_taken_.push_back(true);
    program.states.push_back({.start = start, .end = end, .initial_blob = kNone, .final_blob = kNone});
    add(Kind::kOutput, index, start, true);
    return {};
  }

  const graph::Program& given_;
  BoundForm form_;
  std::vector<bool> is_taken_;  // per value: it ends a state
};

}  // namespace

Result<BoundForm> bound_form(const graph::Program& program, std::span<const std::uint32_t> outputs) {
  return Former(program).run(outputs);
}

struct Executable::State {
  Session::State session;  // its stages up to the plan
  std::vector<Place> places;
  std::vector<bool> is_used;  // per place
  struct Bound {
    void* memory = nullptr;
    std::optional<backend::Buffer> buffer;
  };
  struct Use {
    std::size_t part = 0;
    std::uint32_t op = 0, buffer = 0;
  };
  struct Part {
    StepRange range;
    std::optional<backend::Plan> plan = std::nullopt;  // made when all is bound; none of a part without ops
  };
  std::vector<Bound> bound;            // per place; destroyed after the plans
  std::vector<std::vector<Use>> uses;  // per place
  std::vector<std::size_t> moved;      // places that were bound since the plans were told
  std::vector<std::size_t> written_first;
  std::vector<crucible_rebinding> rebindings;
  std::vector<std::uint64_t> slots;
  std::vector<Part> parts = std::vector<Part>(1);
  bool is_planned = false;

  Result<crucible_kernel*> kernel(std::string_view name) const {
    if (session.careful && std::ranges::find(session.careful->names, name) != session.careful->names.end())
      return session.careful->module.kernel(name);
    return session.module->kernel(name);
  }
  Result<void> make_plans();
  Result<void> tell_moved();
  Result<void> run(std::size_t begin, std::size_t end);
};

Executable::Executable(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executable::~Executable() = default;

Result<std::unique_ptr<Executable>> Executable::create(BoundForm form, std::shared_ptr<backend::Device> device,
                                                       const Options& options) {
  auto state = std::make_unique<State>();
  Session::State& session = state->session;
  auto program = std::make_shared<const graph::Program>(std::move(form.program));
  session.program = program;
  session.device = std::move(device);
  session.options = options;
  session.options.fallback = Fallback::kForbid;
  session.options.memory.inputs_ahead = false;
  const std::uint64_t zone = wants_buffer_bytes(*session.device) ? kRedZoneBytes : 0;
  session.options.memory.kept = std::make_shared<const KeptPlaces>(KeptPlaces::of({&program, 1}, zone));
  session.options.memory.kept_in_zones = session.options.memory.kept;
  CRUCIBLE_TRY_VOID(session.make_schedule());
  CRUCIBLE_TRY_VOID(session.compile());
  if (session.fallback.device) return Error{ErrorCode::kUnavailable, "a bound program runs on one device alone"};
  if (const Result<void> certified = check_certificate(session.placement); !certified)
    return at_stage("memory plan", certified.error());
  CRUCIBLE_TRY_VOID(session.allocate_arena(session.placement.plan.peak_bytes - session.placement.kept_bytes));
  state->places = std::move(form.places);
  const Placement& placement = session.placement;
  // The program's states, then its constants: so stand the buffers that are kept, and so do the places.
  if (placement.first_kept + state->places.size() != placement.buffers.size()) {
    return Error{ErrorCode::kInternal, fmt::format("{} places are to be bound, the plan has {}", state->places.size(),
                                                   placement.buffers.size() - placement.first_kept)};
  }
  state->bound.resize(state->places.size());
  state->is_used.assign(state->places.size(), false);
  const auto use = [&](std::uint32_t buffer) {
    if (buffer != kNone && buffer >= placement.first_kept) state->is_used[buffer - placement.first_kept] = true;
  };
  for (const kernel::Step& step : session.schedule.steps) {
    for (const kernel::BufferArgument& argument : step.buffers) use(placement.buffer_of[argument.value]);
  }
  for (const HomeCopy& copy : placement.home_copies) use(copy.from), use(copy.to);
  state->slots.assign(program->slots.size(), 0);
  return std::unique_ptr<Executable>(new Executable(std::move(state)));
}

const std::vector<Place>& Executable::places() const { return state_->places; }
bool Executable::uses(std::size_t place) const { return state_->is_used[place]; }
const void* Executable::bound(std::size_t place) const { return state_->bound[place].memory; }
std::uint64_t Executable::arena_bytes() const { return state_->session.arena->size_bytes(); }
std::uint64_t Executable::arena_address() const { return state_->session.arena->address(); }
std::size_t Executable::steps() const { return state_->session.schedule.steps.size(); }
backend::CompileCounts Executable::compile_counts() const {
  return state_->session.module ? state_->session.module->counts().value_or(backend::CompileCounts{})
                                : backend::CompileCounts{};
}

Result<void> Executable::bind(std::size_t place, void* memory) {
  State::Bound& bound = state_->bound.at(place);
  const Place& what = state_->places[place];
  if (memory != nullptr && bound.memory == memory) return {};
  if (what.size_bytes == 0) return bound.memory = memory, Result<void>();
  if (memory == nullptr || reinterpret_cast<std::uintptr_t>(memory) % kBoundAlignment != 0) {
    return Error{ErrorCode::kUsage, fmt::format("{} cannot be bound to {}: memory begins at a multiple of {} bytes",
                                                what.name, memory, kBoundAlignment)};
  }
  CRUCIBLE_TRY(backend::Buffer buffer, backend::Buffer::adopt(state_->session.device, memory, what.size_bytes));
  bound.buffer.emplace(std::move(buffer));
  bound.memory = memory;
  state_->moved.push_back(place);
  return {};
}

Result<void> Executable::set_slots(std::span<const std::uint64_t> bits) {
  if (bits.size() != state_->slots.size()) {
    return Error{ErrorCode::kUsage, fmt::format("{} numbers for {} slots", bits.size(), state_->slots.size())};
  }
  state_->slots.assign(bits.begin(), bits.end());
  for (State::Part& part : state_->parts) {
    if (part.plan && !bits.empty()) CRUCIBLE_TRY_VOID(part.plan->set_slots(bits));
  }
  return {};
}

Result<void> Executable::State::make_plans() {
  // What has no bytes lies anywhere in memory of the device: devices look an address up, though nothing is read there.
  std::vector<std::uint64_t> outside(places.size(), session.arena->address());
  for (std::size_t place = 0; place < places.size(); ++place) {
    if (places[place].size_bytes != 0 && is_used[place] && !bound[place].buffer)
      return Error{ErrorCode::kUsage, fmt::format("{} is not bound to memory", places[place].name)};
    if (bound[place].buffer) outside[place] = bound[place].buffer->address();
  }
  uses.assign(places.size(), {});
  const std::uint32_t first = session.placement.first_kept;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    Part& part = parts[k];
    part.range.has_sizes = session.is_sized;
    part.range.outside = outside;
    CRUCIBLE_TRY(const PlanOps listed,
                 PlanOps::build(
                     *session.program, session.schedule, session.placement, session.arena->address(),
                     [&](std::string_view name) { return kernel(name); }, false, part.range));
    part.range.outside = {};
    if (listed.ops().empty() && parts.size() > 1) continue;
    CRUCIBLE_TRY(backend::Plan built, backend::Plan::build(session.device, listed.ops(),
                                                           static_cast<std::uint32_t>(session.program->slots.size())));
    for (std::uint32_t op = 0; op < listed.buffers().size(); ++op) {
      const std::vector<std::uint32_t>& buffers_of_op = listed.buffers()[op];
      for (std::uint32_t i = 0; i < buffers_of_op.size(); ++i) {
        if (buffers_of_op[i] >= first) uses[buffers_of_op[i] - first].push_back({k, op, i});
      }
    }
    part.plan.emplace(std::move(built));
    if (!slots.empty()) CRUCIBLE_TRY_VOID(part.plan->set_slots(slots));
  }
  moved.clear();
  is_planned = true;
  return {};
}

Result<void> Executable::State::tell_moved() {
  for (std::size_t k = 0; k < parts.size(); ++k) {
    rebindings.clear();
    for (const std::size_t place : moved) {
      for (const Use& use : uses[place]) {
        if (use.part == k) rebindings.push_back({use.op, use.buffer, bound[place].buffer->address()});
      }
    }
    if (!rebindings.empty()) CRUCIBLE_TRY_VOID(parts[k].plan->rebind(rebindings));
  }
  moved.clear();
  return {};
}

Result<void> Executable::State::run(std::size_t begin, std::size_t end) {
  if (!is_planned) CRUCIBLE_TRY_VOID(make_plans());
  if (!moved.empty()) CRUCIBLE_TRY_VOID(tell_moved());
  for (std::size_t k = begin; k < end; ++k) {
    if (parts[k].plan) CRUCIBLE_TRY_VOID(parts[k].plan->replay());
  }
  return {};
}

Result<void> Executable::split_after(std::span<const std::size_t> places) {
  const Placement& placement = state_->session.placement;
  const std::vector<kernel::Step>& steps = state_->session.schedule.steps;
  const auto writes = [&](std::size_t step, auto&& is_meant) {
    return std::ranges::any_of(steps[step].buffers, [&](const kernel::BufferArgument& argument) {
      return argument.written && is_meant(placement.buffer_of[argument.value]);
    });
  };
  std::uint32_t end = 0;
  for (const std::size_t place : places) {
    const auto is_it = [&](std::uint32_t buffer) { return buffer == placement.first_kept + place; };
    std::size_t step = steps.size();
    while (step > 0 && !writes(step - 1, is_it)) --step;
    if (step == 0 || std::ranges::any_of(placement.home_copies, [&](const HomeCopy& copy) { return is_it(copy.to); })) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("{} is there only when everything is", state_->places[place].name)};
    }
    end = std::max(end, static_cast<std::uint32_t>(step));
  }
  state_->written_first.clear();
  for (std::size_t place = 0; place < state_->places.size(); ++place) {
    if (std::ranges::find(places, place) != places.end()) continue;
    const auto is_it = [&](std::uint32_t buffer) { return buffer == placement.first_kept + place; };
    for (std::size_t step = 0; step < end; ++step) {
      if (!writes(step, is_it)) continue;
      state_->written_first.push_back(place);
      break;
    }
  }
  state_->parts = std::vector<State::Part>(2);
  state_->parts[0].range = {.begin = 0, .end = end, .homes = false};
  state_->parts[1].range = {.begin = end};
  state_->is_planned = false;
  return {};
}

const std::vector<std::size_t>& Executable::written_first() const { return state_->written_first; }
Result<void> Executable::run() { return state_->run(0, state_->parts.size()); }
Result<void> Executable::run_first() { return state_->run(0, 1); }
Result<void> Executable::run_rest() { return state_->run(1, state_->parts.size()); }

}  // namespace crucible::runtime
