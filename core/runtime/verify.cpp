// Verification of a replay: each loss against the recorded one, each final state against its recorded bytes.
#include <fmt/format.h>

#include <algorithm>

#include "core/runtime/compare.hpp"
#include "core/runtime/session_state.hpp"

namespace crucible::runtime {
namespace {

/// Fills the loss part; the first loss beyond the tolerance becomes the reason. Returns how many losses were compared.
std::size_t judge_losses(const graph::Program& program, const std::vector<IterationResult>& results,
                         Verification& verdict) {
  std::size_t compared = 0;
  for (std::uint32_t iteration = 0; iteration < results.size(); ++iteration) {
    for (std::size_t i = 0; i < program.outputs.size(); ++i) {
      const graph::Output& output = program.outputs[i];
      if (iteration >= output.recorded.size() || i >= results[iteration].losses.size()) continue;
      ++compared;
      const double loss = results[iteration].losses[i], recorded = output.recorded[iteration];
      const double difference = relative_difference(loss, recorded);
      verdict.max_loss_rel_diff = std::max(verdict.max_loss_rel_diff, difference);
      if (difference <= verdict.loss_tolerance || verdict.first_bad_iteration != graph::kNone) continue;
      verdict.first_bad_iteration = iteration;
      verdict.reason = fmt::format(
          "iteration {}: {} is {:.9g}, recorded is {:.9g}: relative difference {:.3g} is above {:g}", iteration,
          output.name.empty() ? "the loss" : output.name, loss, recorded, difference, verdict.loss_tolerance);
    }
  }
  return compared;
}

void judge_states(Verification& verdict, std::uint32_t last_iteration) {
  std::ranges::stable_sort(verdict.states, [](const StateDifference& a, const StateDifference& b) {
    return a.max_rel_diff > b.max_rel_diff;
  });
  if (verdict.states.empty() || verdict.states[0].max_rel_diff <= verdict.state_tolerance) return;
  const auto bad = std::ranges::count_if(
      verdict.states, [&](const StateDifference& state) { return !(state.max_rel_diff <= verdict.state_tolerance); });
  const StateDifference& worst = verdict.states[0];
  verdict.reason += fmt::format(
      "{}after iteration {}: {} of {} states differ by more than {:g} of their largest value, {} most ({:.3g})",
      verdict.reason.empty() ? "" : "; ", last_iteration, bad, verdict.states.size(), verdict.state_tolerance,
      worst.name, worst.max_rel_diff);
}

}  // namespace

Result<StateDifference> Session::State::compare_state(const graph::State& state) const {
  CRUCIBLE_TRY(const std::vector<std::byte> expected, blobs->load(state.final_blob));
  const graph::Value& value = program->values[state.start];
  std::vector<std::byte> actual(bytes_of(value));
  if (!actual.empty()) CRUCIBLE_TRY_VOID(arena->read(offset_of(state.start), actual));
  const Result<TensorDifference> difference = compare(value.dtype, actual, expected);
  if (!difference) {
    return Error{difference.error().code,
                 fmt::format("final {}: {}", name_of(state.start), difference.error().message)};
  }
  return StateDifference{name_of(state.start), difference->max_rel_diff, difference->bit_equal};
}

Result<Verification> Session::verify(const std::vector<IterationResult>& results) const {
  const graph::Program& program = *state_->program;
  if (results.size() != program.iterations || state_->next_iteration != program.iterations) {
    return Error{ErrorCode::kUsage, fmt::format("verification needs all {} recorded iterations, {} have run",
                                                program.iterations, state_->next_iteration)};
  }
  Verification verdict;
  const std::size_t losses = judge_losses(program, results, verdict);
  for (const graph::State& state : program.states) {
    if (state.final_blob != graph::kNone) {
      CRUCIBLE_TRY(StateDifference difference, state_->compare_state(state));
      verdict.states.push_back(std::move(difference));
    } else if (state.end != state.start) {
      verdict.states_not_recorded.push_back(state_->name_of(state.start));
    }
  }
  judge_states(verdict, program.iterations == 0 ? 0 : program.iterations - 1);
  if (losses == 0 && verdict.states.empty())
    verdict.reason = "the recording has neither a loss nor a final state to compare with";
  verdict.verified = verdict.reason.empty();
  return verdict;
}

}  // namespace crucible::runtime
