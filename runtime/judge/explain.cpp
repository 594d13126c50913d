// The ends of the reference interpreter beside the replay's and the recorded ones: see explain.hpp.
#include "runtime/judge/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <tuple>

#include "core/base/time_limit.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/queries.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/judge/noise.hpp"

namespace crucible::runtime {
namespace {

/// A framework's sums may be rougher than the rough ones of the interpreter, which rounds its products once: twice
/// kSpreads is allowed.
constexpr double kRougher = 2;

Gap rougher(const Gap& gap) {
  return {.largest = kRougher * gap.largest, .rms = kRougher * gap.rms, .median = kRougher * gap.median};
}

/// How many numbers stand before an output, which is where a ReferenceReplay has its own if it is one.
std::size_t place_of_number(const graph::Program& program, std::size_t output) {
  return static_cast<std::size_t>(
      std::ranges::count_if(std::span(program.outputs).first(output), &graph::Output::is_number));
}

/// The program that iteration `index` runs.
const graph::Program& program_of(const graph::Variants& variants, std::uint32_t index) {
  return *variants.programs[variants.turns[index].variant];
}

bool has_opaque_ops(const std::shared_ptr<const graph::Program>& program) {
  return !graph::opaque_uses(*program).empty();
}

struct Counts {
  std::size_t inexact_states = 0, inexact_losses = 0;  // where eager is the less exact one
  std::size_t right = 0,
              bad = 0;  // beyond the tolerance and not explained, of them those that the interpreter has as well
};

/// A state that is within its tolerance, but moved otherwise.
Result<void> judge_other_move(StateDifference& state, const Verification& verdict, const graph::Variants& variants,
                              const trace::BlobStore& blobs, const RunEnd& judged, const ReferenceEnds& ends,
                              const Noise& noise, Counts& counts) {
  const graph::Program& program = *variants.programs[0];
  const std::uint32_t moves = variants.moves_of(state.state);
  const graph::State& its = program.states[state.state];
  const DType dtype = program.values[its.start].dtype;
  CRUCIBLE_TRY(const std::vector<std::byte> recorded, blobs.load(its.final_blob));
  std::vector<std::byte> before;
  if (its.initial_blob != graph::kNone) {
    CRUCIBLE_TRY(before, blobs.load(its.initial_blob));
  }
  const auto apart = [&](const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
    return move_between(dtype, before, a, b, moves, noise.excused(state.state, dtype, a, b));
  };
  const std::vector<std::byte>& exact = ends.exact.states[state.state];
  for (const graph::ReferenceReplay& run : ends.rough) {
    const Move rough = apart(run.states[state.state], exact);
    state.move_spread.widen({.middle = kRougher * rough.middle, .factor = kRougher * rough.factor});
  }
  const Move of_replay = apart(judged.states[state.state], exact), of_recorded = apart(exact, recorded);
  const bool is_right = is_same_move(of_replay, verdict.move_tolerance);
  const auto is_in = [&](const Move& move) { return is_same_move(move, verdict.move_tolerance, state.move_spread); };
  state.is_other_move = !is_in(of_replay) || !is_in(of_recorded);
  state.is_eager_inexact = !state.is_other_move && is_right && !is_same_move(of_recorded, verdict.move_tolerance);
  counts.inexact_states += state.is_eager_inexact;
  counts.bad += state.is_other_move;
  counts.right += state.is_other_move && is_right;
  return {};
}

Result<void> judge_states(Verification& verdict, const graph::Variants& variants, const trace::BlobStore& blobs,
                          const RunEnd& judged, const ReferenceEnds& ends, const Noise& noise, Counts& counts) {
  const graph::Program& program = *variants.programs[0];  // states are the same in all
  const double tolerance = verdict.state_tolerance;
  for (StateDifference& state : verdict.states) {
    if (state.is_undetermined || (state.max_rel_diff <= tolerance && !state.is_other_move)) continue;
    const graph::State& its = program.states[state.state];
    const DType dtype = program.values[its.start].dtype;
    CRUCIBLE_TRY(const std::vector<std::byte> recorded, blobs.load(its.final_blob));
    const auto gap = [&](const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
      return noise.gap(state.state, dtype, a, b);
    };
    const std::vector<std::byte>& exact = ends.exact.states[state.state];
    for (const graph::ReferenceReplay& run : ends.rough)
      state.spread.widen(rougher(gap(run.states[state.state], exact)));
    if (state.is_other_move) {
      CRUCIBLE_TRY_VOID(judge_other_move(state, verdict, variants, blobs, judged, ends, noise, counts));
      continue;
    }
    const Gap of_replay = gap(judged.states[state.state], exact), of_recorded = gap(exact, recorded);
    const bool is_right = of_replay.largest <= tolerance;
    state.is_undetermined =
        is_explained(of_replay, tolerance, state.spread) && is_explained(of_recorded, tolerance, state.spread);
    state.is_eager_inexact = state.is_undetermined && is_right && of_recorded.largest > tolerance;
    counts.inexact_states += state.is_eager_inexact;
    counts.bad += !state.is_undetermined;
    counts.right += !state.is_undetermined && is_right;
  }
  return {};
}

void judge_losses(Verification& verdict, const graph::Variants& variants, const ReferenceEnds& ends, Counts& counts) {
  for (LossDifference& loss : verdict.losses) {
    if (loss.is_undetermined) continue;
    const std::size_t place = place_of_number(program_of(variants, loss.iteration), loss.output);
    const double exact = ends.exact.outputs[loss.iteration][place];
    for (const graph::ReferenceReplay& run : ends.rough) {
      const double far = relative_difference(run.outputs[loss.iteration][place], exact);
      if (std::isfinite(far)) loss.spread = std::max(loss.spread, kRougher * far);
    }
    const double allowed = std::max(verdict.loss_tolerance, kSpreads * loss.spread);
    const double of_replay = relative_difference(loss.loss, exact),
                 of_recorded = relative_difference(exact, loss.recorded);
    const bool is_right = of_replay <= verdict.loss_tolerance;
    loss.is_undetermined = of_replay <= allowed && of_recorded <= allowed;
    loss.is_eager_inexact = loss.is_undetermined && is_right && of_recorded > verdict.loss_tolerance;
    counts.inexact_losses += loss.is_eager_inexact;
    counts.bad += !loss.is_undetermined;
    counts.right += !loss.is_undetermined && is_right;
  }
}

Result<void> judge_outputs(Verification& verdict, const graph::Variants& variants, const trace::BlobStore& blobs,
                           const ReferenceEnds& ends, Counts& counts) {
  std::vector<graph::OutputTensors> shown_by;  // variants
  for (const auto& program : variants.programs) shown_by.push_back(graph::output_tensors(*program));
  struct Far {
    double of_rough = 0, of_recorded = 0;
  };
  std::map<std::tuple<std::uint32_t, std::size_t, std::uint32_t>, Far>
      measured;  // by iteration, first_alike and recorded blob
  for (OutputDifference& output : verdict.outputs) {
    if (!output.is_bad()) continue;
    const graph::Turn& turn = variants.turns[output.iteration];
    const graph::OutputTensors& shown = shown_by[turn.variant];
    const std::uint32_t blob = shown.outputs[output.place]->blobs[turn.index];
    const auto [at, is_new] = measured.try_emplace({output.iteration, shown.first_alike[output.place], blob});
    Far& far = at->second;
    if (is_new) {
      const graph::Bytes& exact = *ends.exact.tensors[output.iteration][output.place];
      for (const graph::ReferenceReplay& run : ends.rough) {
        CRUCIBLE_TRY(const TensorDifference rough,
                     compare(output.dtype, *run.tensors[output.iteration][output.place], exact));
        if (std::isfinite(rough.max_rel_diff)) far.of_rough = std::max(far.of_rough, kRougher * rough.max_rel_diff);
      }
      CRUCIBLE_TRY(const std::vector<std::byte> recorded, blobs.load(blob));
      CRUCIBLE_TRY(const TensorDifference of_recorded, compare(output.dtype, exact, recorded));
      far.of_recorded = of_recorded.max_rel_diff;
    }
    output.spread = std::max(output.spread, far.of_rough);
    const double allowed = std::max(output.tolerance, kSpreads * output.spread);
    output.is_undetermined = output.max_rel_diff <= allowed && far.of_recorded <= allowed;
    counts.bad += !output.is_undetermined;
  }
  return {};
}

void take_notes(Verification& verdict, const Counts& counts) {
  if (counts.inexact_states + counts.inexact_losses > 0) {
    verdict.notes.push_back(
        fmt::format("eager PyTorch is the less exact one in {} states and {} losses: there the reference interpreter, "
                    "which sums in f64, agrees with the replay and not "
                    "with the recording, and sums in f32 explain the distance",
                    counts.inexact_states, counts.inexact_losses));
  }
  if (counts.bad == 0) return;
  verdict.notes.push_back(counts.right == counts.bad
                              ? "the reference interpreter agrees with the replay and not with the recording, and no "
                                "rounding explains that: the program is not what was recorded, "
                                "or eager computed something else"
                              : fmt::format("the reference interpreter does not end where the replay ends in {} of {} "
                                            "tensors and losses that differ",
                                            counts.bad - counts.right, counts.bad));
}

}  // namespace

Result<ReferenceEnds> run_reference(const graph::Variants& variants, const trace::BlobStore& blobs,
                                    const ExplainOptions& options) {
  const auto iterations = static_cast<std::uint32_t>(variants.turns.size());
  const auto say = [&](const std::string& text) {
    if (options.progress) options.progress(text);
  };
  const TimeLimit limit(options.seconds);
  say("running the reference interpreter");
  ReferenceEnds ends;
  CRUCIBLE_TRY(ends.exact, graph::replay_reference(variants, blobs, iterations));
  // Two runs at least: one may round as eager did by chance.
  while (ends.rough.size() < options.runs && (ends.rough.size() < 2 || !limit.is_over())) {
    say(fmt::format("running the reference interpreter with rough arithmetic, {} of at most {}", ends.rough.size() + 1,
                    options.runs));
    graph::Roughness rough(ends.rough.size() + 1);
    CRUCIBLE_TRY(ends.rough.emplace_back(), graph::replay_reference(variants, blobs, iterations, &rough));
  }
  return ends;
}

bool is_far_for_roundings(const Verification& verdict, const std::vector<IterationResult>& results,
                          const Spread& spread) {
  const auto is_far = [](double difference, double of_runs) {
    return difference > std::max(2e-6, kRougher * kSpreads * of_runs);
  };
  for (std::size_t i = 0; i < results.size(); ++i) {
    const IterationResult& result = results[i];
    for (std::size_t k = 0; k < result.losses.size(); ++k) {
      const double recorded = result.recorded_losses[k];
      if (!std::isnan(recorded) && is_far(relative_difference(result.losses[k], recorded), spread.losses[i][k]))
        return true;
    }
    for (const OutputDifference& output : result.outputs) {
      if (is_far(output.max_rel_diff, spread.outputs.empty() ? 0 : spread.outputs[i][output.place])) return true;
    }
  }
  return std::ranges::any_of(verdict.states, [&](const StateDifference& state) {
    return is_far(state.max_rel_diff, spread.states[state.state].largest);
  });
}

double reference_seconds(const graph::Variants& variants) {
  constexpr double kFlops = 1.5e8, kBytes = 1.2e8;  // a second, measured
  double seconds = 0;
  for (const auto& program : variants.programs) {
    for (graph::OpId op = 0; op < program->ops.size(); ++op) {
      const graph::Work work = graph::work(*program, op);
      seconds += program->iterations * (static_cast<double>(work.flops) / kFlops +
                                        static_cast<double>(work.bytes_read + work.bytes_written) / kBytes);
    }
  }
  return seconds;
}

Result<void> consider_reference(Verification& verdict, const graph::Variants& variants, const trace::BlobStore& blobs,
                                const RunEnd& judged, const ExplainOptions& options) {
  if (std::ranges::any_of(variants.programs, has_opaque_ops)) {
    verdict.notes.push_back("where the reference interpreter ends was not computed: it has no opaque ops");
    return {};
  }
  if (const double seconds = 3 * reference_seconds(variants); seconds > 3 * options.seconds) {
    verdict.notes.push_back(
        fmt::format("where the reference interpreter ends was not computed: it would take about {:.0f} minutes",
                    std::ceil(seconds / 60)));
    return {};
  }
  CRUCIBLE_TRY(const ReferenceEnds ends, run_reference(variants, blobs, options));
  return consider_reference(verdict, variants, blobs, judged, ends);
}

Result<void> consider_reference(Verification& verdict, const graph::Variants& variants, const trace::BlobStore& blobs,
                                const RunEnd& judged, const ReferenceEnds& ends) {
  verdict.rough_runs = static_cast<std::uint32_t>(ends.rough.size());
  CRUCIBLE_TRY(const Noise noise, Noise::find(*variants.programs[0], blobs, tolerances_of(variants).noise));
  Counts counts;
  CRUCIBLE_TRY_VOID(judge_states(verdict, variants, blobs, judged, ends, noise, counts));
  judge_losses(verdict, variants, ends, counts);
  CRUCIBLE_TRY_VOID(judge_outputs(verdict, variants, blobs, ends, counts));
  take_notes(verdict, counts);
  verdict.settle();
  return {};
}

}  // namespace crucible::runtime
