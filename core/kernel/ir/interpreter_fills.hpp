// Copies into the arrays of tiles, of the wanted elements alone: of nested loops those passes are done that store one,
// many at a time. For interpreter_tiles.hpp alone.
#pragma once

#include <algorithm>
#include <vector>

#include "core/kernel/ir/interpreter_lanes.hpp"
#include "core/kernel/ir/interpreter_numbers.hpp"
#include "core/kernel/ir/tiled_kernel.hpp"
#include "core/kernel/ir/wanted_elements.hpp"

namespace crucible::kernel {

template <class Run>
class TileFills {
 public:
  TileFills(Run& run, const WantedElements& wanted) : run_(run), wanted_(wanted) {}

  void run(const TiledKernel::Leaf& leaf) {
    spans_.clear();
    for (const Stmt* step : leaf.path) {
      if (step->kind == StmtKind::kFor) {
        const std::int64_t begin = run_.integer(step->a), end = run_.integer(step->b);
        if (begin >= end) return;
        run_.variables_[step->id] = interpreter::Word::of(begin);
        const std::int64_t factor = leaf.factors[spans_.size()];
        spans_.push_back({.begin = begin, .end = end, .factor = factor});
      } else if (step->kind == StmtKind::kLet) {
        run_.variables_[step->id] = run_.eval(step->a);
      }
    }
    std::int64_t low = 0, high = 0;  // what the loops within add to an index
    for (std::size_t d = spans_.size(); d-- > 0;) {
      spans_[d].low = low;
      spans_[d].high = high;
      const std::int64_t far = spans_[d].factor * (spans_[d].end - spans_[d].begin - 1);
      low += std::min<std::int64_t>(far, 0);
      high += std::max<std::int64_t>(far, 0);
    }
    const std::int64_t index = run_.integer(leaf.store->a);
    if (!wanted_.any(leaf.store->id, index + low, index + high + 1)) return;
    run_.lanes_.start_leaf(*leaf.plan);
    present_.assign(spans_.size(), 0);
    find_passes(leaf, 0, index);
    run_.lanes_.flush_leaf(*leaf.plan);
  }

 private:
  /// All passes of the loops from `depth` on that store what is wanted.
  void find_passes(const TiledKernel::Leaf& leaf, std::size_t depth, std::int64_t index) {
    const Span& span = spans_[depth];
    const ArrayId array = leaf.store->id;
    const auto take = [&](std::int64_t pass) {
      present_[depth] = pass;
      run_.lanes_.add_leaf(*leaf.plan, present_);
    };
    const std::int64_t count = span.end - span.begin;
    const bool is_last = depth + 1 == spans_.size();
    if (is_last && span.factor == 1) {  // a short way to what lies side by side
      const auto& places = wanted_.places(array);
      for (auto at = std::ranges::lower_bound(places, index); at != places.end() && *at < index + count; ++at)
        take(span.begin + *at - index);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = index + i * span.factor;
      if (is_last) {
        if (wanted_.has(array, at)) take(span.begin + i);
      } else if (wanted_.any(array, at + span.low, at + span.high + 1)) {
        present_[depth] = span.begin + i;
        find_passes(leaf, depth + 1, at);
      }
    }
  }

  struct Span {
    std::int64_t begin = 0, end = 0, factor = 0, low = 0, high = 0;
  };
  Run& run_;
  const WantedElements& wanted_;
  std::vector<std::int64_t> present_;  // per loop: the variable
  std::vector<Span> spans_;
};

}  // namespace crucible::kernel
