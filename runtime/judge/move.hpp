// How far a replay moved a state beside how far the recording did: a step of an optimizer that is wrong by a thousandth
// is a millionth of the parameter, and no tolerance of the parameter sees it. What storing a number rounds is no
// difference: a move is known no better than that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/dtype.hpp"

namespace crucible::runtime {

/// Differences of two moves from one start, as shares of the recorded one.
struct Move {
  double middle =
      0;  // of the middle element, without what storing may round: a wrong factor moves all, another branch a few
  double factor = 0;  // by which all elements together moved further or less far (least squares)
  double noise =
      0;  // of `factor`: five standard errors of what is not that factor; of few elements, what storing may round
  /// The larger of each, where that is finite.
  void widen(const Move& other);
};

/// The moves `before` to `actual` and `before` to `expected`, stored after each of `iterations`. Elements of which
/// `is_left_out` is true, those that are not finite, and dtypes that are not floating-point do not count. `before` may
/// be empty: zeros.
Move move_between(DType dtype, std::span<const std::byte> before, std::span<const std::byte> actual,
                  std::span<const std::byte> expected, std::uint32_t iterations,
                  const std::vector<bool>& is_left_out = {});

/// How far apart moves may be where no run has shown that they may be further.
struct MoveTolerance {
  double middle = 1e-4, factor = 5e-5;
};

/// Whether runs whose moves part by `spread` (kSpreads times that) may be as far apart as `move`.
bool is_same_move(const Move& move, const MoveTolerance& tolerance, const Move& spread = {});

}  // namespace crucible::runtime
