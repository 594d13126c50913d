#include "frontends/accelerate/compile.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/replay_run.hpp"
#include "frontends/replay/tuning.hpp"

namespace crucible::accelerate {
namespace {

using Kind = runtime::BoundForm::Kind;
using Place = runtime::BoundForm::Place;

constexpr std::size_t kMostOwnBytes = std::size_t{64} << 10;

class Stopwatch {
 public:
  explicit Stopwatch(std::uint64_t& ns) : ns_(ns), begin_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() {
    ns_ += static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin_).count());
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::uint64_t& ns_;
  std::chrono::steady_clock::time_point begin_;
};

/// The CPU plugin's device, one for all that this process accelerates: they share kernels, threads and turns. Opened at
/// the first use, with the configuration that `crucible replay` has.
Result<const replay::OpenedDevice*> shared_device() {
  static std::mutex mutex;
  static std::optional<replay::OpenedDevice> opened;
  const std::lock_guard lock(mutex);
  if (!opened) {
    replay::DeviceChoice choice;
    choice.backend = replay::kFallbackPlugin;
    CRUCIBLE_TRY(opened, replay::open_device(choice, {}));
  }
  return &*opened;
}

Error refused(std::string text) { return {ErrorCode::kUnavailable, std::move(text)}; }

std::string site_of(const graph::Program& program, graph::ValueId value) {
  for (const graph::Op& op : program.ops) {
    const bool reads = std::ranges::any_of(op.inputs, [&](const graph::Operand& in) { return in.value == value; });
    if (!reads || op.source >= program.sources.size()) continue;
    const graph::Source& source = program.sources[op.source];
    return fmt::format("{} at {}{}{}", source.op, source.site, source.module.empty() ? "" : " in ", source.module);
  }
  return "an op";
}

/// Every tensor from outside is the caller's, or small and the same in all calls. Errors: kUnavailable naming the first
/// that is not.
Result<void> check_origins(const graph::Program& program, const trace::BlobStore& blobs, const std::string& prefix,
                           const std::vector<Place>& places, Compiled& compiled) {
  for (std::size_t k = 0; k < places.size(); ++k) {
    const Place& place = places[k];
    if (place.kind == Kind::kOutput || place.is_draw || place.name.starts_with(prefix)) continue;
    if (place.kind == Kind::kConstant && place.size_bytes <= kMostOwnBytes) {
      CRUCIBLE_TRY(std::vector<std::byte> bytes, blobs.load(program.constants[place.index].blob));
      compiled.own.emplace_back(k, std::move(bytes));
      continue;
    }
    const graph::ValueId value = place.kind == Kind::kState      ? program.states[place.index].start
                                 : place.kind == Kind::kConstant ? program.constants[place.index].value
                                                                 : program.inputs[place.index].value;
    return refused(fmt::format(
        "{} reads a tensor of {} bytes{}{} that the function reaches in a way that cannot be followed; pass it as an "
        "argument, or keep it in an attribute, a list or a dict",
        site_of(program, value), place.size_bytes, place.name.empty() ? "" : ", ", place.name));
  }
  return {};
}

/// The ops that drew, in the order of the first recorded call, each with the place where the program reads what it
/// drew: inputs that are draws stand in that order too.
Result<void> find_draws(const trace::Trace& trace, const graph::Variants& variants, const std::vector<Place>& places,
                        Compiled& compiled) {
  const graph::Program& program = *variants.programs[0];
  const trace::Iteration& first = trace.iterations[variants.turns[0].iteration];
  std::vector<const trace::Draw*> drawn;
  for (const trace::Draw& draw : trace.draws) {
    if (draw.op >= first.first_op && draw.op < first.first_op + first.op_count) drawn.push_back(&draw);
  }
  std::ranges::stable_sort(drawn, {}, [](const trace::Draw* draw) { return draw->op; });
  std::vector<bool> is_taken(places.size(), false);
  for (const trace::Draw* draw : drawn) {
    const trace::Op& op = trace.ops[draw->op];
    const trace::Schema& schema = trace.schemas[op.schema];
    DrawOp found{.op = op, .name = schema.full_name(), .output = draw->output, .place = std::nullopt, .drawn = {}};
    if (draw->output >= op.outputs.size() || op.outputs[draw->output].kind != trace::Arg::Kind::kTensor)
      return refused(fmt::format("{} draws into what is no tensor", found.name));
    found.drawn = trace.tensors[op.outputs[draw->output].tensor];
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (is_taken[k] || !places[k].is_draw || program.inputs[places[k].index].blobs[0] != draw->blob) continue;
      found.place = k;
      is_taken[k] = true;
      break;
    }
    compiled.draws.push_back(std::move(found));
  }
  for (std::size_t k = 0; k < places.size(); ++k) {
    if (places[k].is_draw && !is_taken[k]) return refused("random numbers whose op is not in the recording");
  }
  if (!compiled.draws.empty()) compiled.tensors = trace.tensors;
  return {};
}

/// Takes values out of the list that nothing names any more.
void remove_values(graph::Program& program, const std::vector<bool>& is_gone) {
  std::vector<graph::ValueId> at(program.values.size(), graph::kNone);
  std::vector<graph::Value> values;
  for (graph::ValueId id = 0; id < program.values.size(); ++id) {
    if (is_gone[id]) continue;
    at[id] = static_cast<graph::ValueId>(values.size());
    values.push_back(std::move(program.values[id]));
  }
  program.values = std::move(values);
  const auto renumber = [&](graph::Operand& operand) {
    if (!operand.is_scalar()) operand.value = at[operand.value];
  };
  for (graph::Op& op : program.ops) {
    std::ranges::for_each(op.inputs, renumber);
    std::ranges::for_each(op.outputs, renumber);
  }
  for (graph::Meaning& meaning : program.meanings) {
    for (graph::Role& role : meaning.inputs) renumber(role.operand);
    for (graph::Role& role : meaning.outputs) renumber(role.operand);
  }
  for (graph::State& state : program.states) {
    state.start = at[state.start];
    state.end = at[state.end];
  }
  for (graph::Input& input : program.inputs) input.value = at[input.value];
  for (graph::Constant& constant : program.constants) constant.value = at[constant.value];
  std::ranges::for_each(program.outputs, [&](graph::Output& output) { renumber(output.operand); });
}

/// A state that something else than the recorded calls changed between two of them is an input as well. Both lie in the
/// caller's one tensor, so the plan has to know them as one: as the state's start.
Result<void> join_memory(graph::Program& program, const std::string& prefix) {
  std::vector<graph::ValueId> instead(program.values.size(), graph::kNone);
  std::vector<bool> is_gone(program.values.size(), false);
  for (const graph::Input& input : program.inputs) {
    const graph::Value& value = program.values[input.value];
    if (input.is_draw || !value.name.starts_with(prefix)) continue;
    for (const graph::State& state : program.states) {
      const graph::Value& start = program.values[state.start];
      if (start.name != value.name) continue;
      if (start.dtype != value.dtype || start.elements != value.elements)
        return refused(fmt::format("{} is read as two tensors", value.name.substr(prefix.size())));
      instead[input.value] = state.start;
      is_gone[input.value] = true;
    }
  }
  const auto moved = [&](const graph::Operand& operand) {
    return !operand.is_scalar() && instead[operand.value] != graph::kNone;
  };
  const auto join = [&](graph::Operand& operand) {
    if (moved(operand)) operand.value = instead[operand.value];
  };
  for (graph::Op& op : program.ops) std::ranges::for_each(op.inputs, join);
  for (graph::Meaning& meaning : program.meanings) {
    for (graph::Role& role : meaning.inputs) join(role.operand);
  }
  std::ranges::for_each(program.outputs, [&](graph::Output& output) { join(output.operand); });
  std::erase_if(program.inputs, [&](const graph::Input& input) { return is_gone[input.value]; });
  remove_values(program, is_gone);
  return {};
}

/// The program that finds indices outside of where they have to lie, and nothing else. None where nothing can.
Result<std::optional<graph::Program>> bounds_program(const graph::Program& program) {
  const auto has_bounds = [](const graph::Output& output) { return output.is_bounds(); };
  const auto found = std::ranges::find_if(program.outputs, has_bounds);
  if (found == program.outputs.end()) return std::optional<graph::Program>();
  graph::Program alone = program;
  // Indices are read before anything is written where they depend on no state that the call moves: then the ops that
  // they need are few, and without the others the states end as they start.
  std::set<graph::ValueId> needed{found->operand.value};
  std::vector<bool> is_kept(alone.ops.size(), false);
  for (std::size_t i = alone.ops.size(); i-- > 0;) {
    const graph::Op& op = alone.ops[i];
    is_kept[i] = std::ranges::any_of(op.outputs, [&](const graph::Operand& out) { return needed.contains(out.value); });
    if (!is_kept[i]) continue;
    for (const graph::Operand& in : op.inputs) {
      if (!in.is_scalar()) needed.insert(in.value);
    }
  }
  const auto kept = static_cast<std::size_t>(std::ranges::count(is_kept, true));
  if (kept > 64 && kept * 4 > alone.ops.size()) {
    return refused(
        "indices are computed by most of the call, so one that is out of range would be found when states were written "
        "already");
  }
  for (graph::State& state : alone.states) state.end = state.start;
  // Dead ops go with the scheduler's pass: what nothing reads is not scheduled.
  graph::Output bounds = *found;
  bounds.bounds.clear();  // a tensor that is read like any other
  bounds.blobs.assign(alone.iterations, 0);
  alone.outputs = {std::move(bounds)};
  std::vector<graph::Op> ops;
  std::vector<graph::OpId> moved(alone.ops.size(), graph::kNone);
  for (std::size_t i = 0; i < alone.ops.size(); ++i) {
    if (!is_kept[i]) continue;
    moved[i] = static_cast<graph::OpId>(ops.size());
    ops.push_back(std::move(alone.ops[i]));
  }
  alone.ops = std::move(ops);
  // Values that no op writes any more are nothing's.
  std::vector<bool> is_gone(alone.values.size(), false);
  for (graph::ValueId id = 0; id < alone.values.size(); ++id) {
    graph::Value& value = alone.values[id];
    if (value.kind != graph::ValueKind::kTemporary) continue;
    is_gone[id] = moved[value.producer] == graph::kNone;
    value.producer = moved[value.producer];
  }
  alone.meanings.clear();
  remove_values(alone, is_gone);
  return std::optional(std::move(alone));
}

}  // namespace

Result<void> open_device() {
  const Result<const replay::OpenedDevice*> opened = shared_device();
  return opened ? Result<void>() : opened.error();
}

// A third of a processor that the program keeps busy: its calls take no more than half as long again, and what makes
// them faster for good comes in seconds. At 5 it had a quarter, for longer; at 19 a sixtieth, and half a second's work
// took half a minute.
void become_background() { setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 3); }

void give_back_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

Result<Compiled> compile(const std::string& file, const std::string& prefix) {
  Compiled compiled;
  std::optional<trace::Trace> trace;
  {
    const Stopwatch time(compiled.read_ns);
    CRUCIBLE_TRY(trace, trace::read_file(file));
  }
  std::optional<graph::Variants> variants;
  {
    const Stopwatch time(compiled.lower_ns);
    CRUCIBLE_TRY(variants, aten::lower_live(*trace));
  }
  if (variants->programs.size() != 1) {
    const auto words =
        std::ranges::find_if(variants->differences, [](const std::string& text) { return !text.empty(); });
    return refused(fmt::format("the observed calls are not alike: {}",
                               words == variants->differences.end() ? "they run other ops or sizes" : *words));
  }
  graph::Program joined = *variants->programs[0];
  CRUCIBLE_TRY_VOID(join_memory(joined, prefix));
  variants->programs[0] = std::make_shared<const graph::Program>(std::move(joined));
  const graph::Program& program = *variants->programs[0];
  std::vector<std::uint32_t> outputs;
  for (std::uint32_t k = 0; k < program.outputs.size(); ++k) {
    if (program.outputs[k].name.starts_with(prefix)) outputs.push_back(k);
  }
  compiled.left_out = program.left_out;
  compiled.slots = program.slots;
  const Stopwatch time(compiled.compile_ns);
  CRUCIBLE_TRY(runtime::BoundForm form, runtime::bound_form(program, outputs));
  CRUCIBLE_TRY_VOID(check_origins(program, *trace->blob_store, prefix, form.places, compiled));
  CRUCIBLE_TRY_VOID(find_draws(*trace, *variants, form.places, compiled));
  CRUCIBLE_TRY(std::optional<graph::Program> bounds, bounds_program(program));
  CRUCIBLE_TRY(const replay::OpenedDevice* const opened, shared_device());
  const kernel::Numerics numerics = replay::numerics_of(opened->settings);
  CRUCIBLE_TRY(const replay::Tuned tuned, replay::tune("kept", variants->programs, opened->device, true, numerics, {}));
  runtime::Options options;
  options.numerics = numerics;
  options.choices = tuned.choices;
  options.trial = replay::trial_of(opened->settings);
  // The program of the bounds has a few kernels, for which the compiler would begin once more: at the same time.
  std::future<Result<std::unique_ptr<runtime::Executable>>> of_bounds;
  if (bounds) {
    const auto found =
        std::ranges::find_if(program.outputs, [](const graph::Output& output) { return output.is_bounds(); });
    compiled.bounds_of = found->bounds;
    const std::uint32_t only = 0;
    CRUCIBLE_TRY(runtime::BoundForm form_of_bounds, runtime::bound_form(*bounds, {&only, 1}));
    of_bounds = std::async(std::launch::async, [&, form = std::move(form_of_bounds)]() mutable {
      return runtime::Executable::create(std::move(form), opened->device, options);
    });
  }
  Result<std::unique_ptr<runtime::Executable>> made =
      runtime::Executable::create(std::move(form), opened->device, options);
  if (of_bounds.valid()) {
    CRUCIBLE_TRY(compiled.bounds, of_bounds.get());
  }
  CRUCIBLE_TRY(compiled.executable, std::move(made));
  return compiled;
}

}  // namespace crucible::accelerate
