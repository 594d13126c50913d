// The skyline pass: segments of equal height over the sections, a heap that finds the lowest one, and trees that find
// the best-ranked block that fits into its time span. About a microsecond per block.
#include "core/memory/skyline.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace crucible::memory {
namespace {

/// A block in a tree.
struct Entry {
  std::uint32_t rank = kNone;  // kNone: it is placed
  std::uint32_t end = 0;
};

/// Of the unplaced blocks below a node of a tree.
struct Node {
  std::uint32_t best_rank = kNone;
  std::uint32_t earliest_end = kNone;
  std::uint32_t latest_end = 0;
};

/// The unplaced blocks among some, sorted by begin, in buckets; a tree over the buckets. Finds the best-ranked block
/// inside a time span.
class FitTree {
 public:
  /// `entries`: of blocks that are alive for `shortest` sections or more; those that begin at section s are first_at[s]
  /// to first_at[s + 1] - 1.
  FitTree(std::uint32_t shortest, std::vector<std::uint32_t> first_at, std::span<Entry> entries)
      : shortest_(shortest), first_at_(std::move(first_at)), entries_(entries) {
    while (leaves_ * kBucket < entries.size()) leaves_ *= 2;
    nodes_.resize(2 * leaves_);
  }

  /// After the ranks of all entries have been set.
  void reset() {
    for (std::uint32_t bucket = 0; bucket < leaves_; ++bucket) nodes_[leaves_ + bucket] = of_bucket(bucket);
    for (std::uint32_t node = leaves_ - 1; node > 0; --node) nodes_[node] = joined(node);
  }

  /// The lower one of `best` and the best rank of a block with begin <= block.begin and block.end <= end.
  std::uint32_t best_within(std::uint32_t begin, std::uint32_t end, std::uint32_t best) const {
    if (end - begin < shortest_ || nodes_[1].best_rank >= best) return best;
    const std::uint32_t from = first_at_[begin], to = first_at_[end - shortest_ + 1];
    const std::uint32_t first = (from + kBucket - 1) / kBucket,
                        last = to / kBucket;                      // buckets that lie between the two
    if (first > last) return part_of(last, from, to, end, best);  // both are in one bucket
    if (from < first * kBucket) best = part_of(first - 1, from, first * kBucket, end, best);
    if (last * kBucket < to) best = part_of(last, last * kBucket, to, end, best);
    if (first == last) return best;
    const int levels = std::bit_width(first ^ (last - 1));  // up to the lowest node that is above all of them
    search((leaves_ + first) >> levels, first >> levels << levels, 1u << levels, {first, last}, end, best);
    return best;
  }

  void remove(std::uint32_t position) {
    entries_[position].rank = kNone;
    std::uint32_t node = leaves_ + position / kBucket;
    nodes_[node] = of_bucket(position / kBucket);
    while ((node /= 2) > 0) nodes_[node] = joined(node);
  }

 private:
  static constexpr std::uint32_t kBucket = 8;

  std::uint32_t bucket_end(std::uint32_t bucket) const {
    return std::min((bucket + 1) * kBucket, static_cast<std::uint32_t>(entries_.size()));
  }

  Node of_bucket(std::uint32_t bucket) const {
    Node node;
    for (std::uint32_t i = bucket * kBucket; i < bucket_end(bucket); ++i) {
      const Entry& entry = entries_[i];
      const bool is_placed = entry.rank == kNone;
      node.best_rank = std::min(node.best_rank, entry.rank);
      node.earliest_end = std::min(node.earliest_end, is_placed ? kNone : entry.end);
      node.latest_end = std::max(node.latest_end, is_placed ? 0 : entry.end);
    }
    return node;
  }

  Node joined(std::uint32_t node) const {
    const Node &left = nodes_[2 * node], &right = nodes_[2 * node + 1];
    return {std::min(left.best_rank, right.best_rank), std::min(left.earliest_end, right.earliest_end),
            std::max(left.latest_end, right.latest_end)};
  }

  std::uint32_t part_of(std::uint32_t bucket, std::uint32_t from, std::uint32_t to, std::uint32_t end,
                        std::uint32_t best) const {
    const Node& node = nodes_[leaves_ + bucket];
    return node.best_rank >= best || node.earliest_end > end ? best : scan(from, to, end, best);
  }

  /// Without branches: which entries fit cannot be guessed.
  std::uint32_t scan(std::uint32_t from, std::uint32_t to, std::uint32_t end, std::uint32_t best) const {
    for (std::uint32_t i = from; i < to; ++i) best = std::min(best, entries_[i].end <= end ? entries_[i].rank : kNone);
    return best;
  }

  /// The node is above `count` buckets from `low` on; those in `wanted` are searched.
  void search(std::uint32_t node, std::uint32_t low, std::uint32_t count, Range wanted, std::uint32_t end,
              std::uint32_t& best) const {
    if (low + count <= wanted.begin || wanted.end <= low) return;
    const Node& below = nodes_[node];
    if (below.best_rank >= best || below.earliest_end > end) return;
    if (below.latest_end <= end && wanted.begin <= low && low + count <= wanted.end) {
      best = below.best_rank;
    } else if (node >= leaves_) {
      best = scan(low * kBucket, bucket_end(low), end, best);
    } else {
      // The half with the better rank first: it usually settles the search.
      const std::uint32_t half = count / 2;
      const bool left_first = nodes_[2 * node].best_rank < nodes_[2 * node + 1].best_rank;
      if (left_first) search(2 * node, low, half, wanted, end, best);
      search(2 * node + 1, low + half, half, wanted, end, best);
      if (!left_first) search(2 * node, low, half, wanted, end, best);
    }
  }

  std::uint32_t shortest_ = 1;
  std::vector<std::uint32_t> first_at_;  // per section, and one more
  std::span<Entry> entries_;
  std::uint32_t leaves_ = 1;
  std::vector<Node> nodes_;
};

/// All unplaced blocks. Long and short ones are in different trees: together, well-ranked blocks that are too long for
/// a span would hide those that fit from the search.
class Unplaced {
 public:
  explicit Unplaced(const Part& part) : place_of_(part.blocks.size()), entries_(part.blocks.size()) {
    std::vector<std::uint32_t> members[kLengths];
    for (std::uint32_t block = 0; block < part.blocks.size(); ++block) {
      const std::uint32_t sections = part.blocks[block].end - part.blocks[block].begin;
      members[std::min<int>((std::bit_width(sections) - 1) / kLengthBits, kLengths - 1)].push_back(block);
    }
    std::uint32_t first = 0;
    for (int length = 0; length < kLengths; ++length) {
      if (members[length].empty()) continue;
      add_tree(part, 1u << (length * kLengthBits), members[length], first);
      first += static_cast<std::uint32_t>(members[length].size());
    }
  }

  /// All blocks are unplaced again, ranked as in `order`.
  void reset(std::span<const std::uint32_t> order) {
    order_ = order;
    for (std::uint32_t rank = 0; rank < order.size(); ++rank) {
      const Place& place = place_of_[order[rank]];
      entries_[first_of_[place.tree] + place.position].rank = rank;
    }
    for (FitTree& tree : trees_) tree.reset();
  }

  /// The best-ranked block with begin <= block.begin and block.end <= end, or kNone.
  std::uint32_t best_within(std::uint32_t begin, std::uint32_t end) const {
    std::uint32_t best = kNone;
    for (auto tree = trees_.rbegin(); tree != trees_.rend(); ++tree) best = tree->best_within(begin, end, best);
    return best == kNone ? kNone : order_[best];
  }

  void remove(std::uint32_t block) { trees_[place_of_[block].tree].remove(place_of_[block].position); }

 private:
  struct Place {
    std::uint32_t tree = 0, position = 0;
  };

  /// The entries of `blocks` are those from `first` on.
  void add_tree(const Part& part, std::uint32_t shortest, std::span<const std::uint32_t> blocks, std::uint32_t first) {
    std::vector<std::uint32_t> first_at(part.sections + 1, 0);
    for (const std::uint32_t block : blocks) ++first_at[part.blocks[block].begin + 1];
    std::partial_sum(first_at.begin(), first_at.end(), first_at.begin());
    std::vector<std::uint32_t> next(first_at.begin(), first_at.end() - 1);
    const std::span<Entry> entries = std::span<Entry>(entries_).subspan(first, blocks.size());
    for (const std::uint32_t block : blocks) {
      place_of_[block] = {static_cast<std::uint32_t>(trees_.size()), next[part.blocks[block].begin]++};
      entries[place_of_[block].position].end = part.blocks[block].end;
    }
    first_of_.push_back(first);
    trees_.emplace_back(shortest, std::move(first_at), entries);
  }

  static constexpr int kLengths = 4, kLengthBits = 4;  // alive for up to 15, 255 or 4095 sections, or longer

  std::span<const std::uint32_t> order_;
  std::vector<Place> place_of_;          // per block
  std::vector<Entry> entries_;           // by tree
  std::vector<std::uint32_t> first_of_;  // per tree: its first entry
  std::vector<FitTree> trees_;           // the shortest blocks first
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
  Unplaced unplaced;
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
