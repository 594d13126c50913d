// Why anchors suffice: inside a region of period p, a window at least as long as p comes again after p numbers and not
// before, or the period would be shorter. So the first match of a window tells the period; a match that comes earlier
// than half of the window belongs to a smaller window.
#include "core/trace/period.hpp"

#include <algorithm>
#include <bit>

namespace crucible::trace {

namespace {

constexpr std::uint64_t kBase = 0x9E3779B97F4A7C15ull;

}  // namespace

PeriodFinder::PeriodFinder(std::size_t longest) {
  std::uint64_t power = kBase;
  std::uint64_t window = 1;
  for (;; window *= 2, power *= power) {
    scales_.push_back({window, power});
    if (window >= longest) break;
  }
  const std::uint64_t room = std::bit_ceil(2 * window + 2);
  numbers_.resize(room);
  sums_.resize(room);
  mask_ = room - 1;
}

std::uint64_t PeriodFinder::window_hash(const Scale& scale) const {
  return sums_[size_ & mask_] - sums_[(size_ - scale.window) & mask_] * scale.power;
}

void PeriodFinder::push(std::uint64_t value) {
  numbers_[size_ & mask_] = value;
  const std::uint64_t sum = sums_[size_ & mask_];
  ++size_;
  sums_[size_ & mask_] = sum * kBase + value;
  for (Scale& scale : scales_) {
    if (size_ < scale.window) break;
    look(scale);
  }
}

void PeriodFinder::look(Scale& scale) {
  if (scale.period != 0 && number(size_ - 1) != number(size_ - 1 - scale.period)) scale.period = 0;
  if (scale.anchor != 0 && window_hash(scale) == scale.anchor_hash) {
    const std::uint64_t distance = size_ - scale.anchor;
    const bool is_ours = 2 * distance > scale.window;
    if (is_ours && scale.period != distance) {
      // The hash says that the window came again; the numbers themselves have the last word.
      std::uint64_t matching = 0;
      while (matching < scale.window && number(size_ - 1 - matching) == number(size_ - 1 - matching - distance))
        ++matching;
      if (matching == scale.window) {
        scale.period = distance;
        scale.start = scale.anchor - scale.window;
      }
    }
    scale.anchor = 0;
  }
  if (size_ % scale.window == 0) {
    scale.anchor = size_;
    scale.anchor_hash = window_hash(scale);
  }
}

PeriodFinder::Run PeriodFinder::run_of(std::uint64_t period) const {
  for (const Scale& scale : scales_) {
    if (scale.period == period) return {period, size_ - scale.start};
  }
  return {period, 0};
}

}  // namespace crucible::trace
