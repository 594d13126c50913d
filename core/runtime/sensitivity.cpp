// How much of a replay's end its arithmetic determines: the same iterations again, from starting states that are one unit in
// the last place away. See Session::start_spread() and consider_spread() in session.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "core/runtime/compare.hpp"
#include "core/runtime/session_state.hpp"

namespace crucible::runtime {
namespace {

template <class Bits>
void move_by_one(std::span<std::byte> element, bool up, Bits infinity) {
  Bits bits;
  std::memcpy(&bits, element.data(), sizeof(bits));
  const auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~(Bits{1} << (sizeof(Bits) * 8 - 1))));
  if (magnitude == 0 || magnitude >= infinity - 1) return;  // zeros stay zeros, what is not finite stays, nothing overflows
  bits = static_cast<Bits>(up ? bits + 1 : bits - 1);
  std::memcpy(element.data(), &bits, sizeof(bits));
}

/// Each element one unit in the last place away from zero or towards it. Dtypes without such a unit stay.
void perturb(DType dtype, std::span<std::byte> bytes, std::mt19937_64& random) {
  const std::size_t width = size_bytes(dtype);
  if (!is_floating(dtype) || width == 0) return;
  for (std::size_t at = 0; at + width <= bytes.size(); at += width) {
    const auto element = bytes.subspan(at, width);
    const bool up = (random() & 1) != 0;
    if (dtype == DType::kF64) move_by_one<std::uint64_t>(element, up, 0x7ff0000000000000u);
    if (dtype == DType::kF32) move_by_one<std::uint32_t>(element, up, 0x7f800000u);
    if (dtype == DType::kF16) move_by_one<std::uint16_t>(element, up, 0x7c00u);
    if (dtype == DType::kBF16) move_by_one<std::uint16_t>(element, up, 0x7f80u);
  }
}

using Losses = std::vector<std::vector<double>>;

/// The larger of what is there and how far each loss of a run is from that of the run before it all.
void widen(Losses& spread, const Losses& run, const Losses& start) {
  for (std::size_t i = 0; i < start.size(); ++i) {
    for (std::size_t output = 0; output < start[i].size(); ++output) {
      const double far = relative_difference(run[i][output], start[i][output]);
      if (std::isfinite(far)) spread[i][output] = std::max(spread[i][output], far);
    }
  }
}

}  // namespace

Result<std::vector<std::byte>> Session::State::final_bytes(const graph::State& state) const {
  std::vector<std::byte> bytes(bytes_of(program->values[state.start]));
  // On a device the end has come home to the start's place; the interpreter does that before the next iteration.
  CRUCIBLE_TRY_VOID(read_bytes(interpreted && interpreted->is_run ? state.end : state.start, 0, bytes));
  return bytes;
}

Result<void> Session::State::perturb_states(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const graph::State& state : program->states) {
    if (state.initial_blob == graph::kNone) continue;
    CRUCIBLE_TRY(std::vector<std::byte> bytes, blobs->load(state.initial_blob));
    perturb(program->values[state.start].dtype, bytes, random);
    CRUCIBLE_TRY_VOID(write_bytes(state.start, std::move(bytes)));
  }
  return {};
}

Result<void> Session::start_spread(const std::vector<IterationResult>& results, Spread& spread) {
  const graph::Program& program = *state_->program;
  if (state_->next_iteration != program.iterations || results.size() != program.iterations) {
    return Error{ErrorCode::kUsage, fmt::format("how far runs spread is measured after all {} iterations, {} have run",
                                                program.iterations, std::min<std::size_t>(state_->next_iteration, results.size()))};
  }
  for (const graph::State& state : program.states) {
    CRUCIBLE_TRY(spread.first_ends.emplace_back(), state_->final_bytes(state));
  }
  for (const IterationResult& result : results) {
    spread.first_losses.push_back(result.losses);
    spread.losses.emplace_back(result.losses.size(), 0);
  }
  return {};
}

Result<void> Session::widen_spread(Spread& spread) {
  const graph::Program& program = *state_->program;
  CRUCIBLE_TRY(const Noise noise, Noise::find(program, *state_->blobs, tolerances_of(program).noise));
  CRUCIBLE_TRY_VOID(reset());
  CRUCIBLE_TRY_VOID(state_->perturb_states(spread.runs + 1));
  Losses losses;
  for (std::uint32_t i = 0; i < program.iterations; ++i) {
    CRUCIBLE_TRY(IterationResult result, run(i));
    losses.push_back(std::move(result.losses));
  }
  widen(spread.losses, losses, spread.first_losses);
  for (std::size_t i = 0; i < program.states.size(); ++i) {
    const graph::State& state = program.states[i];
    if (state.final_blob == graph::kNone) continue;  // with nothing recorded there is nothing to judge
    CRUCIBLE_TRY(const std::vector<std::byte> end, state_->final_bytes(state));
    CRUCIBLE_TRY(const double far, state_->difference(state, noise, end, spread.first_ends[i]));
    double& largest = spread.states[state_->name_of(state.start)];
    if (std::isfinite(far)) largest = std::max(largest, far);
  }
  ++spread.runs;
  return {};
}

void consider_spread(Verification& verdict, const Spread& spread) {
  verdict.spread_runs = spread.runs;
  verdict.spread_device = spread.device;
  verdict.states_undetermined = 0;
  for (StateDifference& state : verdict.states) {
    const auto found = spread.states.find(state.name);
    state.spread = found == spread.states.end() ? 0 : found->second;
    const bool is_far = !(state.max_rel_diff <= verdict.state_tolerance);
    state.is_undetermined = is_far && state.max_rel_diff <= kSpreads * state.spread;
    verdict.states_undetermined += state.is_undetermined;
  }
  verdict.losses_undetermined = 0;
  for (LossDifference& loss : verdict.losses) {
    loss.spread = spread.losses[loss.iteration][loss.output];
    loss.is_undetermined = loss.rel_diff <= kSpreads * loss.spread;
    verdict.losses_undetermined += loss.is_undetermined;
  }
  verdict.state_reason = state_reason(verdict);
  verdict.settle();
}

}  // namespace crucible::runtime
