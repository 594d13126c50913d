// Verification of a replay: each loss against the recorded one, each tensor that an iteration gave back and each final
// state against its recorded bytes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "runtime/judge/compare.hpp"
#include "runtime/run/session_state.hpp"

namespace crucible::runtime {
namespace {

/// Fills the loss part.
void judge_losses(const Session& session, const std::vector<IterationResult>& results, Verification& verdict) {
  for (std::uint32_t iteration = 0; iteration < results.size(); ++iteration) {
    const graph::Program& program = session.program_of(iteration);
    const std::uint32_t own = session.turn(iteration).index;
    for (std::size_t i = 0; i < program.outputs.size(); ++i) {
      const graph::Output& output = program.outputs[i];
      if (!output.is_number() || own >= output.recorded.size() || i >= results[iteration].losses.size()) continue;
      ++verdict.losses_compared;
      const double loss = results[iteration].losses[i], recorded = output.recorded[own];
      const double difference = relative_difference(loss, recorded);
      verdict.max_loss_rel_diff = std::max(verdict.max_loss_rel_diff, difference);
      if (difference <= verdict.loss_tolerance) continue;
      if (const double rounding = rounding_of_loss(program, output); std::fabs(loss - recorded) <= rounding) {
        ++verdict.losses_rounded;
        verdict.loss_rounding = std::max(verdict.loss_rounding, rounding);
        continue;
      }
      verdict.losses.push_back({.iteration = iteration,
                                .output = i,
                                .name = output.name.empty() ? "the loss" : output.name,
                                .loss = loss,
                                .recorded = recorded,
                                .rel_diff = difference});
    }
  }
}

/// Outputs that are not bit-equal, the one furthest beyond its tolerance first.
void judge_outputs(const std::vector<IterationResult>& results, Verification& verdict) {
  for (const IterationResult& result : results) {
    verdict.outputs_compared += result.outputs.size();
    std::ranges::copy_if(result.outputs, std::back_inserter(verdict.outputs), std::logical_not(),
                         &OutputDifference::bit_equal);
  }
  const auto in_tolerances = [](const OutputDifference& output) {
    return output.max_rel_diff / std::max(output.tolerance, 1e-30);
  };
  std::ranges::stable_sort(verdict.outputs, std::ranges::greater(), in_tolerances);
}

/// "0.003", with what has no size in words.
std::string size_in_words(double difference, const std::string& words) {
  if (!std::isfinite(difference)) return words.empty() ? "no number" : words;
  return fmt::format("{:.3g}{}{}", difference, words.empty() ? "" : ": ", words);
}

std::string spread_in_words(const Verification& verdict, double spread) {
  return verdict.spread_runs == 0 ? "" : fmt::format("; runs one rounding apart {:.3g}", spread);
}

std::string loss_reason(const Verification& verdict) {
  const LossDifference* bad = verdict.first_bad_loss();
  if (bad == nullptr) return "";
  const std::string begin = fmt::format("iteration {}: {} is {:.9g}, recorded is {:.9g}: ", bad->iteration, bad->name,
                                        bad->loss, bad->recorded);
  const std::string end = spread_in_words(verdict, bad->spread);
  if (!std::isfinite(bad->rel_diff)) return begin + "that is no finite difference" + end;
  if (bad->recorded == 0) return begin + "of 0 there is no relative difference" + end;
  return begin + fmt::format("relative difference {:.3g} is above {:g}{}", bad->rel_diff, verdict.loss_tolerance, end);
}

/// The first output that is bad, with how many others there are.
std::string output_reason(const Verification& verdict) {
  const OutputDifference* first = nullptr;
  std::size_t bad = 0;
  for (const OutputDifference& output : verdict.outputs) {
    if (!output.is_bad()) continue;
    ++bad;
    if (first == nullptr || std::pair(output.iteration, output.place) < std::pair(first->iteration, first->place))
      first = &output;
  }
  if (bad == 0) return "";
  const std::string which =
      fmt::format("iteration {}: output {} ({})", first->iteration, first->name, name(first->dtype));
  const std::string others = bad == 1 ? "" : fmt::format("; {} of {} outputs do", bad, verdict.outputs_compared);
  if (!std::isfinite(first->max_rel_diff)) return fmt::format("{} differs: {}{}", which, first->words, others);
  return fmt::format("{} differs by {:.3g} of its largest value, more than {:g}{}{}", which, first->max_rel_diff,
                     first->tolerance, first->words.empty() ? "" : fmt::format(" ({})", first->words), others);
}

/// Why the states are not equal to the recorded ones, or "".
std::string state_reason(const Verification& verdict) {
  const StateDifference* worst = nullptr;
  std::size_t bad = 0;
  for (const StateDifference& state : verdict.states) {
    if (state.max_rel_diff <= verdict.state_tolerance || state.is_undetermined) continue;  // as differs()
    ++bad;
    if (worst == nullptr) worst = &state;
  }
  if (bad == 0) return "";
  return fmt::format(
      "after iteration {}: {} of {} states differ by more than {:g} of their largest value, {} most ({}{})",
      verdict.iterations == 0 ? 0 : verdict.iterations - 1, bad, verdict.states.size(), verdict.state_tolerance,
      worst->name, size_in_words(worst->max_rel_diff, worst->words), spread_in_words(verdict, worst->spread.largest));
}

/// Why states that are within their tolerance are not right, or "".
std::string move_reason(const Verification& verdict) {
  const auto share = [](const StateDifference& state) { return std::max(state.move.middle, state.move.factor); };
  const StateDifference* worst = nullptr;
  std::size_t bad = 0;
  for (const StateDifference& state : verdict.states) {
    if (!state.is_other_move) continue;
    ++bad;
    if (worst == nullptr || share(state) > share(*worst)) worst = &state;
  }
  if (bad == 0) return "";
  return fmt::format(
      "after iteration {}: {} of {} states moved otherwise than recorded, {} most (by {:.3g} of its move{})",
      verdict.iterations == 0 ? 0 : verdict.iterations - 1, bad, verdict.states.size(), worst->name, share(*worst),
      spread_in_words(verdict, std::max(worst->move_spread.middle, worst->move_spread.factor)));
}

/// "yes", with what the arithmetic leaves open: "yes, 2 states and 1 loss are not determined by the arithmetic".
std::string yes_in_words(const Verification& verdict) {
  std::vector<std::string> open;
  std::size_t all = 0;
  const auto add = [&](std::size_t count, const char* what, const char* ending) {
    if (count > 0) open.push_back(fmt::format("{} {}{}", count, what, count == 1 ? "" : ending));
    all += count;
  };
  add(verdict.states_undetermined, "state", "s");
  add(verdict.losses_undetermined, "loss", "es");
  add(verdict.outputs_undetermined, "output", "s");
  if (open.empty()) return "yes";
  const std::string last = open.back();
  open.pop_back();
  return fmt::format("yes, {}{}{} {} not determined by the arithmetic", fmt::join(open, ", "),
                     open.empty() ? "" : " and ", last, all == 1 ? "is" : "are");
}

/// Of each state; the second one of a name has " (2)" behind it.
std::vector<std::string> state_names(const graph::Program& program) {
  std::map<std::string, std::size_t> seen;
  std::vector<std::string> names;
  for (const graph::State& state : program.states) {
    const std::string& name = program.values[state.start].name;
    names.push_back(name.empty() ? fmt::format("value {}", state.start) : name);
    if (const std::size_t place = ++seen[names.back()]; place > 1) names.back() += fmt::format(" ({})", place);
  }
  return names;
}

}  // namespace

const LossDifference* Verification::first_bad_loss() const {
  const auto first = std::ranges::find(losses, false, &LossDifference::is_undetermined);
  return first == losses.end() ? nullptr : &*first;
}

bool Verification::differs() const {
  return first_bad_loss() != nullptr || std::ranges::any_of(outputs, &OutputDifference::is_bad) ||
         std::ranges::any_of(states, [&](const StateDifference& state) {
           return (!(state.max_rel_diff <= state_tolerance) && !state.is_undetermined) || state.is_other_move;
         });
}

void judge_move(StateDifference& state, const Verification& verdict) {
  const bool is_far = !(state.max_rel_diff <= verdict.state_tolerance);  // judged by that
  state.is_other_move = !is_far && !is_same_move(state.move, verdict.move_tolerance, state.move_spread);
}

void Verification::add_reason(const std::string& text) { other_reason += (other_reason.empty() ? "" : "; ") + text; }

void Verification::settle() {
  first_bad_iteration = graph::kNone;
  if (const LossDifference* bad = first_bad_loss()) first_bad_iteration = bad->iteration;
  for (const OutputDifference& output : outputs) {
    if (output.is_bad()) first_bad_iteration = std::min(first_bad_iteration, output.iteration);
  }
  const auto count = [](const auto& all, auto is) { return static_cast<std::size_t>(std::ranges::count_if(all, is)); };
  states_undetermined = count(states, &StateDifference::is_undetermined);
  losses_undetermined = count(losses, &LossDifference::is_undetermined);
  outputs_undetermined = count(outputs, &OutputDifference::is_undetermined);
  std::vector<std::string> parts;
  for (std::string part :
       {loss_reason(*this), output_reason(*this), other_reason, state_reason(*this), move_reason(*this), found}) {
    if (!part.empty()) parts.push_back(std::move(part));
  }
  reason = fmt::format("{}", fmt::join(parts, "; "));
  verified = reason.empty();
  verdict = verified ? yes_in_words(*this) : "no: " + reason;
}

Result<Move> Session::State::move_of(std::size_t index, std::uint32_t moves, const Noise& noise,
                                     std::span<const std::byte> actual, std::span<const std::byte> expected) const {
  const graph::State& state = program->states[index];
  const DType dtype = program->values[state.start].dtype;
  std::vector<std::byte> before;
  if (state.initial_blob != graph::kNone) {
    CRUCIBLE_TRY(before, blobs->load(state.initial_blob));
  }
  return move_between(dtype, before, actual, expected, moves, noise.excused(index, dtype, actual, expected));
}

Result<StateDifference> Session::State::compare_state(std::size_t index, std::uint32_t moves, const Noise& noise,
                                                      double tolerance, NearReads& reads) const {
  const graph::State& state = program->states[index];
  const DType dtype = program->values[state.start].dtype;
  CRUCIBLE_TRY(const std::vector<std::byte> expected, blobs->load(state.final_blob));
  CRUCIBLE_TRY(const std::vector<std::byte> actual, final_bytes(state, reads));
  const Result<TensorDifference> far = compare(dtype, actual, expected);
  if (!far) return Error{far.error().code, fmt::format("final {}: {}", name_of(state.start), far.error().message)};
  StateDifference found{.name = "", .max_rel_diff = far->max_rel_diff, .bit_equal = actual == expected, .state = index};
  if (!far->bit_equal && !noise.elements(index).empty())
    found.max_rel_diff = noise.gap(index, dtype, actual, expected).largest;
  if (!far->bit_equal && moves > 0) {
    CRUCIBLE_TRY(found.move, move_of(index, moves, noise, actual, expected));
  }
  if (found.max_rel_diff <= tolerance) return found;
  found.gap = noise.gap(index, dtype, actual, expected);
  found.gap.largest = std::max(found.gap.largest, found.max_rel_diff);
  found.words = words_of_difference(dtype, actual, expected);
  return found;
}

/// As of graph::Variants.
Tolerances Session::tolerances() const {
  Tolerances widest = tolerances_of(*variants_[0]->program);
  for (const auto& variant : variants_) {
    const Tolerances own = tolerances_of(*variant->program);
    if (own.state > widest.state) widest = own;
  }
  return widest;
}

Result<Verification> Session::verify(const std::vector<IterationResult>& results) const {
  const graph::Program& program = *state_->program;
  if (results.size() != iterations() || next_ != iterations()) {
    return Error{ErrorCode::kUsage,
                 fmt::format("verification needs all {} recorded iterations, {} have run", iterations(), next_)};
  }
  for (std::uint32_t iteration = 0; iteration < results.size(); ++iteration) {
    const auto tensors =
        static_cast<std::size_t>(std::ranges::count_if(program_of(iteration).outputs, &graph::Output::is_tensor));
    if (results[iteration].outputs.size() == tensors) continue;
    return Error{ErrorCode::kUsage, fmt::format("iteration {} gave back {} tensors, {} of them were compared",
                                                iteration, tensors, results[iteration].outputs.size())};
  }
  Verification verdict;
  verdict.iterations = iterations();
  const Tolerances tolerances = this->tolerances();
  verdict.loss_tolerance = tolerances.loss;
  verdict.state_tolerance = tolerances.state;
  verdict.move_tolerance = tolerances.move;
  CRUCIBLE_TRY(const Noise noise, Noise::find(program, *state_->blobs, tolerances.noise));
  verdict.noise_elements = noise.count();
  verdict.noise_parameters = noise.parameters();
  for (const auto& variant : variants_) {
    for (const std::string& left_out : variant->program->left_out) verdict.outputs_left_out.push_back(left_out);
  }
  judge_losses(*this, results, verdict);
  judge_outputs(results, verdict);
  const std::vector<std::string> names = state_names(program);
  bool is_any_changed = false;
  NearReads reads = state_->reads_of(state_->near_states);
  for (const graph::State& state : program.states) {
    is_any_changed |= is_changed(state);
    if (state.final_blob != graph::kNone) {
      const auto index = static_cast<std::size_t>(&state - program.states.data());
      CRUCIBLE_TRY(StateDifference difference,
                   state_->compare_state(index, moves_[index], noise, tolerances.state, reads));
      difference.name = names[index];
      judge_move(difference, verdict);
      verdict.states.push_back(std::move(difference));
    } else if (is_changed(state)) {
      verdict.states_not_recorded.push_back(state_->name_of(state.start));
    }
  }
  std::ranges::stable_sort(verdict.states, std::ranges::greater(), &StateDifference::max_rel_diff);
  // States that nothing changes are equal whatever the replay computed.
  const bool has_states = is_any_changed && !verdict.states.empty();
  if (verdict.losses_compared == 0 && verdict.outputs_compared == 0 && !has_states) {
    verdict.add_reason(
        "the recording has no loss, no output and no changed state that the replay could be compared with");
  }
  verdict.settle();
  return verdict;
}

}  // namespace crucible::runtime
