// The tolerances of a replay (tolerances_of()), and the elements that they do not judge: those of parameters whose
// gradient is rounding noise, found in the recording alone. A bias before a normalisation,
// or of attention's keys, has no effect on the loss: its true gradient is zero and the recorded one is what rounding
// left. Optimizers that divide by the gradient's size (Adam, RMSprop) move such an element by the learning rate in a
// direction that no arithmetic determines: eager PyTorch does not repeat it with another number of threads either.
// Verification compares these elements by their size, and everything else as it is.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/result.hpp"
#include "core/graph/program.hpp"
#include "core/graph/variants.hpp"
#include "core/trace/trace.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/judge/move.hpp"

namespace crucible::runtime {

/// What the precision of a program lets a replay promise. f32 and better: sums in another order; f16 and bf16:
/// roundings at other places, which every layer hands on.
struct Tolerances {
  double loss = 1e-5, state = 1e-4;
  double noise = 1e-6;  // a gradient below this share of the largest one is noise
  MoveTolerance move = {};
};

/// By the narrowest floating-point dtype among the program's values; TF32, where the recording computed with it, counts
/// as f16.
Tolerances tolerances_of(const graph::Program& program);
/// The widest of the variants'.
Tolerances tolerances_of(const graph::Variants& variants);

/// How far, in absolute terms, a loss may be from the recorded one whatever its size: 0 unless it is a sum or a mean of
/// logarithms, such as a cross entropy. A logarithm's argument has been rounded, and log(s (1 + e)) = log(s) + e: of a
/// loss that has become small, nothing below the roundings of such a sum is determined. Four units in the last place of
/// 1 in the logarithm's dtype.
double rounding_of_loss(const graph::Program& program, const graph::Output& output);

class Noise {
 public:
  /// Reads the optimizer's recorded second moments ("exp_avg_sq of NAME", "square_avg of NAME", "sum of NAME", "exp_inf
  /// of NAME"). Errors: of the store.
  static Result<Noise> find(const graph::Program& program, const trace::BlobStore& blobs, double share);

  /// Which elements of Program::states[state] are noise; empty when none is. States are known by their place: two
  /// optimizers over one parameter, or two modules with parameters of one name, have states of one name.
  const std::vector<bool>& elements(std::size_t state) const;
  /// Elements of parameters, and the parameters that have some.
  std::size_t count() const { return count_; }
  std::size_t parameters() const { return parameters_; }

  /// Which elements of a state are noise and no larger than noise can be: a moment within the noise of its kind, a
  /// parameter no further from its recorded value than parameters moved in all the recorded iterations, a step within
  /// twice the largest one.
  std::vector<bool> excused(std::size_t state, DType dtype, std::span<const std::byte> actual,
                            std::span<const std::byte> expected) const;
  /// How far apart the others are.
  Gap gap(std::size_t state, DType dtype, std::span<const std::byte> actual,
          std::span<const std::byte> expected) const {
    return gap_between(dtype, actual, expected, excused(state, dtype, actual, expected));
  }

 private:
  struct Moments;
  std::vector<std::vector<bool>> masks_;  // by state
  std::vector<std::string> kinds_;        // by state: "exp_avg", of a parameter itself ""
  std::size_t count_ = 0, parameters_ = 0;
  double largest_gradient_ = 0, share_ = 0, largest_move_ = 0;
  std::map<std::string, double, std::less<>> largest_step_;  // by kind of state, where one keeps steps
};

}  // namespace crucible::runtime
