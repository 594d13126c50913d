// Finds what repeats at the end of a sequence of 64-bit numbers: which period the ops of a program have when nothing in
// the program says where an iteration ends. Knows neither ops nor tensors; the recorder's scout does
// (frontends/torch/scout.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace crucible::trace {

/// Fed one number at a time; knows at each moment which periods the end of the sequence has. A period p is confirmed
/// when the last 3p numbers are three equal blocks (a block and two repeats) and no shorter period divides them; it is
/// found, at the latest, when five blocks have passed, and stays until a number does not fit. Time: constant per number
/// and power of two below `longest`. Memory: about 40 bytes per unit of `longest`. Threads: one.
class PeriodFinder {
 public:
  struct Run {
    std::uint64_t period = 0;
    std::uint64_t length = 0;  // how many numbers, up to the last, are known to repeat with it
  };

  /// `longest`: no longer period is looked for.
  explicit PeriodFinder(std::size_t longest = std::size_t{1} << 16);

  void push(std::uint64_t number);
  std::uint64_t size() const { return size_; }

  /// Calls `visit(Run)` for each confirmed period, the shortest first.
  template <class Visit>
  void for_each_confirmed(Visit visit) const {
    for (const Scale& scale : scales_) {
      if (scale.period != 0 && size_ - scale.start >= 3 * scale.period) visit(Run{scale.period, size_ - scale.start});
    }
  }
  /// The run of `period` if it holds still; its length is 0 when it does not.
  Run run_of(std::uint64_t period) const;

 private:
  /// Looks for periods above half of `window` up to `window`, a power of two: remembers the last `window` numbers at an
  /// anchor and waits until they come again.
  struct Scale {
    std::uint64_t window = 0;
    std::uint64_t power = 0;        // of the rolling hash, to the window's length
    std::uint64_t anchor_hash = 0;
    std::uint64_t anchor = 0;       // how many numbers there were then; 0: none
    std::uint64_t period = 0;       // that holds since `start`; 0: none
    std::uint64_t start = 0;
  };
  std::uint64_t number(std::uint64_t position) const { return numbers_[position & mask_]; }
  std::uint64_t window_hash(const Scale& scale) const;
  void look(Scale& scale);

  std::vector<std::uint64_t> numbers_;  // a ring: the latest, twice as many as the longest window
  std::vector<std::uint64_t> sums_;     // a ring: rolling hash of all numbers before a position
  std::uint64_t mask_ = 0;
  std::uint64_t size_ = 0;
  std::vector<Scale> scales_;
};

}  // namespace crucible::trace
