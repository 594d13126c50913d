// How much of a replay's end its arithmetic determines: the same iterations again, from starting states that are one
// unit in the last place away. See Session::start_spread() and consider_spread() in session.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "core/graph/queries.hpp"
#include "runtime/judge/elements.hpp"
#include "runtime/run/session_state.hpp"

namespace crucible::runtime {
namespace {

template <class Bits>
void move_by_one(std::byte* element, bool up, Bits infinity) {
  Bits bits;
  std::memcpy(&bits, element, sizeof(bits));
  const auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~(Bits{1} << (sizeof(Bits) * 8 - 1))));
  if (magnitude == 0 || magnitude >= infinity - 1)
    return;  // zeros stay zeros, what is not finite stays, nothing overflows
  bits = static_cast<Bits>(up ? bits + 1 : bits - 1);
  std::memcpy(element, &bits, sizeof(bits));
}

/// Each element one unit in the last place away from zero or towards it. Dtypes without such a unit stay, and so do
/// whole numbers: counters, masks, and places where a comparison or a rounding to integers stands right at a boundary.
void move_by_one(DType dtype, std::span<std::byte> bytes, std::mt19937_64& random) {
  const auto all = [&]<class Bits>(Bits infinity) {
    with_numbers(dtype, [&](const auto& number) {
      for (std::size_t at = 0; at + sizeof(Bits) <= bytes.size(); at += sizeof(Bits)) {
        const bool up = (random() & 1) != 0;
        if (const double is = number(&bytes[at]); std::trunc(is) != is) move_by_one(&bytes[at], up, infinity);
      }
    });
  };
  if (dtype == DType::kF64) all(std::uint64_t{0x7ff0000000000000u});
  if (dtype == DType::kF32) all(std::uint32_t{0x7f800000u});
  if (dtype == DType::kF16) all(std::uint16_t{0x7c00u});
  if (dtype == DType::kBF16) all(std::uint16_t{0x7f80u});
}

/// The larger of what is there and how far each loss of a run is from that of the run before it all.
void widen_losses(const RunEnd& run, Spread& spread) {
  for (std::size_t i = 0; i < spread.first.losses.size(); ++i) {
    for (std::size_t output = 0; output < spread.first.losses[i].size(); ++output) {
      const double far = relative_difference(run.losses[i][output], spread.first.losses[i][output]);
      if (std::isfinite(far)) spread.losses[i][output] = std::max(spread.losses[i][output], far);
    }
  }
}

/// The same of tensors.
Result<void> widen_outputs(const Session& session, const RunEnd& run, Spread& spread) {
  for (std::uint32_t i = 0; i < spread.first.outputs.size(); ++i) {
    const graph::Program& program = session.program_of(i);
    const graph::OutputTensors shown = graph::output_tensors(program);
    for (std::size_t place = 0; place < shown.outputs.size(); ++place) {
      double& widest = spread.outputs[i][place];
      if (shown.first_alike[place] < place) {
        widest = spread.outputs[i][shown.first_alike[place]];
        continue;
      }
      const DType dtype = program.values[shown.outputs[place]->operand.value].dtype;
      CRUCIBLE_TRY(const TensorDifference far, compare(dtype, *run.outputs[i][place], *spread.first.outputs[i][place]));
      if (std::isfinite(far.max_rel_diff)) widest = std::max(widest, far.max_rel_diff);
    }
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> Session::State::final_bytes(const graph::State& state, NearReads& reads) const {
  std::vector<std::byte> bytes(bytes_of(program->values[state.start]));
  // On a device the end has come home to the start's place; the interpreter does that before the next iteration.
  CRUCIBLE_TRY_VOID(
      read_range(interpreted && interpreted->is_run ? state.end : state.start, {0, bytes.size()}, bytes, reads));
  return bytes;
}

Result<void> Session::State::perturb(graph::ValueId value, std::uint32_t blob, std::mt19937_64& random) {
  CRUCIBLE_TRY(std::vector<std::byte> bytes, blobs->load(blob));
  move_by_one(program->values[value].dtype, bytes, random);
  return write_bytes(value, std::move(bytes));
}

Result<void> Session::State::shake(std::uint64_t seed, bool with_states) {
  shaking.emplace(seed);
  forget_inputs();
  return write_together([&]() -> Result<void> {
    for (const graph::State& state : program->states) {
      const bool is_known = with_states && state.initial_blob != graph::kNone;
      if (is_known) CRUCIBLE_TRY_VOID(perturb(state.start, state.initial_blob, *shaking));
    }
    for (const graph::Constant& constant : program->constants) {
      if (constant.blob != graph::kNone) CRUCIBLE_TRY_VOID(perturb(constant.value, constant.blob, *shaking));
    }
    return {};
  });
}

/// From where it is to the last iteration.
Result<RunEnd> Session::run_all(bool with_outputs) {
  RunEnd end;
  for (std::uint32_t i = 0; i < iterations(); ++i) {
    CRUCIBLE_TRY(IterationResult result, run(i));
    end.losses.push_back(std::move(result.losses));
    if (!with_outputs) continue;
    const graph::OutputTensors shown = graph::output_tensors(*state_->program);
    auto& tensors = end.outputs.emplace_back();
    NearReads reads = state_->reads_of(state_->near_tensors);
    for (std::size_t place = 0; place < shown.outputs.size(); ++place) {
      if (shown.first_alike[place] < place) {
        tensors.push_back(tensors[shown.first_alike[place]]);
        continue;
      }
      CRUCIBLE_TRY(std::vector<std::byte> elements, state_->read_tensor(*shown.outputs[place], reads));
      tensors.push_back(std::make_shared<const std::vector<std::byte>>(std::move(elements)));
    }
  }
  NearReads reads = state_->reads_of(state_->near_states);
  for (const graph::State& state : state_->program->states) {
    CRUCIBLE_TRY(end.states.emplace_back(), state_->final_bytes(state, reads));
  }
  return end;
}

Result<RunEnd> Session::end_of_run(const std::vector<IterationResult>& results) const {
  const graph::Program& program = *state_->program;
  if (next_ != iterations() || results.size() != iterations()) {
    return Error{ErrorCode::kUsage, fmt::format("how far runs spread is measured after all {} iterations, {} have run",
                                                iterations(), std::min<std::size_t>(next_, results.size()))};
  }
  RunEnd end;
  NearReads reads = state_->reads_of(state_->near_states);
  for (const graph::State& state : program.states) {
    CRUCIBLE_TRY(end.states.emplace_back(), state_->final_bytes(state, reads));
  }
  for (const IterationResult& result : results) end.losses.push_back(result.losses);
  return end;
}

Result<void> Session::start_spread(const std::vector<IterationResult>& results, Spread& spread, bool with_outputs) {
  CRUCIBLE_TRY(spread.first, end_of_run(results));
  if (with_outputs) {  // which nobody has kept
    CRUCIBLE_TRY_VOID(reset());
    CRUCIBLE_TRY(spread.first, run_all(true));
  }
  spread.states.resize(spread.first.states.size());
  spread.moves.resize(spread.first.states.size());
  for (const std::vector<double>& losses : spread.first.losses) spread.losses.emplace_back(losses.size(), 0);
  for (const auto& tensors : spread.first.outputs) spread.outputs.emplace_back(tensors.size(), 0);
  return {};
}

Result<void> Session::widen_spread(Spread& spread) {
  CRUCIBLE_TRY_VOID(reset());
  const graph::Program& program = *state_->program;
  CRUCIBLE_TRY(const Noise noise, Noise::find(program, *state_->blobs, tolerances().noise));
  const bool with_outputs = !spread.first.outputs.empty();
  const Result<void> shaken = shake(spread.runs + 1);
  Result<RunEnd> run = shaken ? run_all(with_outputs) : shaken.error();
  const Result<void> stopped = stop_shaking();
  if (!run) return run.error();
  if (!stopped) return stopped.error();
  widen_losses(*run, spread);
  CRUCIBLE_TRY_VOID(widen_outputs(*this, *run, spread));
  for (std::size_t i = 0; i < program.states.size(); ++i) {
    const graph::State& state = program.states[i];
    if (state.final_blob == graph::kNone || run->states[i] == spread.first.states[i])
      continue;  // with nothing recorded there is nothing to judge
    spread.states[i].widen(noise.gap(i, program.values[state.start].dtype, run->states[i], spread.first.states[i]));
    CRUCIBLE_TRY(const Move move, state_->move_of(i, moves_[i], noise, run->states[i], spread.first.states[i]));
    spread.moves[i].widen(move);
  }
  ++spread.runs;
  return {};
}

bool is_explained(const Gap& gap, double tolerance, const Gap& spread) {
  return gap.largest <= std::max(tolerance, kSpreads * spread.largest) &&
         gap.rms <= std::max(tolerance, kSpreads * spread.rms) &&
         gap.median <= std::max(tolerance / 10, kSpreads * spread.median);
}

void consider_spread(Verification& verdict, const Spread& spread) {
  verdict.spread_runs = spread.runs;
  verdict.spread_device = spread.device;
  for (StateDifference& state : verdict.states) {
    state.spread = spread.states[state.state];
    const bool is_far = !(state.max_rel_diff <= verdict.state_tolerance);
    state.is_undetermined = is_far && is_explained(state.gap, verdict.state_tolerance, state.spread);
    state.move_spread = spread.moves[state.state];
    judge_move(state, verdict);
  }
  for (LossDifference& loss : verdict.losses) {
    loss.spread = spread.losses[loss.iteration][loss.output];
    loss.is_undetermined = loss.rel_diff <= kSpreads * loss.spread;
  }
  for (OutputDifference& output : verdict.outputs) {
    output.spread = spread.outputs.empty() ? 0 : spread.outputs[output.iteration][output.place];
    output.is_undetermined = !output.is_within() && output.max_rel_diff <= kSpreads * output.spread;
  }
  verdict.settle();
}

}  // namespace crucible::runtime
