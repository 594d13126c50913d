// The squeaky-wheel search of the planner: passes over ranks that are changed from one to the next. Blocks that stand
// high are promoted, so that the next pass places them earlier and lower.
//
// A chain is one such walk from a given order; different chains judge differently what is high and what to accept.
#pragma once

#include <atomic>
#include <cstdint>
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

struct Chain {
  std::uint32_t number = 0;      // how it judges, and its random numbers
  std::uint64_t passes = 0;      // at most
  std::uint64_t target = 0;      // a peak that is low enough to stop at
  const std::atomic<bool>* stop = nullptr;  // may be set by another thread: the result is not wanted any more
};

/// Walks from `order`, which leads to `start`; returns the best placement seen, `start` included. Deterministic.
Placed search_ranks(const Part& part, std::vector<std::uint32_t> order, const Placed& start, const Chain& chain);

}  // namespace crucible::memory
