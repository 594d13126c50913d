// The skyline pass: a linked list of segments of equal height, a heap that finds the lowest one, and a tree that finds
// the best-ranked item that fits into its time span. About a microsecond per item.
#include "core/memory/skyline.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

namespace crucible::memory {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// The unplaced items, sorted by begin; finds the best-ranked one inside a time span.
class FitTree {
 public:
  FitTree(std::span<const SkylineItem> items, std::span<const std::uint32_t> order, std::uint32_t sections)
      : order_(order), first_at_(sections + 1, 0), position_of_(items.size()) {
    while (leaves_ < items.size()) leaves_ *= 2;
    best_rank_.assign(2 * leaves_, kNone);
    earliest_end_.assign(2 * leaves_, kNone);
    for (const SkylineItem& item : items) ++first_at_[item.begin + 1];
    std::partial_sum(first_at_.begin(), first_at_.end(), first_at_.begin());
    std::vector<std::uint32_t> next(first_at_.begin(), first_at_.end() - 1);
    for (std::uint32_t rank = 0; rank < order.size(); ++rank) {
      const std::uint32_t item = order[rank];
      const std::uint32_t position = next[items[item].begin]++;
      position_of_[item] = position;
      best_rank_[leaves_ + position] = rank;
      earliest_end_[leaves_ + position] = items[item].end;
    }
    for (std::uint32_t node = leaves_ - 1; node > 0; --node) pull(node);
  }

  /// The best-ranked item with begin <= item.begin and item.end <= end, or kNone.
  std::uint32_t best_within(std::uint32_t begin, std::uint32_t end) const {
    std::uint32_t best = kNone;
    search(1, 0, leaves_, first_at_[begin], first_at_[end], end, best);
    return best == kNone ? kNone : order_[best];
  }

  void remove(std::uint32_t item) {
    std::uint32_t node = leaves_ + position_of_[item];
    best_rank_[node] = earliest_end_[node] = kNone;
    while ((node /= 2) > 0) pull(node);
  }

 private:
  void pull(std::uint32_t node) {
    best_rank_[node] = std::min(best_rank_[2 * node], best_rank_[2 * node + 1]);
    earliest_end_[node] = std::min(earliest_end_[2 * node], earliest_end_[2 * node + 1]);
  }

  void search(std::uint32_t node, std::uint32_t low, std::uint32_t high, std::uint32_t from, std::uint32_t to,
              std::uint32_t end, std::uint32_t& best) const {
    if (high <= from || to <= low || best_rank_[node] >= best || earliest_end_[node] > end) return;
    if (node >= leaves_) {
      best = best_rank_[node];
      return;
    }
    const std::uint32_t middle = low + (high - low) / 2;
    // The half with the better rank first: it usually settles the search.
    if (best_rank_[2 * node] < best_rank_[2 * node + 1]) {
      search(2 * node, low, middle, from, to, end, best);
      search(2 * node + 1, middle, high, from, to, end, best);
    } else {
      search(2 * node + 1, middle, high, from, to, end, best);
      search(2 * node, low, middle, from, to, end, best);
    }
  }

  std::span<const std::uint32_t> order_;
  std::vector<std::uint32_t> first_at_;     // per section: first position whose item begins there or later
  std::vector<std::uint32_t> position_of_;  // per item
  std::uint32_t leaves_ = 1;
  std::vector<std::uint32_t> best_rank_;     // per node: of its unplaced items
  std::vector<std::uint32_t> earliest_end_;  // per node
};

struct Segment {
  std::uint32_t begin = 0, end = 0;  // sections
  std::uint64_t height = 0;
  std::uint32_t previous = kNone, next = kNone;
  std::uint32_t version = 0;  // a heap entry of another version is stale
};

class Skyline {
 public:
  explicit Skyline(std::uint32_t sections) { push(add({.begin = 0, .end = sections})); }

  /// The lowest segment; of equal ones the earliest.
  std::uint32_t lowest() {
    while (true) {
      const auto [height, begin, id, version] = heap_.top();
      if (segments_[id].version == version) return id;
      heap_.pop();
    }
  }

  const Segment& segment(std::uint32_t id) const { return segments_[id]; }

  /// Lifts the segment to its lower neighbour and joins the two.
  void raise(std::uint32_t id) {
    Segment& segment = segments_[id];
    std::uint64_t height = std::numeric_limits<std::uint64_t>::max();
    if (segment.previous != kNone) height = std::min(height, segments_[segment.previous].height);
    if (segment.next != kNone) height = std::min(height, segments_[segment.next].height);
    segment.height = height;
    settle(id);
  }

  /// Puts a block of `size` over [begin, end), which lies inside the segment.
  void place(std::uint32_t id, std::uint32_t begin, std::uint32_t end, std::uint64_t size) {
    if (segments_[id].begin < begin) split(id, begin, false);
    if (segments_[id].end > end) split(id, end, true);
    segments_[id].height += size;
    settle(id);
  }

 private:
  std::uint32_t add(Segment segment) {
    segments_.push_back(segment);
    return static_cast<std::uint32_t>(segments_.size() - 1);
  }

  void push(std::uint32_t id) {
    const Segment& segment = segments_[id];
    heap_.emplace(segment.height, segment.begin, id, segment.version);
  }

  /// Cuts off the part after (or before) `at` as a segment of its own at the same height.
  void split(std::uint32_t id, std::uint32_t at, bool after) {
    const std::uint32_t piece = add(segments_[id]);
    Segment& kept = segments_[id];
    Segment& cut = segments_[piece];
    cut.version = 0;
    if (after) {
      kept.end = cut.begin = at;
      cut.previous = id;
      kept.next = piece;
      if (cut.next != kNone) segments_[cut.next].previous = piece;
    } else {
      kept.begin = cut.end = at;
      cut.next = id;
      kept.previous = piece;
      if (cut.previous != kNone) segments_[cut.previous].next = piece;
    }
    push(piece);
  }

  /// Joins the segment with neighbours of the same height and puts it on the heap anew.
  void settle(std::uint32_t id) {
    Segment& segment = segments_[id];
    while (segment.next != kNone && segments_[segment.next].height == segment.height) {
      Segment& gone = segments_[segment.next];
      segment.end = gone.end;
      segment.next = gone.next;
      if (gone.next != kNone) segments_[gone.next].previous = id;
      ++gone.version;
    }
    while (segment.previous != kNone && segments_[segment.previous].height == segment.height) {
      Segment& gone = segments_[segment.previous];
      segment.begin = gone.begin;
      segment.previous = gone.previous;
      if (gone.previous != kNone) segments_[gone.previous].next = id;
      ++gone.version;
    }
    ++segment.version;
    push(id);
  }

  using Entry = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint32_t>;  // height, begin, id, version
  std::vector<Segment> segments_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

}  // namespace

SkylineResult skyline(std::span<const SkylineItem> items, std::span<const std::uint32_t> order,
                      std::uint32_t sections) {
  SkylineResult result;
  result.offsets.assign(items.size(), 0);
  if (items.empty()) return result;
  FitTree unplaced(items, order, sections);
  Skyline line(sections);
  for (std::size_t placed = 0; placed < items.size();) {
    const std::uint32_t valley = line.lowest();
    const std::uint32_t item = unplaced.best_within(line.segment(valley).begin, line.segment(valley).end);
    if (item == kNone) {
      line.raise(valley);
      continue;
    }
    unplaced.remove(item);
    result.offsets[item] = line.segment(valley).height;
    result.peak = std::max(result.peak, result.offsets[item] + items[item].size);
    line.place(valley, items[item].begin, items[item].end, items[item].size);
    ++placed;
  }
  return result;
}

}  // namespace crucible::memory
