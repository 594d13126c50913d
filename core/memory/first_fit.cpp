// First fit by a segment tree over the sections. A life is covered by at most two nodes a level; what a life meets lies
// in the lists of those nodes (anything below them) and in the lists above them (what covers them whole).
#include "core/memory/first_fit.hpp"

#include <algorithm>

namespace crucible::memory {
namespace {

/// Adds [low, high), joining what it touches or overlaps.
void add(Intervals& list, std::uint64_t low, std::uint64_t high) {
  const auto from = std::ranges::lower_bound(list, low, {}, &Intervals::value_type::second);
  auto to = from;
  while (to != list.end() && to->first <= high) {
    low = std::min(low, to->first);
    high = std::max(high, to->second);
    ++to;
  }
  if (from == to) {
    list.insert(from, {low, high});
  } else {
    *from = {low, high};
    list.erase(from + 1, to);
  }
}

}  // namespace

FirstFit::FirstFit(const Part& part, Gap gap) : part_(part), gap_(gap) {
  while (leaves_ < part.sections) leaves_ *= 2;
  touching_.resize(2 * std::size_t{leaves_});
  covering_.resize(2 * std::size_t{leaves_});
}

void FirstFit::insert(const Range& range, std::uint64_t low, std::uint64_t high) {
  const std::uint32_t first = range.begin + leaves_, last = range.end - 1 + leaves_;
  for (std::uint32_t left = first, right = last + 1; left < right; left /= 2, right /= 2) {
    if (left % 2 == 1) add(covering_[left], low, high), add(touching_[left], low, high), ++left;
    if (right % 2 == 1) --right, add(covering_[right], low, high), add(touching_[right], low, high);
  }
  // Every node above a covered one, once. Nodes between the two paths are covered or below covered ones.
  for (std::uint32_t left = first / 2, right = last / 2; left > 0; left /= 2, right /= 2) {
    add(touching_[left], low, high);
    if (right != left) add(touching_[right], low, high);
  }
}

/// The lists that hold everything alive during the range.
void FirstFit::gather(const Range& range) {
  const auto take = [&](const Intervals& list) {
    if (!list.empty()) walks_.push_back({&list, 0});
  };
  const std::uint32_t first = range.begin + leaves_, last = range.end - 1 + leaves_;
  for (std::uint32_t left = first, right = last + 1; left < right; left /= 2, right /= 2) {
    if (left % 2 == 1) take(touching_[left++]);
    if (right % 2 == 1) take(touching_[--right]);
  }
  // A covered node's ancestors may cover it too; a node inside the range has all it needs in its own list.
  for (std::uint32_t left = first / 2, right = last / 2; left > 0; left /= 2, right /= 2) {
    take(covering_[left]);
    if (right != left) take(covering_[right]);
  }
}

std::uint64_t FirstFit::find(std::uint32_t block, const Placed& placed) {
  walks_.clear();
  Range own;
  for (const Range& range : part_.life(block, own)) gather(range);
  std::uint64_t offset = lowest_free(block, placed, 0);
  if (gap_ == Gap::kLowest) return offset;
  std::uint64_t best = offset, smallest = kUnpinned;
  while (true) {
    const std::uint64_t end = gap_end(block, placed, offset);
    if (end == kUnpinned) return smallest == kUnpinned ? offset : best;  // open above: only where nothing else does
    if (end - offset < smallest) best = offset, smallest = end - offset;
    offset = lowest_free(block, placed, part_.aligned(block, end));
  }
}

/// Where the gap that begins at `offset`, as lowest_free() returned it, ends; kUnpinned when nothing is above.
std::uint64_t FirstFit::gap_end(std::uint32_t block, const Placed& placed, std::uint64_t offset) const {
  std::uint64_t end = kUnpinned;
  for (const Walk& walk : walks_) {
    if (walk.at < walk.list->size()) end = std::min(end, (*walk.list)[walk.at].first);
  }
  if (part_.apart.empty()) return end;
  for (const std::uint32_t other : part_.apart[block]) {
    if (is_placed_[other] && placed.offsets[other] >= offset) end = std::min(end, placed.offsets[other]);
  }
  return end;
}

/// The lowest free offset at or above `offset`; walks_ are moved along.
std::uint64_t FirstFit::lowest_free(std::uint32_t block, const Placed& placed, std::uint64_t offset) {
  const std::uint64_t size = part_.blocks[block].size;
  for (bool moved = true; moved;) {
    moved = false;
    for (Walk& walk : walks_) {
      const Intervals& list = *walk.list;
      while (walk.at < list.size() && list[walk.at].first < offset + size) {
        if (list[walk.at].second > offset) offset = part_.aligned(block, list[walk.at].second), moved = true;
        ++walk.at;
      }
    }
    if (part_.apart.empty()) continue;
    for (const std::uint32_t other : part_.apart[block]) {
      const std::uint64_t top = placed.offsets[other] + part_.blocks[other].size;
      if (!is_placed_[other] || placed.offsets[other] >= offset + size || top <= offset) continue;
      offset = part_.aligned(block, top);
      moved = true;
    }
  }
  return offset;
}

void FirstFit::put(std::uint32_t block, std::uint64_t offset, Placed& placed) {
  const std::uint64_t top = offset + part_.blocks[block].size;
  placed.offsets[block] = offset;
  placed.peak = std::max(placed.peak, top);
  is_placed_[block] = true;
  Range own;
  for (const Range& range : part_.life(block, own)) insert(range, offset, top);
}

void FirstFit::pass(std::span<const std::uint32_t> order, std::uint64_t limit, Placed& placed) {
  for (Intervals& list : touching_) list.clear();
  for (Intervals& list : covering_) list.clear();
  is_placed_.assign(part_.blocks.size(), false);
  placed.offsets.assign(part_.blocks.size(), 0);
  placed.peak = 0;
  if (!part_.pinned.empty()) {
    for (std::uint32_t block = 0; block < part_.blocks.size(); ++block) {
      if (part_.pinned[block] != kUnpinned) put(block, part_.pinned[block], placed);
    }
  }
  for (const std::uint32_t block : order) {
    if (placed.peak > limit) return;
    if (!is_placed_[block]) put(block, find(block, placed), placed);
  }
}

}  // namespace crucible::memory
