// A session of several programs over the same states: making them, and changing from one to another between two
// iterations. Of one program it is the whole of making a session.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/progress.hpp"
#include "core/graph/opaque.hpp"
#include "runtime/judge/trial_verdicts.hpp"
#include "runtime/plan/arrange.hpp"
#include "runtime/plan/library_calls.hpp"
#include "runtime/run/kept_blobs.hpp"
#include "runtime/run/session_state.hpp"

namespace crucible::runtime {
namespace {

Error of_variant(const graph::Variants& variants, std::size_t v, const Error& error) {
  if (variants.programs.size() == 1) return error;
  return {error.code, fmt::format("variant {}: {}", v, error.message)};
}

/// When a variant had a state that it never had.
constexpr std::uint64_t kNever = UINT64_MAX;

using Opener = std::function<Result<std::shared_ptr<backend::Device>>()>;

/// Opens once what `open` opens: the variants of a session share a second device.
Opener once(const Opener& open) {
  if (!open) return nullptr;
  return [open, opened = std::make_shared<std::shared_ptr<backend::Device>>()]() -> Opener::result_type {
    if (!*opened) {
      CRUCIBLE_TRY(*opened, open());
    }
    return *opened;
  };
}

}  // namespace

/// Variants that are compiled and have a plan. A recording may have a thousand: what is not used for long is let go,
/// and made again when it runs, with kernels from the cache. Which iteration runs which variant is known, so those go
/// that run last of all.
struct Session::Residents {
  std::vector<std::shared_ptr<const graph::Program>> programs;  // as they were given
  std::shared_ptr<const trace::BlobStore> blobs;
  std::shared_ptr<backend::Device> device;  // null: the interpreter, of which variants have nothing but their values
  Options options;
  std::vector<bool> is_there;
  std::size_t ops = 0;            // of those that are there
  std::uint64_t arena_bytes = 0;  // for the largest
  std::uint64_t largest_peak = 0;
  std::optional<Error> over_budget;      // of the one that needs most
  std::optional<std::uint64_t> shaking;  // the seed of a spread's run, while it runs

  bool has_room_for(std::size_t variant) const { return ops + programs[variant]->ops.size() <= options.resident_ops; }
  void add(std::size_t variant) { is_there[variant] = true, ops += programs[variant]->ops.size(); }
  void remove(std::size_t variant) { is_there[variant] = false, ops -= programs[variant]->ops.size(); }

  /// The one whose next iteration, from iteration `next` on and then from the first one on, is furthest away. Variant 0
  /// stays: it has what all share. So does `present`, whose states are read.
  std::optional<std::size_t> last_to_run(const std::vector<graph::Turn>& turns, std::uint32_t next,
                                         std::size_t present) const {
    std::vector<bool> is_seen(programs.size(), false);
    std::optional<std::size_t> last;
    for (std::size_t k = 0; k < turns.size(); ++k) {
      const std::uint32_t variant = turns[(next + k) % turns.size()].variant;
      if (is_seen[variant]) continue;
      is_seen[variant] = true;
      if (is_there[variant] && variant != 0 && variant != present) last = variant;
    }
    return last;
  }
};

Session::Session(const graph::Variants& variants) : turns_(variants.turns), residents_(std::make_unique<Residents>()) {
  residents_->programs = variants.programs;
  residents_->is_there.assign(variants.programs.size(), false);
  const std::size_t states = variants.programs[0]->states.size();
  changes_.assign(states, false);
  for (std::size_t i = 0; i < states; ++i) moves_.push_back(variants.moves_of(i));
  changed_.assign(states, 0);
  held_.assign(variants.programs.size(), std::vector<std::uint64_t>(states, 0));
  for (const auto& program : variants.programs) {
    variants_.push_back(std::make_unique<State>());
    for (std::size_t i = 0; i < states; ++i) {
      if (program->states[i].start != program->states[i].end) changes_[i] = true;
    }
  }
  for (const graph::Turn& turn : turns_) {
    for (const graph::Given& given : turn.given) changes_[given.state] = true;
  }
  state_ = variants_[0].get();
}

Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const graph::Program> program,
                                                 std::shared_ptr<const trace::BlobStore> blobs,
                                                 std::shared_ptr<backend::Device> device, const Options& options) {
  if (!program) return Error{ErrorCode::kInternal, "a session needs a program, blobs and a device"};
  return create_on(graph::alone(std::move(program)), std::move(blobs), std::move(device), options);
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const graph::Variants> variants,
                                                 std::shared_ptr<const trace::BlobStore> blobs,
                                                 std::shared_ptr<backend::Device> device, const Options& options) {
  if (!variants) return Error{ErrorCode::kInternal, "a session needs a program, blobs and a device"};
  return create_on(*variants, std::move(blobs), std::move(device), options);
}

Result<std::unique_ptr<Session>> Session::create_on(const graph::Variants& variants,
                                                    std::shared_ptr<const trace::BlobStore> blobs,
                                                    std::shared_ptr<backend::Device> device, const Options& options) {
  if (!blobs || !device) return Error{ErrorCode::kInternal, "a session needs a program, blobs and a device"};
  Options own = options;
  if (variants.programs.size() > 1) {
    const std::uint64_t zone = options.poison || wants_buffer_bytes(*device) ? kRedZoneBytes : 0;
    own.memory.kept = std::make_shared<const KeptPlaces>(KeptPlaces::of(variants.programs, 0));
    own.memory.kept_in_zones =
        zone == 0 ? own.memory.kept : std::make_shared<const KeptPlaces>(KeptPlaces::of(variants.programs, zone));
    own.open_second = once(options.open_second);
    own.open_opaque = once(options.open_opaque);
    own.trial.verdicts = std::make_shared<VerdictsByDevice>();
    own.memory.or_smallest = true;  // which of them needs most is known when all are arranged
  }
  std::unique_ptr<Session> session(new Session(variants));
  Residents& residents = *session->residents_;
  residents.blobs = std::make_shared<const KeptBlobs>(std::move(blobs));
  residents.device = std::move(device);
  residents.options = std::move(own);
  std::vector<std::size_t> first_ones;
  for (std::size_t v = 0; v < variants.programs.size(); ++v) {
    session->let_go(v);
    const Result<void> arranged = session->arrange_variant(v, options.memory);
    if (!arranged) return of_variant(variants, v, arranged.error());
    if (v == 0 || residents.has_room_for(v)) {
      residents.add(v);
      first_ones.push_back(v);
    } else {
      session->let_go(v);  // until it runs
    }
  }
  if (residents.over_budget) return *residents.over_budget;
  for (const std::size_t v : first_ones) {
    const Result<void> compiled = session->variants_[v]->compile();
    if (!compiled) return of_variant(variants, v, compiled.error());
  }
  const PassInProgress pass("building the plan and loading what it starts with");
  CRUCIBLE_TRY_VOID(session->state_->allocate_arena(residents.arena_bytes));
  for (const std::size_t v : first_ones) {
    Result<void> made = session->ready(v);
    if (made && v == 0) made = session->state_->load_states();
    if (!made) return of_variant(variants, v, made.error());
  }
  return session;
}

Result<std::unique_ptr<Session>> Session::create_reference(std::shared_ptr<const graph::Program> program,
                                                           std::shared_ptr<const trace::BlobStore> blobs,
                                                           kernel::Numerics numerics) {
  if (!program) return Error{ErrorCode::kInternal, "a session needs a program and blobs"};
  return create_interpreted(graph::alone(std::move(program)), std::move(blobs), numerics);
}

Result<std::unique_ptr<Session>> Session::create_reference(std::shared_ptr<const graph::Variants> variants,
                                                           std::shared_ptr<const trace::BlobStore> blobs,
                                                           kernel::Numerics numerics) {
  if (!variants) return Error{ErrorCode::kInternal, "a session needs a program and blobs"};
  return create_interpreted(*variants, std::move(blobs), numerics);
}

Result<std::unique_ptr<Session>> Session::create_interpreted(const graph::Variants& variants,
                                                             std::shared_ptr<const trace::BlobStore> blobs,
                                                             kernel::Numerics numerics) {
  if (!blobs) return Error{ErrorCode::kInternal, "a session needs a program and blobs"};
  std::unique_ptr<Session> session(new Session(variants));
  for (std::size_t v = 0; v < variants.programs.size(); ++v) {
    State& state = *session->variants_[v];
    state.program = variants.programs[v];
    state.blobs = blobs;
    Result<void> made = state.interpret_with(numerics);
    if (made && v == 0) made = state.load_states();
    if (made && v == 0) made = state.load_constants();
    if (v != 0) std::ranges::fill(session->held_[v], kNever);
    if (!made) return of_variant(variants, v, made.error());
  }
  return session;
}

Result<void> Session::arrange_variant(std::size_t variant, const MemoryOptions& memory) {
  State& state = *variants_[variant];
  CRUCIBLE_TRY_VOID(state.make_schedule());
  Residents& residents = *residents_;
  residents.arena_bytes = std::max(residents.arena_bytes, state.placement.plan.peak_bytes);
  const std::uint64_t peak = state.arrange_report.peak_bytes;
  const bool is_worse = peak > std::max(memory.budget_bytes, residents.largest_peak);
  if (variants_.size() == 1 || memory.budget_bytes == 0 || memory.or_smallest || !is_worse) return {};
  residents.largest_peak = peak;
  const Error error = over_budget(state.options.memory, *state.program, state.arrange_report, state.placement);
  residents.over_budget = Error{error.code, fmt::format("memory plan: variant {}: {}", variant, error.message)};
  return {};
}

/// On an arena that is there: states and constants of all lie in it, whoever runs.
Result<void> Session::ready(std::size_t variant) {
  State& state = *variants_[variant];
  state.arena = variants_[0]->arena;
  state.submitted = variants_[0]->submitted;
  CRUCIBLE_TRY_VOID(state.build_plan());
  state.find_near_places();
  // Of a second device it has nothing yet.
  if (variant != 0) std::ranges::fill(held_[variant], kNever);
  CRUCIBLE_TRY_VOID(state.load_constants());
  return residents_->shaking ? state.shake(*residents_->shaking, false) : Result<void>();
}

void Session::let_go(std::size_t variant) {
  const Residents& from = *residents_;
  auto fresh = std::make_unique<State>();
  fresh->program = from.programs[variant];
  fresh->blobs = from.blobs;
  fresh->device = from.device;
  fresh->options = from.options;
  const bool is_present = state_ == variants_[variant].get();
  variants_[variant] = std::move(fresh);
  if (is_present) state_ = variants_[variant].get();
}

Result<void> Session::make_resident(std::size_t variant) {
  Residents& residents = *residents_;
  if (variants_[variant]->interpreted || residents.is_there[variant]) return {};
  while (!residents.has_room_for(variant)) {
    const std::optional<std::size_t> last = residents.last_to_run(turns_, next_, this->variant());
    if (!last) break;
    residents.remove(*last);
    let_go(*last);
  }
  State& state = *variants_[variant];
  Result<void> made = state.make_schedule();
  if (made) made = state.compile();
  if (made) made = ready(variant);
  if (!made) {
    let_go(variant);
    return Error{made.error().code, fmt::format("variant {}: {}", variant, made.error().message)};
  }
  residents.add(variant);
  return {};
}

const graph::Program& Session::program_of(std::uint32_t index) const {
  return *variants_[turns_[index].variant]->program;
}

std::size_t Session::variant() const {
  return static_cast<std::size_t>(std::ranges::find(variants_, state_, [](const auto& each) { return each.get(); }) -
                                  variants_.begin());
}

void Session::set_changed(std::size_t index) {
  changed_[index] = ++clock_;
  for (std::size_t v = 0; v < variants_.size(); ++v) {
    if (variants_[v].get() == state_) held_[v][index] = clock_;
  }
}

bool Session::is_changed(const graph::State& state) const {
  return changes_[static_cast<std::size_t>(&state - state_->program->states.data())];
}

/// On a device the states are where they were: only what a second device has of them is its own. An interpreter has
/// values of its own, and one that does not run has none.
Result<void> Session::change_to(std::size_t variant) {
  CRUCIBLE_TRY_VOID(make_resident(variant));
  State& next = *variants_[variant];
  const std::vector<graph::State>& from = state_->program->states;
  std::vector<std::uint64_t>& held = held_[variant];
  NearReads reads = state_->reads_of(state_->near_states);
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (std::exchange(held[i], changed_[i]) == changed_[i]) continue;
    const graph::ValueId start = next.program->states[i].start;
    const bool is_twice = std::ranges::find(next.loaded_twice, start) != next.loaded_twice.end();
    if (!next.interpreted && !is_twice) continue;
    CRUCIBLE_TRY(std::vector<std::byte> bytes, state_->final_bytes(from[i], reads));
    CRUCIBLE_TRY_VOID(next.write_bytes(start, std::move(bytes)));
  }
  next.forget_inputs();  // others have written over them
  if (next.interpreted) {
    state_->forget_values();
    std::ranges::fill(held_[this->variant()], kNever);
    CRUCIBLE_TRY_VOID(next.load_constants());
    if (residents_->shaking) CRUCIBLE_TRY_VOID(next.shake(*residents_->shaking, false));
  }
  state_ = &next;
  return {};
}

Result<void> Session::select(std::uint32_t index) {
  const graph::Turn& turn = turns_[index];
  State& next = *variants_[turn.variant];
  if (next.interpreted) next.carry_interpreted_states();
  if (&next != state_) CRUCIBLE_TRY_VOID(change_to(turn.variant));
  if (turn.given.empty()) return {};
  std::vector<std::vector<std::byte>> copies;  // read before any of them is written
  NearReads reads = next.reads_of(next.near_states);
  for (const graph::Given& each : turn.given) {
    if (each.from == graph::kNone) continue;
    CRUCIBLE_TRY(copies.emplace_back(), next.final_bytes(next.program->states[each.from], reads));
  }
  return next.write_together([&]() -> Result<void> {
    auto copy = copies.begin();
    for (const graph::Given& each : turn.given) {
      const graph::ValueId start = next.program->states[each.state].start;
      if (each.from != graph::kNone) {
        CRUCIBLE_TRY_VOID(next.write_bytes(start, std::move(*copy++)));
        set_changed(each.state);
        continue;
      }
      const bool is_shaken = next.shaking && each.is_seam;
      CRUCIBLE_TRY_VOID(is_shaken ? next.perturb(start, each.blob, *next.shaking) : next.write_blob(start, each.blob));
      set_changed(each.state);
    }
    return {};
  });
}

Result<void> Session::load_again() {
  if (next_ == 0 && turns_[0].variant != 0) CRUCIBLE_TRY_VOID(select(0));
  return state_->load_iteration(turns_[next_ == 0 ? 0 : next_ - 1].index);
}

Result<void> Session::reset() {
  for (std::size_t v = 0; v < variants_.size(); ++v) {
    State& variant = *variants_[v];
    variant.settle();
    if (variants_.size() > 1) variant.forget_inputs();  // others have written over them
    // What others have of states, on a second device or as values of their own, they take over when they run.
    std::ranges::fill(held_[v], v == 0 ? 0 : kNever);
    if (variant.interpreted) variant.forget_values();
  }
  std::ranges::fill(changed_, 0);
  state_ = variants_[0].get();
  next_ = 0;
  CRUCIBLE_TRY_VOID(state_->load_states());
  return state_->interpreted ? state_->load_constants() : Result<void>();
}

Result<void> Session::shake(std::uint64_t seed) {
  residents_->shaking = seed;
  for (std::size_t v = 0; v < variants_.size(); ++v) {
    const bool has_own = v == 0 || residents_->is_there[v];
    if (has_own) CRUCIBLE_TRY_VOID(variants_[v]->shake(seed, v == 0));
  }
  return {};
}

Result<void> Session::stop_shaking() {
  residents_->shaking.reset();
  for (std::size_t v = 0; v < variants_.size(); ++v) {
    State& variant = *variants_[v];
    variant.shaking.reset();
    variant.forget_inputs();
    if (residents_->is_there[v]) CRUCIBLE_TRY_VOID(variant.load_constants());
  }
  return {};
}

}  // namespace crucible::runtime
