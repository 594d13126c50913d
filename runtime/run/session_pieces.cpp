// Compiling for a device that may refuse some kernels, and what becomes of the result: one plan, or several on two
// devices with copies between them. Running them is in session_run.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <unordered_set>

#include "core/base/progress.hpp"
#include "core/graph/opaque.hpp"
#include "runtime/plan/library_calls.hpp"
#include "runtime/plan/plan_ops.hpp"
#include "runtime/plan/refusals.hpp"
#include "runtime/run/mathematics.hpp"
#include "runtime/run/session_state.hpp"

namespace crucible::runtime {
namespace {

std::string op_name(const graph::Program& program, const graph::Op& op) {
  return op.kind == graph::OpKind::kOpaque ? graph::opaque_of(program, op).name() : std::string(graph::name(op.kind));
}

/// "tanh, multiply": the kinds of a step's ops, each once, in their order.
std::string kinds_of(const graph::Program& program, const kernel::Step& step) {
  std::vector<std::string> kinds;
  std::string text;
  for (const graph::OpId op : step.ops) {
    const std::string kind = op_name(program, program.ops[op]);
    if (std::ranges::find(kinds, kind) != kinds.end()) continue;
    kinds.push_back(kind);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", kind);
  }
  return text;
}

/// "train.py:31 (blocks.0.norm1)" of the first op that has a source.
std::string source_of(const graph::Program& program, const kernel::Step& step) {
  for (const graph::OpId op : step.ops) {
    const std::uint32_t index = program.ops[op].source;
    if (index >= program.sources.size()) continue;
    const graph::Source& source = program.sources[index];
    return source.module.empty() ? source.site : fmt::format("{} ({})", source.site, source.module);
  }
  return "";
}

constexpr std::chrono::milliseconds kFromCache(20);  // in which a plugin whose cache has everything is done

constexpr std::string_view kWrongAdvice =
    "a compiler that is wrong about one kernel may be right in another version: name another one (crucible plugin "
    "explain NAME lists the "
    "plugin's options), or another --backend";

/// "device acme:0 refuses 2 of 14 steps: ..." with the ops of each, ten at most.
Error forbidden(const backend::Device& device, const std::vector<RefusedStep>& refused, std::size_t steps,
                std::string_view advice) {
  std::string text = fmt::format("device {} refuses {} of {} steps:", device.info().id, refused.size(), steps);
  for (std::size_t i = 0; i < refused.size() && i < 10; ++i) {
    text += fmt::format("\n  {}{}{}: {}", refused[i].ops, refused[i].source.empty() ? "" : " at ", refused[i].source,
                        refused[i].reason);
  }
  if (refused.size() > 10) text += fmt::format("\n  and {} more", refused.size() - 10);
  return {ErrorCode::kUnavailable, fmt::format("{}\n{}", text, advice)};
}

}  // namespace

Result<void> Session::State::compile() {
  std::vector<backend::KernelSource> neutral, opaque;
  std::unordered_set<std::string_view> seen;
  for (const kernel::Kernel& kernel : schedule.kernels) {
    std::vector<backend::KernelSource>& sources = kernel.is_opaque() ? opaque : neutral;
    if (seen.insert(kernel.name).second) sources.push_back({kernel.name, kernel.opaque, kernel.ir});
  }
  is_second_kernel.assign(schedule.kernels.size(), false);
  const bool takes_opaque = device->takes_opaque();
  if (!takes_opaque && !neutral.empty()) CRUCIBLE_TRY_VOID(check_mathematics(*device, schedule.numerics));
  std::string failed;
  std::vector<std::pair<std::string, std::string>> named;
  std::unordered_set<std::uint32_t> of_steps;
  for (const kernel::Step& step : schedule.steps) {
    if (step.kind != kernel::StepKind::kLaunch || !of_steps.insert(step.kernel).second) continue;
    const std::string source = source_of(*program, step);
    named.emplace_back(
        schedule.kernels[step.kernel].name,
        source.empty() ? kinds_of(*program, step) : fmt::format("{} at {}", kinds_of(*program, step), source));
  }
  named_kernels = NamedKernels(std::move(named));
  const PassInProgress pass("compiling kernels");
  TrialReferences references(trial_place(device));
  if (options.trial.is_on && trial_place(device).computes()) references.start(neutral, kFromCache);
  Result<AcceptedKernels> accepted = compile_accepted(device, takes_opaque ? opaque : neutral, &failed);
  if (!accepted)
    return Error{accepted.error().code, fmt::format("compile: {}{}", accepted.error().message, ops_of_kernels(failed))};
  CRUCIBLE_TRY_VOID(try_accepted(device, neutral, references, *accepted));
  module = std::move(accepted->module);
  careful = std::move(accepted->careful);
  std::vector<Refusal> refused = std::move(accepted->refused);
  if (takes_opaque) {
    if (!refused.empty()) return opaque_refused(*device, refused);
    for (const backend::KernelSource& source : neutral) refused.push_back({source.name, "it runs opaque ops alone"});
    return refused.empty() ? Result<void>() : compile_refused(neutral, refused);
  }
  if (opaque.empty()) return refused.empty() ? Result<void>() : compile_refused(neutral, refused);
  if (!refused.empty()) {
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("device {} refuses {} kernels ({}), and the program has opaque ops too: one program runs on "
                    "two devices at most\n{}",
                    device->info().id, refused.size(), refused[0].reason, graph::opaque_list(*program))};
  }
  return compile_opaque(opaque);
}

TrialPlace Session::State::trial_place(const std::shared_ptr<backend::Device>& on) const {
  return {.device = on, .program = *program, .schedule = schedule, .placement = placement};
}

/// Kernels that came out wrong leave `accepted.module`.
Result<void> Session::State::try_accepted(const std::shared_ptr<backend::Device>& on,
                                          std::span<const backend::KernelSource> sources, TrialReferences& references,
                                          AcceptedKernels& accepted) {
  Result<void> done = try_kernels(trial_place(on), options.trial, sources, references, accepted, trials);
  return done ? done : at_stage("trial of the compiled kernels", done.error());
}

std::string Session::State::ops_of_kernels(std::string_view kernels) const {
  std::string text;
  while (!kernels.empty()) {
    const std::size_t comma = kernels.find(", ");
    const std::string_view name = kernels.substr(0, comma);
    kernels = comma == std::string_view::npos ? std::string_view() : kernels.substr(comma + 2);
    for (std::uint32_t index = 0; index < schedule.steps.size(); ++index) {
      const kernel::Step& step = schedule.steps[index];
      if (step.kind != kernel::StepKind::kLaunch || schedule.kernels[step.kernel].name != name) continue;
      const std::string source = source_of(*program, step);
      text += fmt::format("\n  kernel {}: {}{}{} (its text: crucible kernels FILE --show {})", name,
                          kinds_of(*program, step), source.empty() ? "" : " at ", source, index);
      break;  // of its steps the first one
    }
  }
  return text;
}

/// Names each op that the device cannot run, with its words.
Error Session::State::opaque_refused(const backend::Device& by, const std::vector<Refusal>& refused) const {
  std::string text =
      graph::opaque_list(*program) + fmt::format("\ndevice {} cannot run {} of them:", by.info().id, refused.size());
  for (const Refusal& refusal : refused) text += "\n  " + refusal.reason;
  return {ErrorCode::kBadInput, text};
}

/// A second device runs the opaque ops, or the user hears which they are.
Result<void> Session::State::compile_opaque(const std::vector<backend::KernelSource>& sources) {
  if (!options.open_opaque) {
    return Error{
        ErrorCode::kBadInput,
        fmt::format("{}\nbackend {} runs neutral ops alone; with --fallback warn or allow the plugin torch runs "
                    "these, where it is installed",
                    graph::opaque_list(*program), device->backend().name())};
  }
  Result<std::shared_ptr<backend::Device>> second = options.open_opaque();
  if (!second) {
    return Error{ErrorCode::kBadInput, fmt::format("{}\nthe plugin torch would run them, and cannot be used: {}",
                                                   graph::opaque_list(*program), second.error().message)};
  }
  fallback.device = *std::move(second);
  Result<AcceptedKernels> accepted = compile_accepted(fallback.device, sources);
  if (!accepted) return at_stage("compile opaque ops", accepted.error());
  if (!accepted->refused.empty()) return opaque_refused(*fallback.device, accepted->refused);
  second_module = std::move(accepted->module);
  for (std::size_t i = 0; i < schedule.kernels.size(); ++i) is_second_kernel[i] = schedule.kernels[i].is_opaque();
  for (std::uint32_t index = 0; index < schedule.steps.size(); ++index) {
    const kernel::Step& step = schedule.steps[index];
    if (step.kind != kernel::StepKind::kLaunch || !is_second_kernel[step.kernel]) continue;
    fallback.steps.push_back({index, kinds_of(*program, step), source_of(*program, step), "an opaque op"});
  }
  return {};
}

/// The second device takes what the first one refused, or the user hears what that was.
Result<void> Session::State::compile_refused(const std::vector<backend::KernelSource>& sources,
                                             const std::vector<Refusal>& refused) {
  const auto refusal_of = [&](const std::string& name) { return std::ranges::find(refused, name, &Refusal::kernel); };
  for (std::size_t i = 0; i < schedule.kernels.size(); ++i) {
    is_second_kernel[i] = refusal_of(schedule.kernels[i].name) != refused.end();
  }
  for (std::uint32_t index = 0; index < schedule.steps.size(); ++index) {
    const kernel::Step& step = schedule.steps[index];
    if (step.kind != kernel::StepKind::kLaunch || !is_second_kernel[step.kernel]) continue;
    fallback.steps.push_back({index, kinds_of(*program, step), source_of(*program, step),
                              refusal_of(schedule.kernels[step.kernel].name)->reason});
  }
  if (options.fallback == Fallback::kForbid || !options.open_second) {
    const bool is_wrong =
        std::ranges::any_of(trials.wrong, [](const WrongKernel& kernel) { return !kernel.is_mended; });
    return forbidden(
        *device, fallback.steps, schedule.steps.size(),
        is_wrong ? kWrongAdvice : "--fallback allow lets the CPU plugin run them, with copies between the devices");
  }
  Result<std::shared_ptr<backend::Device>> second = options.open_second();
  if (!second) return at_stage("device for refused kernels", second.error());
  fallback.device = *std::move(second);
  CRUCIBLE_TRY_VOID(check_mathematics(*fallback.device, schedule.numerics));
  std::vector<backend::KernelSource> left;
  for (const backend::KernelSource& source : sources) {
    if (refusal_of(source.name) != refused.end()) left.push_back(source);
  }
  Result<backend::Module> compiled = backend::Module::compile(fallback.device, left);
  if (!compiled) return at_stage("compile for the second device", compiled.error());
  AcceptedKernels accepted;
  accepted.module.emplace(*std::move(compiled));
  TrialReferences references(trial_place(fallback.device));
  CRUCIBLE_TRY_VOID(try_accepted(fallback.device, left, references, accepted));
  second_module = std::move(accepted.module);
  second_careful = std::move(accepted.careful);
  if (accepted.refused.empty()) return {};
  std::vector<RefusedStep> wrong;
  for (const RefusedStep& step : fallback.steps) {
    const auto found =
        std::ranges::find(accepted.refused, schedule.kernels[schedule.steps[step.step].kernel].name, &Refusal::kernel);
    if (found != accepted.refused.end()) wrong.push_back({step.step, step.ops, step.source, found->reason});
  }
  return forbidden(*fallback.device, wrong, schedule.steps.size(), kWrongAdvice);
}

Result<void> Session::State::allocate_arena(std::uint64_t size_bytes) {
  // An empty program still gets an arena: backends need not support allocations of nothing.
  Result<backend::Buffer> allocated = backend::Buffer::allocate(device, std::max(size_bytes, kAlignment), kAlignment);
  if (!allocated) return at_stage("arena", allocated.error());
  arena = std::make_shared<backend::Buffer>(*std::move(allocated));
  submitted = std::make_shared<Submissions>(device);
  return {};
}

Result<void> Session::State::build_plan() {
  if (Result<void> certified = check_certificate(placement); !certified)
    return at_stage("memory plan", certified.error());
  std::vector<bool> on_second;
  for (const kernel::Step& step : schedule.steps) {
    on_second.push_back(step.kind == kernel::StepKind::kLaunch && step.kernel < is_second_kernel.size() &&
                        is_second_kernel[step.kernel]);
  }
  Result<Split> cut = split(*program, schedule, placement, on_second, options.poison);
  if (!cut) return at_stage("plan", cut.error());
  if (fallback.device) {
    Result<backend::Buffer> other =
        backend::Buffer::allocate(fallback.device, std::max(placement.plan.peak_bytes, kAlignment), kAlignment);
    if (!other) return at_stage("arena of the second device", other.error());
    second_arena.emplace(*std::move(other));
  }
  if (fallback.device) second_submitted.emplace(fallback.device);
  is_second_sized = fallback.device && wants_buffer_bytes(*fallback.device);
  fallback.segments = static_cast<std::uint32_t>(cut->segments.size());
  fallback.copies_per_iteration = cut->copies;
  fallback.bytes_per_iteration = cut->bytes;
  loaded_twice = std::move(cut->loaded_twice);
  host_arena.resize(placement.host_plan.peak_bytes);
  for (Segment& segment : cut->segments) {
    Result<void> built = build_piece(std::move(segment));
    if (!built) return at_stage("plan", built.error());
  }
  return {};
}

Result<void> Session::State::build_piece(Segment segment) {
  if (segment.is_transfer) {
    pieces.push_back({std::move(segment), {}, {}});
    return {};
  }
  const backend::Buffer& own_arena = segment.on_second ? *second_arena : *arena;
  const std::optional<backend::Module>& own_module = segment.on_second ? second_module : module;
  const std::optional<CarefulKernels>& own_careful = segment.on_second ? second_careful : careful;
  const FindKernel find = [&](std::string_view name) -> Result<crucible_kernel*> {
    if (own_careful && std::ranges::find(own_careful->names, name) != own_careful->names.end())
      return own_careful->module.kernel(name);
    if (!own_module) return Error{ErrorCode::kInternal, fmt::format("kernel {} was not compiled", name)};
    return own_module->kernel(name);
  };
  const StepRange range{.begin = segment.begin,
                        .end = segment.end,
                        .homes = segment.homes,
                        .has_sizes = segment.on_second ? is_second_sized : is_sized};
  const std::shared_ptr<backend::Device>& on = segment.on_second ? fallback.device : device;
  Piece& piece = pieces.emplace_back(std::move(segment));
  for (std::uint32_t each = 0; each < (placement.has_two_places() ? 2 : 1); ++each) {
    StepRange of_place = range;
    of_place.place = each;
    CRUCIBLE_TRY(const PlanOps listed,
                 PlanOps::build(*program, schedule, placement, own_arena.address(), find, options.poison, of_place));
    CRUCIBLE_TRY(backend::Plan built,
                 backend::Plan::build(on, listed.ops(), static_cast<std::uint32_t>(program->slots.size())));
    piece.plans[each].emplace(std::move(built));
    piece.op_of_step = listed.op_of_step();
  }
  return {};
}

/// Through the host: devices of two plugins know nothing of each other, nor of each other's timelines. Nothing may be
/// in flight that writes what is copied, or uses the place where it goes.
Result<void> Session::State::copy_into(const Segment& segment) {
  std::vector<std::byte> bytes;
  const std::uint64_t began_ns = steady_ns();
  backend::Buffer& to = segment.on_second ? *second_arena : *arena;
  const backend::Buffer& from = segment.on_second ? *arena : *second_arena;
  for (const CrossCopy& copy : segment.before) {
    bytes.resize(copy.size_bytes);
    CRUCIBLE_TRY_VOID(from.read(offset_of(copy.value), bytes));
    CRUCIBLE_TRY_VOID(to.write(offset_of(copy.value), bytes));
  }
  if (!segment.before.empty()) note(Busy::With::kCopies, loaded_iteration, began_ns);
  return {};
}

/// A copy between the arena and the host: an input comes from where inputs come, anything else from the host's arena.
Result<void> Session::State::transfer(const kernel::Step& step, std::uint32_t index) {
  const graph::ValueId from = step.buffers[0].value, to = step.buffers[1].value;
  const std::uint64_t size = bytes_of(program->values[from]);
  if (program->values[from].kind == graph::ValueKind::kInput) {
    const auto input = std::ranges::find(program->inputs, from, &graph::Input::value);
    if (input == program->inputs.end() || loaded_iteration >= input->blobs.size()) {
      return Error{ErrorCode::kBadInput,
                   fmt::format("input {} was recorded {} times, iteration {} is asked for", name_of(from),
                               input == program->inputs.end() ? 0 : input->blobs.size(), loaded_iteration)};
    }
    CRUCIBLE_TRY_VOID(write_blob(to, input->blobs[loaded_iteration]));
  } else if (schedule.on_host(to)) {
    if (size > 0) CRUCIBLE_TRY_VOID(arena->read(offset_of(from), on_host(to)));
  } else if (size > 0) {
    CRUCIBLE_TRY_VOID(arena->write(offset_of(to), on_host(from)));
  }
  if (!options.poison) return {};
  for (std::size_t buffer = 0; buffer < placement.buffers.size(); ++buffer) {  // what dies with this step
    const memory::Buffer& dead = placement.buffers[buffer];
    if (dead.end != index + 1 || dead.size_bytes == 0) continue;
    CRUCIBLE_TRY_VOID(
        arena->fill(placement.plan.offsets[buffer], dead.size_bytes - placement.red_zone_bytes, kPoisonByte));
  }
  for (std::size_t buffer = 0; buffer < placement.host_buffers.size(); ++buffer) {
    const memory::Buffer& dead = placement.host_buffers[buffer];
    const auto range = std::span(host_arena).subspan(placement.host_plan.offsets[buffer], dead.size_bytes);
    if (dead.end == index + 1) std::ranges::fill(range, std::byte{kPoisonByte});
  }
  return {};
}

std::string Session::step_in_words(std::uint32_t step) const {
  const std::string ops = kinds_of(*state_->program, state_->schedule.steps[step]),
                    source = source_of(*state_->program, state_->schedule.steps[step]);
  return source.empty() ? ops : fmt::format("{} at {}", ops, source);
}

std::vector<backend::Properties> Session::State::plan_facts() const {
  std::vector<backend::Properties> all;
  for (const Piece& piece : pieces) {
    if (piece.plans[place]) all.push_back(piece.plans[place]->facts());
  }
  return all;
}

std::string Session::State::times_from() const {
  std::vector<std::string> all;
  for (const Piece& piece : pieces) {
    const std::string from =
        piece.plans[place] ? piece.plans[place]->times_from() : "the host's clock around each transfer";
    if (!from.empty() && std::ranges::find(all, from) == all.end()) all.push_back(from);
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace crucible::runtime
