// A session of several programs over the same states: making them, and changing from one to another between two
// iterations. Of one program it is the whole of making a session.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/progress.hpp"
#include "core/graph/opaque.hpp"
#include "runtime/plan/library_calls.hpp"
#include "runtime/run/kept_blobs.hpp"
#include "runtime/run/session_state.hpp"

namespace crucible::runtime {
namespace {

Error of_variant(const graph::Variants& variants, std::size_t v, const Error& error) {
  if (variants.programs.size() == 1) return error;
  return {error.code, fmt::format("variant {}: {}", v, error.message)};
}

}  // namespace

Session::Session(const graph::Variants& variants) : turns_(variants.turns) {
  const std::size_t states = variants.programs[0]->states.size();
  changes_.assign(states, false);
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
    if (options.memory.budget_bytes != 0 || options.memory.objective == Objective::kLeastMemory) {
      return Error{
          ErrorCode::kUsage,
          fmt::format("a memory budget and the least memory are for recordings whose iterations are alike, and "
                      "this one has {} variants: leave them out",
                      variants.programs.size())};
    }
    const std::uint64_t zone = options.poison || wants_buffer_bytes(*device) ? kRedZoneBytes : 0;
    own.memory.kept = std::make_shared<const KeptPlaces>(KeptPlaces::of(variants.programs, zone));
  }
  std::unique_ptr<Session> session(new Session(variants));
  const auto kept = std::make_shared<const KeptBlobs>(std::move(blobs));
  std::uint64_t arena_bytes = 0;
  for (std::size_t v = 0; v < variants.programs.size(); ++v) {
    State& state = *session->variants_[v];
    state.program = variants.programs[v];
    state.blobs = kept;
    state.device = device;
    state.options = own;
    Result<void> made = state.make_schedule();
    if (made) made = state.compile();
    if (!made) return of_variant(variants, v, made.error());
    arena_bytes = std::max(arena_bytes, state.placement.plan.peak_bytes);
  }
  const PassInProgress pass("building the plan and loading what it starts with");
  CRUCIBLE_TRY_VOID(session->state_->allocate_arena(arena_bytes));
  for (std::size_t v = 0; v < variants.programs.size(); ++v) {
    State& state = *session->variants_[v];
    state.arena = session->state_->arena;
    state.submitted = session->state_->submitted;
    Result<void> made = state.build_plan();
    if (made) state.find_near_places();
    if (made && (v == 0 || state.second_arena)) made = state.load_states();
    if (made) made = state.load_constants();
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
    if (const Result<void> made = state.interpret_with(numerics); !made) return of_variant(variants, v, made.error());
  }
  return session;
}

const graph::Program& Session::program_of(std::uint32_t index) const {
  return *variants_[turns_[index].variant]->program;
}

std::size_t Session::variant() const {
  return static_cast<std::size_t>(
      std::ranges::find(variants_, state_, [](const auto& each) { return each.get(); }) - variants_.begin());
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

/// On a device the states are where they were: only what a second device has of them is its own. Interpreters have
/// values of their own.
Result<void> Session::change_to(std::size_t variant) {
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

Result<void> Session::begin(std::uint32_t index, bool starts) {
  if (index != next_) {
    return Error{ErrorCode::kUsage,
                 fmt::format("iteration {} cannot run now: the state is that before iteration {}; reset first", index,
                             next_)};
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

Result<void> Session::load_again() {
  if (next_ == 0 && turns_[0].variant != 0) CRUCIBLE_TRY_VOID(select(0));
  return state_->load_iteration(turns_[next_ == 0 ? 0 : next_ - 1].index);
}

Result<void> Session::reset() {
  for (const auto& variant : variants_) {
    variant->settle();
    if (variants_.size() > 1) variant->forget_inputs();  // others have written over them
    const bool has_own = variant == variants_[0] || variant->interpreted || variant->second_arena;
    if (has_own) CRUCIBLE_TRY_VOID(variant->load_states());
    if (!variant->interpreted) continue;
    CRUCIBLE_TRY_VOID(variant->load_constants());
    variant->interpreted->is_run = false;
  }
  state_ = variants_[0].get();
  next_ = 0;
  std::ranges::fill(changed_, 0);
  for (std::vector<std::uint64_t>& held : held_) std::ranges::fill(held, 0);
  return {};
}

}  // namespace crucible::runtime
