// The session: claims, schedule, placement; then the hot path, iteration by iteration inputs and slots in, replay,
// outputs out: begin() and finish(). Compiling and the backend's plans are in session_pieces.cpp, the poisoned form in
// session_poison.cpp, verification of what came out in verify.cpp.
#include "runtime/run/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "core/base/progress.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/measure/choices.hpp"
#include "runtime/plan/library_calls.hpp"
#include "runtime/plan/plan_ops.hpp"
#include "runtime/run/kept_blobs.hpp"
#include "runtime/run/session_state.hpp"

namespace crucible::runtime {

Error at_stage(std::string_view stage, const Error& error) {
  return {error.code, fmt::format("{}: {}", stage, error.message)};
}

Result<void> Session::State::make_schedule() {
  LibraryClaims claims(device);
  kernel::Options schedule_options;
  ask(schedule_options, claims, options.choices.get());
  schedule_options.fuse = options.fuse;
  schedule_options.numerics = options.numerics;
  schedule_options.device = shape_of(*device);
  Result<kernel::Prepared> made = kernel::prepare(*program, schedule_options);
  if (!made) return at_stage("schedule", made.error());
  if (made->program) program = std::make_shared<const graph::Program>(*std::move(made->program));
  const auto scratch_of = [&claims](const kernel::Step& step) {
    return step.kind == kernel::StepKind::kLibrary ? claims.scratch_bytes(step.library) : 0;
  };
  // A device that watches its launches' accesses finds one into the next buffer when that one does not follow at once.
  is_sized = wants_buffer_bytes(*device);
  const std::uint64_t red_zone_bytes = options.poison || is_sized ? kRedZoneBytes : 0;
  Result<Arranged> arranged = arrange(program, std::move(made->schedule), scratch_of, options.memory, red_zone_bytes);
  if (!arranged) return at_stage("memory plan", arranged.error());
  library_failure = claims.failure();
  program = std::move(arranged->program);
  schedule = std::move(arranged->schedule);
  placement = std::move(arranged->placement);
  arrange_report = std::move(arranged->report);
  for (const kernel::Step& step : schedule.steps) {
    if (step.kind == kernel::StepKind::kLibrary && !claims.takes(step.library)) {
      return Error{ErrorCode::kInternal, "schedule: a step calls the library for what the library declined"};
    }
  }
  return {};
}

std::uint64_t Session::State::offset_of(graph::ValueId value) const {
  return placement.plan.offsets[placement.buffer_at(value, place)];
}

std::span<std::byte> Session::State::on_host(graph::ValueId value) {
  return std::span(host_arena)
      .subspan(placement.host_plan.offsets[placement.host_of[value]], bytes_of(program->values[value]));
}

std::string Session::State::name_of(graph::ValueId value) const {
  const std::string& name = program->values[value].name;
  return name.empty() ? fmt::format("value {}", value) : name;
}

Result<void> Session::State::write_blob(graph::ValueId value, std::uint32_t blob) {
  const std::uint64_t size = bytes_of(program->values[value]);
  if (blob == graph::kNone) {  // a state that the recording first saw being written starts as zeros
    if (interpreted) interpreted->values[value].assign(size, std::byte{0});
    if (size == 0 || interpreted) return {};
    if (schedule.on_host(value)) return std::ranges::fill(on_host(value), std::byte{0}), Result<void>();
    const bool is_twice = std::ranges::find(loaded_twice, value) != loaded_twice.end();
    if (is_twice) CRUCIBLE_TRY_VOID(second_arena->fill(offset_of(value), size, 0));
    if (writes && NearWrites::takes(size))
      return writes->add(offset_of(value), std::vector<std::byte>(size)), Result<void>();
    return arena->fill(offset_of(value), size, 0);
  }
  CRUCIBLE_TRY(std::vector<std::byte> bytes, blobs->load(blob));
  if (bytes.size() != size) {
    return Error{ErrorCode::kBadInput, fmt::format("{} has {} bytes, the recording has {} for it (blob {})",
                                                   name_of(value), size, bytes.size(), blob)};
  }
  return write_bytes(value, std::move(bytes));
}

/// As many bytes as the value has.
Result<void> Session::State::write_bytes(graph::ValueId value, std::vector<std::byte> bytes) {
  const bool is_empty = bytes.empty();
  if (interpreted) interpreted->values[value] = std::move(bytes);
  if (is_empty || interpreted) return {};
  if (schedule.on_host(value)) return std::ranges::copy(bytes, on_host(value).begin()), Result<void>();
  const std::uint64_t offset = offset_of(value);
  if (std::ranges::find(loaded_twice, value) != loaded_twice.end())
    CRUCIBLE_TRY_VOID(second_arena->write(offset, bytes));
  if (writes && NearWrites::takes(bytes.size())) return writes->add(offset, std::move(bytes)), Result<void>();
  return arena->write(offset, bytes);
}

Result<void> Session::State::write_together(const std::function<Result<void>()>& pieces,
                                            std::span<const std::uint64_t> kept) {
  if (interpreted || options.poison || is_sized) return pieces();  // there zones between buffers are watched
  writes.emplace(kept);
  Result<void> done = pieces();
  if (done)
    done = writes->flush(
        [this](std::uint64_t offset, std::span<const std::byte> bytes) { return arena->write(offset, bytes); });
  writes.reset();
  return done;
}

Result<void> Session::State::load_states() {
  const auto begin = std::chrono::steady_clock::now();
  const Result<void> written = write_together([&]() -> Result<void> {
    for (const graph::State& state : program->states) CRUCIBLE_TRY_VOID(write_blob(state.start, state.initial_blob));
    return {};
  });
  states_ns += static_cast<std::uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
  return written ? written : at_stage("starting state", written.error());
}

Result<void> Session::State::load_constants() {
  const Result<void> written = write_together([&]() -> Result<void> {
    for (const graph::Constant& constant : program->constants)
      CRUCIBLE_TRY_VOID(write_blob(constant.value, constant.blob));
    return {};
  });
  return written ? written : at_stage("constants", written.error());
}

Result<void> Session::State::load_inputs(std::uint32_t index) {
  for (const graph::Input& input : program->inputs) {
    if (!interpreted && placement.buffer_of[input.value] == graph::kNone) continue;  // nothing reads it
    if (!interpreted && schedule.on_host(input.value)) continue;  // transfers bring it when it is needed
    if (index >= input.blobs.size()) {
      return Error{ErrorCode::kBadInput, fmt::format("input {} was recorded {} times, iteration {} is asked for",
                                                     name_of(input.value), input.blobs.size(), index)};
    }
    const bool is_shaken = shaking && !input.is_draw && input.blobs[index] != graph::kNone;
    CRUCIBLE_TRY_VOID(is_shaken ? perturb(input.value, input.blobs[index], *shaking)
                                : write_blob(input.value, input.blobs[index]));
  }
  return {};
}

Result<void> Session::State::load_iteration(std::uint32_t index) {
  if (interpreted) carry_interpreted_states();
  place = place_of(index);
  if (options.poison) {
    CRUCIBLE_TRY_VOID(poison_transient());
    forget_inputs();
  }
  loaded_iteration = index;
  return fill_place(index);
}

Result<void> Session::State::fill_place(std::uint32_t index) {
  if (placement.has_two_places() && loaded[place] == index) return {};
  loaded[place] = graph::kNone;
  const std::uint64_t began_ns = steady_ns();
  const Result<void> written =
      write_together([&] { return load_inputs(index); }, placement.has_two_places() ? all_begins : kept_begins);
  if (!written) return at_stage(fmt::format("inputs of iteration {}", index), written.error());
  std::vector<graph::Number> numbers;
  std::vector<std::uint64_t> bits;
  for (const graph::Slot& slot : program->slots) {
    if (index >= slot.values.size()) {
      return Error{ErrorCode::kBadInput, fmt::format("slot {} has {} numbers, iteration {} is asked for", slot.name,
                                                     slot.values.size(), index)};
    }
    numbers.push_back(slot.values[index]);
    bits.push_back(numbers.back().bits());
  }
  for (Piece& piece : pieces) {
    if (piece.plans[place]) CRUCIBLE_TRY_VOID(piece.plans[place]->set_slots(bits));
  }
  if (interpreted) interpreted->slots = std::move(numbers);
  loaded[place] = index;
  note(Busy::With::kInputs, index, began_ns);
  return {};
}

void Session::State::load_ahead(std::uint32_t index) {
  const std::uint32_t present = std::exchange(place, place_of(index));
  (void)static_cast<bool>(fill_place(index));
  place = present;
}

void Session::State::note(Busy::With with, std::uint32_t iteration, std::uint64_t begin_ns) const {
  if (!options.busy || !device) return;
  options.busy->add(
      {.device = device->info().id, .with = with, .iteration = iteration, .begin_ns = begin_ns, .end_ns = steady_ns()});
}

namespace {

/// Of all variants: those that were compiled, on both devices.
template <class State>
std::vector<const backend::Module*> modules_of(const std::vector<std::unique_ptr<State>>& variants) {
  std::vector<const backend::Module*> all;
  for (const auto& variant : variants) {
    for (const backend::Module* module : variant->modules()) all.push_back(module);
  }
  return all;
}

}  // namespace

std::vector<const backend::Module*> Session::State::modules() const {
  std::vector<const backend::Module*> all;
  for (const auto* of : {&module, &second_module}) {
    if (*of) all.push_back(&**of);
  }
  for (const auto* of : {&careful, &second_careful}) {
    if (*of) all.push_back(&(*of)->module);
  }
  return all;
}

std::uint64_t Session::State::bytes_of(const graph::Value& value) {
  return static_cast<std::uint64_t>(value.elements) * size_bytes(value.dtype);
}

Result<IterationResult> Session::run(std::uint32_t index) {
  CRUCIBLE_TRY(IterationResult result, run_unjudged(index));
  if (result.outside) {
    --next_;  // an iteration whose results mean nothing has not run
    return *std::move(result.outside);
  }
  return result;
}

Result<IterationResult> Session::run_unjudged(std::uint32_t index) {
  CRUCIBLE_TRY_VOID(begin(index, false));
  return finish();
}

Result<void> Session::begin(std::uint32_t index, bool starts) {
  if (index != next_) {
    return Error{
        ErrorCode::kUsage,
        fmt::format("iteration {} cannot run now: the state is that before iteration {}; reset first", index, next_)};
  }
  if (index >= iterations())
    return Error{ErrorCode::kUsage, fmt::format("iteration {} was not recorded: there are {}", index, iterations())};
  if (variants_.size() > 1 || !turns_[index].given.empty()) {
    if (const Result<void> selected = select(index); !selected)
      return at_stage(fmt::format("states before iteration {}", index), selected.error());
  }
  CRUCIBLE_TRY_VOID(state_->load_iteration(turns_[index].index));
  state_->began_ns = steady_ns();
  if (state_->interpreted) return {};
  const Result<void> done = state_->submit(starts || state_->is_worth_starting);
  return done ? done : at_stage(fmt::format("iteration {}", index), done.error());
}

Result<void> Session::start(std::uint32_t index) { return begin(index, true); }

Result<IterationResult> Session::finish() {
  const std::uint32_t index = next_, own = turns_[index].index;
  const bool is_next_alike = index + 1 < iterations() && turns_[index + 1].variant == turns_[index].variant;
  if (state_->is_worth_starting && !state_->in_flight.empty() && is_next_alike) state_->load_ahead(own + 1);
  Result<std::uint64_t> ran = state_->wait_for_iteration(state_->began_ns);
  if (!ran) return at_stage(fmt::format("iteration {}", index), ran.error());
  IterationResult result;
  result.time_ns = *ran;
  const std::uint64_t began_ns = steady_ns();
  NearReads reads = state_->reads_of(state_->near_numbers);
  CRUCIBLE_TRY(result.outside, state_->index_outside(reads));
  if (result.outside) result.outside = at_stage(fmt::format("iteration {}", index), *result.outside);
  for (const graph::Output& output : state_->program->outputs) {
    if (!output.is_number()) continue;  // compare_outputs() reads it when somebody asks
    CRUCIBLE_TRY(const double loss, state_->read_output(output, reads));
    result.losses.push_back(loss);
    const bool recorded = own < output.recorded.size();
    result.recorded_losses.push_back(recorded ? output.recorded[own] : std::numeric_limits<double>::quiet_NaN());
    if (recorded) result.max_rel_diff = std::max(result.max_rel_diff, relative_difference(loss, output.recorded[own]));
  }
  state_->note(Busy::With::kResults, index, began_ns);
  const std::vector<graph::State>& states = state_->program->states;
  for (std::size_t i = 0; variants_.size() > 1 && i < states.size(); ++i) {
    if (states[i].start != states[i].end) set_changed(i);
  }
  ++next_;
  return result;
}

Result<std::vector<std::uint64_t>> Session::profile() {
  if (state_->interpreted) {
    return Error{ErrorCode::kUsage, "the reference interpreter has no steps that could be profiled: name a plugin"};
  }
  if (turns_.empty()) return Error{ErrorCode::kUsage, "a program without iterations cannot be profiled"};
  // The inputs may have been overwritten in place or their memory reused: load those of the last iteration again.
  CRUCIBLE_TRY_VOID(load_again());
  return state_->profile();
}

std::string Session::times_from() const { return state_->times_from(); }
std::vector<backend::Properties> Session::plan_facts() const { return state_->plan_facts(); }

Result<Counted> Session::count(std::span<const std::string> names) {
  if (state_->interpreted)
    return Error{ErrorCode::kUsage, "the reference interpreter is no device that counts: name a plugin"};
  if (turns_.empty()) return Error{ErrorCode::kUsage, "a program without iterations has nothing to count"};
  CRUCIBLE_TRY_VOID(load_again());
  Result<backend::Counting> counting = backend::Counting::begin(state_->device, names);
  if (!counting && state_->device->lost() != nullptr) return counting.error();
  if (!counting) return Counted{.values = {}, .refusal = counting.error().message};
  CRUCIBLE_TRY_VOID(state_->replay());
  Result<std::vector<backend::CounterValue>> values = counting->read();
  if (!values && state_->device->lost() != nullptr) return values.error();
  if (!values) return Counted{.values = {}, .refusal = values.error().message};
  return Counted{.values = *std::move(values), .refusal = ""};
}

Result<std::vector<std::byte>> Session::state_bytes(const graph::State& state) const {
  NearReads reads = state_->reads_of({});
  return state_->final_bytes(state, reads);
}
const graph::Program& Session::program() const { return *state_->program; }
const ArrangeReport& Session::arrange_report() const { return state_->arrange_report; }
const kernel::Schedule& Session::schedule() const { return state_->schedule; }
const Placement& Session::placement() const { return state_->placement; }
std::uint64_t Session::compile_ns() const {
  std::uint64_t sum = 0;
  for (const backend::Module* module : modules_of(variants_)) sum += module->compile_ns();
  return sum;
}
std::uint64_t Session::states_ns() const { return state_->states_ns; }
bool Session::compiled_from_cache() const {
  const std::vector<const backend::Module*> all = modules_of(variants_);
  return !all.empty() && std::ranges::all_of(all, &backend::Module::from_cache);
}
std::optional<backend::CompileCounts> Session::compile_counts() const {
  const std::vector<const backend::Module*> all = modules_of(variants_);
  if (all.empty()) return std::nullopt;
  backend::CompileCounts sum;
  for (const backend::Module* module : all) {
    const std::optional<backend::CompileCounts> counts = module->counts();
    if (!counts) return std::nullopt;
    sum.compiled += counts->compiled;
    sum.from_cache += counts->from_cache;
  }
  return sum;
}
std::uint64_t Session::arena_bytes() const { return state_->arena ? state_->arena->size_bytes() : 0; }
const std::string& Session::library_failure() const { return state_->library_failure; }

const FallbackReport& Session::fallback() const { return state_->fallback; }
const TrialReport& Session::trials() const { return state_->trials; }

}  // namespace crucible::runtime
