// Verification: outputs, losses and states of a replay beside the recorded ones, and the verdict on them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/hash.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/judge/move.hpp"

namespace crucible::runtime {

/// A tensor that an iteration gave back, against the recorded one.
struct OutputDifference {
  std::string name;
  std::uint32_t iteration = 0;
  DType dtype = DType::kF32;
  double max_rel_diff = 0;  // largest |a - b| over the largest |b| of the tensor
  double tolerance = 0;     // of its dtype
  bool bit_equal = false;
  ContentHash elements = {};  // of those that the replay gave: hash_of_elements() (result_hash.hpp)
  std::size_t place = 0;         // among the iteration's tensors
  std::string words = {};        // words_of_difference(), of one beyond its tolerance
  double spread = 0;             // see Spread; 0 where it was not measured
  bool is_undetermined = false;  // as StateDifference's
  bool is_within() const { return max_rel_diff <= tolerance; }
  bool is_bad() const { return !is_within() && !is_undetermined; }
};

struct IterationResult {
  std::vector<double> losses;           // one per number among Program::outputs, which stand first
  std::vector<double> recorded_losses;  // NaN where none was recorded
  double max_rel_diff = 0;              // over the losses
  std::uint64_t time_ns = 0;            // the device's work alone: no input copies
  std::vector<OutputDifference> outputs = {};  // one per tensor among Program::outputs, from compare_outputs()
  std::optional<Error> outside = std::nullopt;  // an index beyond what its op takes: only run_unjudged() tells it here
};

struct StateDifference {
  std::string name;  // no other state has it: the second one of a name has " (2)" behind it
  double max_rel_diff =
      0;  // largest |a - b| over the largest |b| of the tensor, elements of noise left out (noise.hpp)
  bool bit_equal = false;
  std::size_t state = 0;         // in Program::states
  Gap gap = {};                  // of one beyond the tolerance, in full
  std::string words = {};        // words_of_difference(), of one beyond the tolerance
  Gap spread = {};               // see Spread; 0 where it was not measured
  bool is_undetermined = false;  // beyond the tolerance, but not beyond what runs spread: consider_spread()
  Move move = {}, move_spread = {};  // of what the iterations moved it by, as `gap` and `spread`
  bool is_other_move = false;        // within the tolerance, but it moved otherwise, and by more than runs spread
  bool is_eager_inexact =
      false;  // the reference interpreter ends where the replay ends, and not where the recording does: explain.hpp
};

/// A loss beyond the tolerance.
struct LossDifference {
  std::uint32_t iteration = 0;
  std::size_t output = 0;  // among Program::outputs
  std::string name;
  double loss = 0, recorded = 0, rel_diff = 0;
  double spread = 0;             // see Spread; 0 where it was not measured
  bool is_undetermined = false;  // as StateDifference's
  bool is_eager_inexact = false;  // as StateDifference's
};

/// The end of a run: what is compared, beside its losses.
struct RunEnd {
  std::vector<std::vector<std::byte>> states = {};                // by Program::states
  std::vector<std::vector<double>> losses = {};                   // by iteration, as IterationResult::losses
  std::vector<std::vector<std::shared_ptr<const std::vector<std::byte>>>> outputs =
      {};  // by iteration and place, alike ones shared; empty where nobody asked
};

/// How far runs end from each other that start one unit in the last place apart, by state: elements of noise left out.
/// And by how much their losses and their outputs differ.
struct Spread {
  std::uint32_t runs = 0;
  std::vector<Gap> states = {};  // by Program::states
  std::vector<Move> moves = {};  // the same of how far they moved
  std::string device = {};       // "": the judged one
  std::vector<std::vector<double>> losses =
      {};  // largest relative difference, of each iteration, as IterationResult::losses
  std::vector<std::vector<double>> outputs =
      {};  // the same of tensors, as TensorDifference::max_rel_diff; empty where nobody asked
  RunEnd first = {};                              // what it is measured from: the run before these
};

struct Verification {
  bool verified = false;
  double loss_tolerance = 1e-5, state_tolerance = 1e-4;  // of f32 and f64; larger for narrower dtypes (noise.hpp)
  MoveTolerance move_tolerance = {};
  std::uint32_t first_bad_iteration = graph::kNone;
  std::uint32_t iterations = 0;
  std::size_t losses_compared = 0;
  double loss_rounding = 0;      // largest rounding_of_loss() (noise.hpp) that excused a loss; 0: none did
  std::size_t losses_rounded = 0;  // beyond the tolerance, but no further from the recorded ones than that
  double max_loss_rel_diff = 0;
  std::vector<LossDifference> losses;   // those beyond the tolerance, in the order of the iterations
  std::vector<StateDifference> states;  // worst first
  std::vector<std::string>
      states_not_recorded;  // changed by the iteration, but the recording has no final bytes of them
  std::size_t noise_elements = 0, noise_parameters = 0;  // compared by their size alone: see noise.hpp
  std::size_t outputs_compared = 0;             // tensors, of all iterations
  std::vector<OutputDifference> outputs;  // those that are not bit-equal, the one furthest beyond its tolerance first
  std::vector<std::string> outputs_left_out;    // recorded, but the program cannot give them; each with the reason
  std::uint32_t spread_runs = 0;        // 0: not measured
  std::uint32_t spread_most = 0;        // as many runs as were allowed; 0: none were asked for
  std::string spread_device;            // as Spread's
  std::size_t states_undetermined = 0, losses_undetermined = 0,
              outputs_undetermined = 0;  // beyond the tolerance, within kSpreads times their spread
  std::string reason;   // "" when verified; else names the iteration and the tensor
  std::string verdict;  // "yes", "yes, 3 states are not determined by the arithmetic", "no: " and the reason
  std::string other_reason;  // why it is not verified whatever was compared: nothing could be. Others may add theirs
                             // with add_reason()
  std::string
      found;  // of the reference interpreter, why: the first op that differs, with its line; "" where it was not asked
  std::vector<std::string> notes;  // what explaining found, in sentences
  std::uint32_t rough_runs = 0;    // of the reference interpreter with rough arithmetic: explain.hpp
  std::size_t ops_checked = 0;     // results of single ops that are the reference interpreter's: explain.hpp

  /// The first loss that is beyond the tolerance and determined; null when there is none.
  const LossDifference* first_bad_loss() const;
  /// Whether something that was compared is beyond its tolerance and not explained.
  bool differs() const;
  /// Another reason why it is not verified.
  void add_reason(const std::string& text);

  /// Makes `verdict`, `reason`, `verified` and the counts of the parts. The one place where a verdict is put into
  /// words.
  void settle();
};

/// A state, or a loss, that is not further from the recorded one than this many times its spread is not determined by
/// the arithmetic: the recorded run could have ended elsewhere too.
inline constexpr double kSpreads = 4;

/// Whether runs that part by `spread` may be as far apart as `gap`: at worst, on average and, a tenth of the tolerance
/// there, in the middle element. Elements that went another way at a branch excuse themselves, not a factor that all
/// elements have.
bool is_explained(const Gap& gap, double tolerance, const Gap& spread);

/// Sets `is_other_move`.
void judge_move(StateDifference& state, const Verification& verdict);

/// Judges states, losses and outputs anew, knowing how far runs spread.
void consider_spread(Verification& verdict, const Spread& spread);

}  // namespace crucible::runtime
