// Integers only, and a generator of its own: the walk is the same on every machine.
#include "core/memory/rank_search.hpp"

#include <algorithm>

namespace crucible::memory {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Of 65536.
  std::uint64_t share() { return next() >> 48; }

 private:
  std::uint64_t state_ = 0;
};

constexpr std::uint64_t kOne = 65536;

/// value * share / 65536 without overflow.
std::uint64_t scaled(std::uint64_t value, std::uint64_t share) {
  return value / kOne * share + value % kOne * share / kOne;
}

}  // namespace

class Chain::Walk {
 public:
  Walk(const Part& part, std::vector<std::uint32_t> order, const Placed& start, std::uint32_t number,
       std::uint64_t target)
      : part_(part), number_(number), target_(target), pass_(part), random_(number + 1), order_(std::move(order)),
        current_(start), best_(start) {}

  void run(std::uint64_t passes, const std::atomic<bool>& stop) {
    for (; passes > 0 && best_.peak > target_ && !stop; --passes) {
      promote();
      const std::uint64_t limit = acceptable();
      pass_.run(next_order_, limit, next_);
      if (next_.peak > limit) continue;
      std::swap(order_, next_order_);
      std::swap(current_, next_);
      if (current_.peak < best_.peak) best_ = current_;
    }
  }

  const Placed& best() const { return best_; }

 private:
  /// Three ways to walk: equal peaks are accepted and what is high varies; slightly worse ones are accepted and only
  /// the highest move; all that is high moves, by any amount.
  std::uint32_t way() const { return number_ % 3; }

  std::uint64_t acceptable() {
    if (way() != 1) return current_.peak;
    const std::uint64_t share = scaled(random_.share(), random_.share()) / 20;
    return std::max(current_.peak, best_.peak + scaled(best_.peak - target_, share));
  }

  /// The next order: blocks that end above a threshold move forward by random shares of their positions.
  void promote() {
    std::uint64_t depth = random_.share();
    if (way() == 0 && random_.share() < kOne / 2) depth = kOne;
    if (way() == 1) depth = scaled(scaled(depth, depth), depth);
    const bool only_some = way() != 2 && random_.share() < kOne / 3;
    const std::uint64_t some = random_.share();
    std::uint64_t strength = random_.share();
    if (way() != 2) strength = scaled(strength, strength);
    const std::uint64_t excess = current_.peak - target_;
    const std::uint64_t threshold = current_.peak - std::max<std::uint64_t>(1, scaled(excess, depth) / 2);

    promoted_.clear();
    rest_.clear();
    for (std::uint32_t position = 0; position < order_.size(); ++position) {
      const std::uint32_t block = order_[position];
      const bool is_high = current_.offsets[block] + part_.blocks[block].size > threshold;
      if (is_high && (!only_some || random_.share() < some)) {
        promoted_.push_back({std::uint64_t{position} * (kOne - scaled(random_.share(), strength)), block});
      } else {
        rest_.push_back({std::uint64_t{position} * kOne, block});
      }
    }
    std::ranges::sort(promoted_);
    merge();
  }

  void merge() {
    next_order_.clear();
    auto promoted = promoted_.begin();
    for (const auto& [key, block] : rest_) {
      for (; promoted != promoted_.end() && promoted->first <= key; ++promoted) next_order_.push_back(promoted->second);
      next_order_.push_back(block);
    }
    for (; promoted != promoted_.end(); ++promoted) next_order_.push_back(promoted->second);
  }

  const Part& part_;
  std::uint32_t number_ = 0;
  std::uint64_t target_ = 0;
  Pass pass_;
  Random random_;
  std::vector<std::uint32_t> order_, next_order_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> promoted_, rest_;  // key, block
  Placed current_, next_, best_;
};

Pass::Pass(const Part& part) {
  if (part.is_plain()) {
    skyline_.emplace(part);
  } else {
    first_fit_.emplace(part);
  }
}

void Pass::run(std::span<const std::uint32_t> order, std::uint64_t limit, Placed& placed) {
  if (skyline_) {
    skyline_->pass(order, limit, placed);
  } else {
    first_fit_->pass(order, limit, placed);
  }
}

Chain::Chain(const Part& part, std::vector<std::uint32_t> order, const Placed& start, std::uint32_t number,
             std::uint64_t target)
    : walk_(std::make_unique<Walk>(part, std::move(order), start, number, target)) {}
Chain::~Chain() = default;
Chain::Chain(Chain&&) noexcept = default;
Chain& Chain::operator=(Chain&&) noexcept = default;

void Chain::run(std::uint64_t passes, const std::atomic<bool>& stop) { walk_->run(passes, stop); }

const Placed& Chain::best() const { return walk_->best(); }

}  // namespace crucible::memory
