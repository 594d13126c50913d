// Verification of a replay: each loss against the recorded one, each tensor that an iteration gave back and each final
// state against its recorded bytes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/runtime/compare.hpp"
#include "core/runtime/session_state.hpp"

namespace crucible::runtime {
namespace {

/// Fills the loss part.
void judge_losses(const graph::Program& program, const std::vector<IterationResult>& results, Verification& verdict) {
  for (std::uint32_t iteration = 0; iteration < results.size(); ++iteration) {
    for (std::size_t i = 0; i < program.outputs.size(); ++i) {
      const graph::Output& output = program.outputs[i];
      if (output.is_tensor() || iteration >= output.recorded.size() || i >= results[iteration].losses.size()) continue;
      ++verdict.losses_compared;
      const double loss = results[iteration].losses[i], recorded = output.recorded[iteration];
      const double difference = relative_difference(loss, recorded);
      verdict.max_loss_rel_diff = std::max(verdict.max_loss_rel_diff, difference);
      if (difference <= verdict.loss_tolerance) continue;
      if (const double rounding = rounding_of_loss(program, output); std::fabs(loss - recorded) <= rounding) {
        ++verdict.losses_rounded;
        verdict.loss_rounding = std::max(verdict.loss_rounding, rounding);
        continue;
      }
      verdict.losses.push_back({.iteration = iteration, .output = i, .name = output.name.empty() ? "the loss" : output.name, .loss = loss,
                                .recorded = recorded, .rel_diff = difference});
    }
  }
}

void add_reason(Verification& verdict, std::string text) {
  verdict.other_reason += (verdict.other_reason.empty() ? "" : "; ") + std::move(text);
}

/// The first output beyond its tolerance becomes part of the reason, with how many others there are.
void judge_outputs(const std::vector<IterationResult>& results, Verification& verdict) {
  std::size_t bad = 0;
  const OutputDifference* first = nullptr;
  for (const IterationResult& result : results) {
    for (const OutputDifference& output : result.outputs) {
      ++verdict.outputs_compared;
      if (!output.bit_equal) verdict.outputs.push_back(output);
      if (output.is_within()) continue;
      ++bad;
      if (first == nullptr) first = &output;
    }
  }
  const auto in_tolerances = [](const OutputDifference& output) {
    return output.max_rel_diff / std::max(output.tolerance, 1e-30);
  };
  std::ranges::stable_sort(verdict.outputs, std::ranges::greater(), in_tolerances);
  if (first == nullptr) return;
  add_reason(verdict, fmt::format("iteration {}: output {} ({}) differs by {:.3g} of its largest value, more than {:g}{}",
                                  first->iteration, first->name, name(first->dtype), first->max_rel_diff,
                                  first->tolerance,
                                  bad == 1 ? "" : fmt::format("; {} of {} outputs do", bad, verdict.outputs_compared)));
}

}  // namespace

std::string state_reason(const Verification& verdict) {
  const StateDifference* worst = nullptr;
  std::size_t bad = 0;
  for (const StateDifference& state : verdict.states) {
    if (state.max_rel_diff <= verdict.state_tolerance || state.is_undetermined) continue;
    ++bad;
    if (worst == nullptr) worst = &state;
  }
  if (bad == 0) return "";
  return fmt::format("after iteration {}: {} of {} states differ by more than {:g} of their largest value, {} most ({:.3g}{})",
                     verdict.iterations == 0 ? 0 : verdict.iterations - 1, bad, verdict.states.size(), verdict.state_tolerance, worst->name, worst->max_rel_diff,
                     verdict.spread_runs == 0 ? "" : fmt::format("; runs one rounding apart {:.3g}", worst->spread));
}

const LossDifference* Verification::first_bad_loss() const {
  const auto first = std::ranges::find(losses, false, &LossDifference::is_undetermined);
  return first == losses.end() ? nullptr : &*first;
}

void Verification::settle() {
  std::vector<std::string> parts;
  first_bad_iteration = graph::kNone;
  if (const LossDifference* bad = first_bad_loss()) {
    first_bad_iteration = bad->iteration;
    parts.push_back(fmt::format("iteration {}: {} is {:.9g}, recorded is {:.9g}: relative difference {:.3g} is above {:g}{}", bad->iteration,
                                bad->name, bad->loss, bad->recorded, bad->rel_diff, loss_tolerance,
                                spread_runs == 0 ? "" : fmt::format("; runs one rounding apart {:.3g}", bad->spread)));
  }
  for (const OutputDifference& output : outputs) {
    if (!output.is_within()) first_bad_iteration = std::min(first_bad_iteration, output.iteration);
  }
  for (const std::string& part : {other_reason, state_reason}) {
    if (!part.empty()) parts.push_back(part);
  }
  reason = fmt::format("{}", fmt::join(parts, "; "));
  verified = reason.empty();
}

Result<StateDifference> Session::State::compare_state(const graph::State& state, const Noise& noise) const {
  CRUCIBLE_TRY(const std::vector<std::byte> expected, blobs->load(state.final_blob));
  CRUCIBLE_TRY(const std::vector<std::byte> actual, final_bytes(state));
  CRUCIBLE_TRY(const double far, difference(state, noise, actual, expected));
  return StateDifference{name_of(state.start), far, actual == expected};
}

Result<double> Session::State::difference(const graph::State& state, const Noise& noise, std::span<const std::byte> actual,
                                          std::span<const std::byte> expected) const {
  const graph::Value& value = program->values[state.start];
  const Result<TensorDifference> far = compare(value.dtype, actual, expected);
  if (!far) return Error{far.error().code, fmt::format("final {}: {}", name_of(state.start), far.error().message)};
  if (far->bit_equal || noise.elements(value.name).empty()) return far->max_rel_diff;
  return noise.difference(value.name, value.dtype, actual, expected);
}

Result<Verification> Session::verify(const std::vector<IterationResult>& results) const {
  const graph::Program& program = *state_->program;
  if (results.size() != program.iterations || state_->next_iteration != program.iterations) {
    return Error{ErrorCode::kUsage, fmt::format("verification needs all {} recorded iterations, {} have run",
                                                program.iterations, state_->next_iteration)};
  }
  const auto tensors = static_cast<std::size_t>(std::ranges::count_if(program.outputs, &graph::Output::is_tensor));
  for (std::uint32_t iteration = 0; iteration < results.size(); ++iteration) {
    if (results[iteration].outputs.size() == tensors) continue;
    return Error{ErrorCode::kUsage, fmt::format("iteration {} gave back {} tensors, {} of them were compared", iteration,
                                                tensors, results[iteration].outputs.size())};
  }
  Verification verdict;
  verdict.iterations = program.iterations;
  const Tolerances tolerances = tolerances_of(program);
  verdict.loss_tolerance = tolerances.loss;
  verdict.state_tolerance = tolerances.state;
  CRUCIBLE_TRY(const Noise noise, Noise::find(program, *state_->blobs, tolerances.noise));
  verdict.noise_elements = noise.count();
  verdict.noise_parameters = noise.parameters();
  verdict.outputs_left_out = program.left_out;
  judge_losses(program, results, verdict);
  judge_outputs(results, verdict);
  bool is_changed = false;
  for (const graph::State& state : program.states) {
    is_changed |= state.end != state.start;
    if (state.final_blob != graph::kNone) {
      CRUCIBLE_TRY(StateDifference difference, state_->compare_state(state, noise));
      verdict.states.push_back(std::move(difference));
    } else if (state.end != state.start) {
      verdict.states_not_recorded.push_back(state_->name_of(state.start));
    }
  }
  std::ranges::stable_sort(verdict.states, std::ranges::greater(), &StateDifference::max_rel_diff);
  verdict.state_reason = state_reason(verdict);
  // States that nothing changes are equal whatever the replay computed.
  const bool has_states = is_changed && !verdict.states.empty();
  if (verdict.losses_compared == 0 && verdict.outputs_compared == 0 && !has_states) {
    add_reason(verdict, "the recording has no loss, no output and no changed state that the replay could be compared with");
  }
  verdict.settle();
  return verdict;
}

}  // namespace crucible::runtime
