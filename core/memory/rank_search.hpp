// The squeaky-wheel search of the planner: passes over ranks that are changed from one to the next. Blocks that stand
// high are promoted, so that the next pass places them earlier and lower.
//
// A chain is one such walk from a given order; different chains judge differently what is high and what to accept.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/memory/blocks.hpp"
#include "core/memory/first_fit.hpp"
#include "core/memory/skyline.hpp"

namespace crucible::memory {

/// The pass that suits a part: skyline where it knows all rules, else first fit.
class Pass {
 public:
  explicit Pass(const Part& part);
  void run(std::span<const std::uint32_t> order, std::uint64_t limit, Placed& placed);

 private:
  std::optional<Skyline> skyline_;
  std::optional<FirstFit> first_fit_;
};

/// A walk from an order, which leads to `start`. Deterministic in its number and its passes. Threads: one at a time.
class Chain {
 public:
  /// `number`: how it judges, and its random numbers. `target`: a peak that is low enough to stop at.
  Chain(const Part& part, std::vector<std::uint32_t> order, const Placed& start, std::uint32_t number,
        std::uint64_t target);
  ~Chain();
  Chain(Chain&&) noexcept;
  Chain& operator=(Chain&&) noexcept;

  /// Goes on for up to `passes`. Another thread may set `stop`: the result is not wanted any more.
  void run(std::uint64_t passes, const std::atomic<bool>& stop);
  /// The best placement seen, `start` included.
  const Placed& best() const;

 private:
  class Walk;
  std::unique_ptr<Walk> walk_;
};

}  // namespace crucible::memory
