// The skyline pass: segments of equal height over the sections, a heap that finds the lowest one, and a tree that finds
// the best-ranked block that fits into its time span. About half a microsecond per block.
#include "core/memory/skyline.hpp"

#include <algorithm>
#include <numeric>

namespace crucible::memory {
namespace {

/// Of the unplaced blocks below a node of the tree.
struct Node {
  std::uint32_t best_rank = kNone;
  std::uint32_t earliest_end = kNone;
};

/// The unplaced blocks, sorted by begin; finds the best-ranked one inside a time span.
class FitTree {
 public:
  explicit FitTree(const Part& part) : first_at_(part.sections + 1, 0), position_of_(part.blocks.size()) {
    while (leaves_ < part.blocks.size()) leaves_ *= 2;
    unranked_.resize(2 * leaves_);
    for (const Block& block : part.blocks) ++first_at_[block.begin + 1];
    std::partial_sum(first_at_.begin(), first_at_.end(), first_at_.begin());
    std::vector<std::uint32_t> next(first_at_.begin(), first_at_.end() - 1);
    for (std::uint32_t block = 0; block < part.blocks.size(); ++block) {
      position_of_[block] = next[part.blocks[block].begin]++;
      unranked_[leaves_ + position_of_[block]].earliest_end = part.blocks[block].end;
    }
    for (std::uint32_t node = leaves_ - 1; node > 0; --node) pull(unranked_, node);
  }

  /// All blocks are unplaced again, ranked as in `order`.
  void reset(std::span<const std::uint32_t> order) {
    order_ = order;
    nodes_ = unranked_;
    for (std::uint32_t rank = 0; rank < order.size(); ++rank) nodes_[leaves_ + position_of_[order[rank]]].best_rank = rank;
    for (std::uint32_t node = leaves_ - 1; node > 0; --node) {
      nodes_[node].best_rank = std::min(nodes_[2 * node].best_rank, nodes_[2 * node + 1].best_rank);
    }
  }

  /// The best-ranked block with begin <= block.begin and block.end <= end, or kNone.
  std::uint32_t best_within(std::uint32_t begin, std::uint32_t end) const {
    std::uint32_t best = kNone;
    search(1, 0, leaves_, first_at_[begin], first_at_[end], end, best);
    return best == kNone ? kNone : order_[best];
  }

  void remove(std::uint32_t block) {
    std::uint32_t node = leaves_ + position_of_[block];
    nodes_[node] = Node{};
    while ((node /= 2) > 0) pull(nodes_, node);
  }

 private:
  static void pull(std::vector<Node>& nodes, std::uint32_t node) {
    const Node &left = nodes[2 * node], &right = nodes[2 * node + 1];
    nodes[node] = {std::min(left.best_rank, right.best_rank), std::min(left.earliest_end, right.earliest_end)};
  }

  void search(std::uint32_t node, std::uint32_t low, std::uint32_t high, std::uint32_t from, std::uint32_t to,
              std::uint32_t end, std::uint32_t& best) const {
    if (high <= from || to <= low || nodes_[node].best_rank >= best || nodes_[node].earliest_end > end) return;
    if (node >= leaves_) {
      best = nodes_[node].best_rank;
      return;
    }
    const std::uint32_t middle = low + (high - low) / 2;
    // The half with the better rank first: it usually settles the search.
    if (nodes_[2 * node].best_rank < nodes_[2 * node + 1].best_rank) {
      search(2 * node, low, middle, from, to, end, best);
      search(2 * node + 1, middle, high, from, to, end, best);
    } else {
      search(2 * node + 1, middle, high, from, to, end, best);
      search(2 * node, low, middle, from, to, end, best);
    }
  }

  std::span<const std::uint32_t> order_;
  std::vector<std::uint32_t> first_at_;     // per section: first position whose block begins there or later
  std::vector<std::uint32_t> position_of_;  // per block
  std::uint32_t leaves_ = 1;
  std::vector<Node> unranked_;  // as before a pass, without ranks
  std::vector<Node> nodes_;
};

/// Segments of equal height. A segment is named by its first section.
class Line {
 public:
  void reset(std::uint32_t sections) {
    sections_ = sections;
    segments_.assign(sections, Segment{});
    heap_.clear();
    segments_[0] = {.height = 0, .end = sections, .previous = kNone};
    push(0);
  }

  struct Segment {
    std::uint64_t height = kGone;
    std::uint32_t end = 0;
    std::uint32_t previous = kNone;
  };

  /// The lowest segment; of equal ones the earliest.
  std::uint32_t lowest() {
    while (segments_[heap_.front().begin].height != heap_.front().height) pop();
    return heap_.front().begin;
  }

  const Segment& operator[](std::uint32_t segment) const { return segments_[segment]; }

  /// Lifts the segment to its lower neighbour and joins the two.
  void raise(std::uint32_t id) {
    const Segment& segment = segments_[id];
    std::uint64_t height = kGone;
    if (segment.previous != kNone) height = segments_[segment.previous].height;
    if (segment.end < sections_) height = std::min(height, segments_[segment.end].height);
    pop();
    settle(id, height);
  }

  /// Lifts [begin, end), which lies inside the segment, to `height`.
  void place(std::uint32_t id, std::uint32_t begin, std::uint32_t end, std::uint64_t height) {
    const std::uint32_t old_end = segments_[id].end;
    const std::uint64_t old_height = segments_[id].height;
    if (end < old_end) {
      segments_[end] = {old_height, old_end, begin};
      if (old_end < sections_) segments_[old_end].previous = end;
    }
    if (begin > id) {
      segments_[id].end = begin;  // stays on the heap
      segments_[begin] = {old_height, end, id};
    } else {
      segments_[id].end = end;
      pop();
    }
    if (end < old_end) push(end);
    if (end == old_end && old_end < sections_) segments_[old_end].previous = begin;
    settle(begin, height);
  }

 private:
  static constexpr std::uint64_t kGone = std::numeric_limits<std::uint64_t>::max();
  struct Entry {
    std::uint64_t height = 0;
    std::uint32_t begin = 0;
    bool operator<(const Entry& other) const {  // the heap's top is the largest
      return height != other.height ? height > other.height : begin > other.begin;
    }
  };

  void push(std::uint32_t id) {
    heap_.push_back({segments_[id].height, id});
    std::ranges::push_heap(heap_, std::less<>());
  }
  void pop() {
    std::ranges::pop_heap(heap_, std::less<>());
    heap_.pop_back();
  }

  /// Gives the segment a new height and joins it with neighbours of the same height.
  void settle(std::uint32_t id, std::uint64_t height) {
    segments_[id].height = height;
    while (segments_[id].end < sections_ && segments_[segments_[id].end].height == height) {
      Segment& gone = segments_[segments_[id].end];
      segments_[id].end = gone.end;
      gone.height = kGone;
    }
    bool is_on_heap = false;
    while (segments_[id].previous != kNone && segments_[segments_[id].previous].height == height) {
      const std::uint32_t previous = segments_[id].previous;
      segments_[previous].end = segments_[id].end;
      segments_[id].height = kGone;
      id = previous;
      is_on_heap = true;
    }
    if (segments_[id].end < sections_) segments_[segments_[id].end].previous = id;
    if (!is_on_heap) push(id);
  }

  std::uint32_t sections_ = 0;
  std::vector<Segment> segments_;  // per section: the segment that begins there; height kGone: none does
  std::vector<Entry> heap_;        // an entry whose height is not the segment's is stale
};

}  // namespace

class Skyline::State {
 public:
  explicit State(const Part& part) : part(part), unplaced(part) {}
  const Part& part;
  FitTree unplaced;
  Line line;
};

Skyline::Skyline(const Part& part) : state_(std::make_unique<State>(part)) {}
Skyline::~Skyline() = default;

void Skyline::pass(std::span<const std::uint32_t> order, std::uint64_t limit, Placed& placed) {
  const Part& part = state_->part;
  Line& line = state_->line;
  placed.offsets.resize(part.blocks.size());
  placed.peak = 0;
  state_->unplaced.reset(order);
  line.reset(part.sections);
  for (std::size_t count = 0; count < part.blocks.size() && placed.peak <= limit;) {
    const std::uint32_t valley = line.lowest();
    const std::uint32_t id = state_->unplaced.best_within(valley, line[valley].end);
    if (id == kNone) {
      line.raise(valley);
      continue;
    }
    state_->unplaced.remove(id);
    const Block& block = part.blocks[id];
    placed.offsets[id] = part.aligned(id, line[valley].height);
    const std::uint64_t top = placed.offsets[id] + block.size;
    placed.peak = std::max(placed.peak, top);
    line.place(valley, block.begin, block.end, top);
    ++count;
  }
}

}  // namespace crucible::memory
