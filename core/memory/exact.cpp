// Branch and bound in the order of offsets: the next block always lies at or above the last one, on top of what it
// meets. Every placement can be pushed down into one of this form. A node is cut when some section cannot hold what is
// left.
#include "core/memory/exact.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

namespace crucible::memory {
namespace {

constexpr std::uint32_t kPreorders = 3;

/// The most difficult blocks come first: three ways to judge. `total` is the highest load during the block's life.
std::array<std::uint64_t, 3> difficulty(const Part& part, std::uint32_t block, std::uint64_t total,
                                        std::uint32_t kind) {
  const std::uint64_t length = part.length[block], size = part.blocks[block].size;
  const std::uint64_t area = size > ~std::uint64_t{0} / length ? ~std::uint64_t{0} : size * length;
  if (kind == 0) return {length, area, total};
  if (kind == 1) return {total, area, length};
  return {total, length, area};
}

std::vector<std::uint32_t> preorder(const Part& part, std::uint32_t kind) {
  std::vector<std::uint32_t> order(part.blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return difficulty(part, a, part.max_load[a], kind) > difficulty(part, b, part.max_load[b], kind);
  });
  return order;
}

}  // namespace

/// Blocks are numbered by the preorder in use; everything is in flat arrays, changes are undone from a trail.
class ExactSearch::Tree {
 public:
  explicit Tree(const Part& part) : part_(part), count_(static_cast<std::uint32_t>(part.blocks.size())) {
    find_neighbours();
    for (std::uint32_t kind = 0; kind < kPreorders; ++kind) orders_[kind] = preorder(part, kind);
    can_split_ = part.ranges.empty() && part.apart.empty();
  }

  Search run(std::uint64_t capacity, std::uint64_t& nodes, Placed& placed) {
    capacity_ = capacity;
    std::uint64_t limit = 2 * std::uint64_t{count_};
    for (std::uint32_t round = 0; nodes > 0; ++round) {
      if (round > 0 && round % kPreorders == 0) limit *= 2;
      kind_ = round % kPreorders;
      start(orders_[kind_]);
      nodes_ = std::min(limit, nodes);
      const std::uint64_t granted = nodes_;
      Search search = Search::kExhausted;
      if (fits_at_start()) search = explore({0, count_, {0, part_.sections}}, Candidate{});
      nodes -= granted - nodes_;
      if (search == Search::kFound) report(placed);
      if (search != Search::kUnknown) return search;
    }
    return Search::kUnknown;
  }

 private:
  /// A block of the preorder in use.
  struct Item {
    std::uint64_t size = 0, alignment = 1, pinned = kUnpinned;
    std::uint32_t begin = 0, end = 0;  // sections, gaps included
    std::uint32_t block = 0;
    std::uint32_t twin = kNone;        // an equal item before it: which of the two comes first makes no difference
  };
  struct Change {
    enum What : std::uint32_t { kLeast, kFloor, kRank, kPlacement };
    What what = kLeast;
    std::uint32_t index = 0;
    std::uint64_t old = 0;
  };
  struct Candidate {
    std::uint64_t offset = 0, rank = 0;
    std::uint32_t item = 0;
  };

  /// Pair by pair: blocks are few, and most of a training step is alive over hundreds of sections.
  void find_neighbours() {
    neighbours_.resize(count_);
    Range own_life, other_life;
    for (std::uint32_t block = 0; block < count_; ++block) {
      const auto life = part_.life(block, own_life);
      for (std::uint32_t other = 0; other < block; ++other) {
        const bool is_apart = !part_.apart.empty() && std::ranges::binary_search(part_.apart[block], other);
        if (!is_apart && !share_a_section(life, part_.life(other, other_life))) continue;
        neighbours_[block].push_back(other);
        neighbours_[other].push_back(block);
      }
    }
    for (std::vector<std::uint32_t>& list : neighbours_) std::ranges::sort(list);
  }

  static bool share_a_section(std::span<const Range> a, std::span<const Range> b) {
    return std::ranges::any_of(a, [&](const Range& one) {
      return std::ranges::any_of(b, [&](const Range& other) { return one.begin < other.end && other.begin < one.end; });
    });
  }

  /// Nothing is placed, items are numbered by `order`.
  void start(const std::vector<std::uint32_t>& order) {
    std::vector<std::uint32_t> item_of(count_);
    for (std::uint32_t item = 0; item < count_; ++item) item_of[order[item]] = item;
    items_.assign(count_, Item{});
    meets_.first.assign(1, 0);
    meets_.items.clear();
    least_.assign(count_, 0);
    for (std::uint32_t item = 0; item < count_; ++item) {
      const std::uint32_t id = order[item];
      const Block& block = part_.blocks[id];
      items_[item] = {block.size,  part_.alignment.empty() ? 1 : part_.alignment[id],
                      part_.pinned.empty() ? kUnpinned : part_.pinned[id], block.begin, block.end, id, kNone};
      if (items_[item].pinned != kUnpinned) least_[item] = items_[item].pinned;
      for (const std::uint32_t other : neighbours_[id]) meets_.items.push_back(item_of[other]);
      std::sort(meets_.items.begin() + meets_.first.back(), meets_.items.end());
      meets_.first.push_back(static_cast<std::uint32_t>(meets_.items.size()));
    }
    find_twins();
    offsets_.assign(count_, 0);
    total_.assign(count_, 0);
    rank_.resize(count_);
    std::iota(rank_.begin(), rank_.end(), std::uint64_t{0});
    is_placed_.assign(count_, 0);
    start_sections(item_of);
    trail_.clear();
    candidates_.clear();
    stack_.resize(count_);
    std::iota(stack_.begin(), stack_.end(), 0u);
  }

  void find_twins() {
    if (!can_split_) return;  // with gaps or pairs, equal sections do not make equal items
    std::vector<std::uint32_t> order(count_);
    std::iota(order.begin(), order.end(), 0u);
    const auto shape = [&](std::uint32_t item) {
      const Item& it = items_[item];
      return std::make_tuple(it.begin, it.end, it.size, it.alignment, it.pinned);
    };
    std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return shape(a) < shape(b); });
    for (std::uint32_t i = 1; i < count_; ++i) {
      const bool is_pinned = items_[order[i]].pinned != kUnpinned;
      if (!is_pinned && shape(order[i]) == shape(order[i - 1])) items_[order[i]].twin = order[i - 1];
    }
  }

  void start_sections(const std::vector<std::uint32_t>& item_of) {
    floor_.assign(part_.sections, 0);
    left_ = part_.load;
    watch_.resize(part_.sections);
    crossing_.assign(part_.sections, 0);
    for (const Item& item : items_) {
      for (std::uint32_t section = item.begin + 1; section < item.end; ++section) ++crossing_[section];
    }
    std::vector<std::vector<std::uint32_t>> alive(part_.sections);
    Range own;
    for (std::uint32_t block = 0; block < count_; ++block) {
      for (const Range& range : part_.life(block, own)) {
        for (std::uint32_t section = range.begin; section < range.end; ++section)
          alive[section].push_back(item_of[block]);
      }
    }
    alive_.first.assign(1, 0);
    alive_.items.clear();
    for (const std::vector<std::uint32_t>& list : alive) {
      watch_[alive_.first.size() - 1] = list.front();
      alive_.items.insert(alive_.items.end(), list.begin(), list.end());
      alive_.first.push_back(static_cast<std::uint32_t>(alive_.items.size()));
    }
  }

  bool fits_at_start() const {
    for (std::uint32_t section = 0; section < part_.sections; ++section) {
      if (left_[section] > capacity_) return false;
    }
    for (std::uint32_t item = 0; item < count_; ++item) {
      if (items_[item].size > capacity_ || least_[item] > capacity_ - items_[item].size) return false;
    }
    return true;
  }

  /// The items stack_[from, to), which live within `within`; those that are placed are passed over.
  struct List {
    std::size_t from = 0, to = 0;
    Range within;
  };

  /// Places what is left of the list, at `last` or later. Undoes its changes unless it succeeds.
  Search explore(const List& list, const Candidate& last) {
    if (nodes_ == 0) return Search::kUnknown;
    --nodes_;
    const std::size_t bottom = stack_.size();
    // What is left of a section has to fit above the next item's offset, or below it something would have fitted.
    std::uint64_t offsets_end = kUnpinned;
    for (std::uint32_t section = list.within.begin; section < list.within.end; ++section) {
      if (left_[section] > 0) offsets_end = std::min(offsets_end, capacity_ - left_[section] + 1);
    }
    bool is_dead = false;
    for (std::size_t i = list.from; i < list.to; ++i) {
      const std::uint32_t item = stack_[i];
      if (is_placed_[item]) continue;
      stack_.push_back(item);
      offsets_end = std::min(offsets_end, least_[item] + items_[item].size);
      // It lies at or above the last one, or it never will.
      is_dead = is_dead || std::max(least_[item], last.offset) > capacity_ - items_[item].size ||
                (items_[item].pinned != kUnpinned && last.offset > items_[item].pinned);
    }
    Search search = Search::kExhausted;
    if (stack_.size() == bottom) {
      search = Search::kFound;
    } else if (!is_dead) {
      search = branch({bottom, stack_.size(), list.within}, last, offsets_end);
    }
    stack_.resize(bottom);
    return search;
  }

  /// Tries each item that may come next, below `offsets_end`.
  Search branch(const List& list, const Candidate& last, std::uint64_t offsets_end) {
    const std::size_t first = candidates_.size();
    for (std::size_t i = list.from; i < list.to; ++i) {
      const std::uint32_t item = stack_[i], twin = items_[item].twin;
      const std::uint64_t offset = least_[item];
      if (offset < last.offset || (offset == last.offset && rank_[item] < last.rank) || offset >= offsets_end) continue;
      if (twin == kNone || is_placed_[twin]) candidates_.push_back({offset, rank_[item], item});
    }
    const auto earlier = [](const Candidate& a, const Candidate& b) {
      return a.offset != b.offset ? a.offset < b.offset : a.rank < b.rank;
    };
    std::sort(candidates_.begin() + static_cast<std::ptrdiff_t>(first), candidates_.end(), earlier);
    const std::size_t end = candidates_.size();
    Search search = Search::kExhausted;
    for (std::size_t i = first; i < end && search == Search::kExhausted; ++i) {
      const Candidate candidate = candidates_[i];
      const std::size_t mark = trail_.size();
      bool splits = false;
      if (place(candidate, splits)) {
        search = splits && can_split_ ? explore_pieces(list) : explore(list, candidate);
      }
      if (search != Search::kFound) take_back(mark);
    }
    candidates_.resize(first);
    return search;
  }

  /// Where no unplaced item crosses, the two sides are searched one after the other, each from its own ground: if one
  /// fails, the node fails.
  Search explore_pieces(const List& list) {
    const std::size_t bottom = stack_.size();
    Search search = Search::kFound;
    for (std::uint32_t begin = list.within.begin; begin < list.within.end && search == Search::kFound;) {
      std::uint32_t end = begin + 1;
      while (end < list.within.end && crossing_[end] > 0) ++end;
      for (std::size_t i = list.from; i < list.to; ++i) {
        const std::uint32_t item = stack_[i];
        if (!is_placed_[item] && begin <= items_[item].begin && items_[item].end <= end) stack_.push_back(item);
      }
      if (stack_.size() > bottom) {
        rank_anew(bottom);
        search = explore({bottom, stack_.size(), {begin, end}}, Candidate{});
      }
      stack_.resize(bottom);
      begin = end;
    }
    return search;
  }

  /// Ranks the items from `bottom` on by what is left of the load now.
  void rank_anew(std::size_t bottom) {
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(bottom);
    for (auto at = begin; at != stack_.end(); ++at) {
      total_[*at] = 0;
      for_sections(*at, [&](std::uint32_t section) { total_[*at] = std::max(total_[*at], left_[section]); });
    }
    std::sort(begin, stack_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto key_a = difficulty(part_, items_[a].block, total_[a], kind_);
      const auto key_b = difficulty(part_, items_[b].block, total_[b], kind_);
      return key_a != key_b ? key_a > key_b : a < b;
    });
    std::uint64_t rank = 0;
    for (auto at = begin; at != stack_.end(); ++at) {
      trail_.push_back({Change::kRank, *at, rank_[*at]});
      rank_[*at] = rank++;
    }
  }

  /// Puts the item there; false when something can no longer be placed. `splits`: nothing crosses somewhere any more.
  bool place(const Candidate& candidate, bool& splits) {
    const Item& item = items_[candidate.item];
    const std::uint64_t top = candidate.offset + item.size;
    trail_.push_back({Change::kPlacement, candidate.item, 0});
    is_placed_[candidate.item] = 1;
    offsets_[candidate.item] = candidate.offset;
    bool fits = true;
    for_sections(candidate.item, [&](std::uint32_t section) {
      left_[section] -= item.size;
      fits = fits && left_[section] <= capacity_ - top;
      raise_floor(section, top);
    });
    for (std::uint32_t section = item.begin + 1; section < item.end; ++section) splits |= --crossing_[section] == 0;
    if (!fits) return false;
    Range touched{kNone, 0};
    for (const std::uint32_t other : meets_[candidate.item]) {
      if (is_placed_[other] || least_[other] >= top) continue;
      if (items_[other].pinned != kUnpinned) return false;
      trail_.push_back({Change::kLeast, other, least_[other]});
      const std::uint64_t alignment = items_[other].alignment;
      least_[other] = alignment == 1 || top % alignment == 0 ? top : top + (alignment - top % alignment);
      touched = {std::min(touched.begin, items_[other].begin), std::max(touched.end, items_[other].end)};
    }
    return raise_to_least(touched);
  }

  /// The floor of a section is at least the lowest offset that an unplaced item of it can have. `watch_` remembers an
  /// item that keeps the floor down: while it does, there is nothing to do. False when a section cannot hold what is
  /// left.
  bool raise_to_least(const Range& sections) {
    const auto keeps_down = [&](std::uint32_t item, std::uint32_t section) {
      return !is_placed_[item] && least_[item] <= floor_[section];
    };
    for (std::uint32_t section = sections.begin; section < sections.end; ++section) {
      if (left_[section] == 0 || keeps_down(watch_[section], section)) continue;
      std::uint64_t lowest = kUnpinned;
      for (const std::uint32_t item : alive_[section]) {
        if (is_placed_[item] || least_[item] >= lowest) continue;
        lowest = least_[item];
        watch_[section] = item;
        if (lowest <= floor_[section]) break;
      }
      raise_floor(section, lowest);
      if (floor_[section] > capacity_ || left_[section] > capacity_ - floor_[section]) return false;
    }
    return true;
  }

  void raise_floor(std::uint32_t section, std::uint64_t floor) {
    if (floor_[section] >= floor) return;
    trail_.push_back({Change::kFloor, section, floor_[section]});
    floor_[section] = floor;
  }

  void take_back(std::size_t mark) {
    for (; trail_.size() > mark; trail_.pop_back()) {
      const Change& change = trail_.back();
      if (change.what == Change::kLeast) {
        least_[change.index] = change.old;
      } else if (change.what == Change::kFloor) {
        floor_[change.index] = change.old;
      } else if (change.what == Change::kRank) {
        rank_[change.index] = change.old;
      } else {
        const Item& item = items_[change.index];
        is_placed_[change.index] = 0;
        for_sections(change.index, [&](std::uint32_t section) { left_[section] += item.size; });
        for (std::uint32_t section = item.begin + 1; section < item.end; ++section) ++crossing_[section];
      }
    }
  }

  template <class F>
  void for_sections(std::uint32_t item, F&& visit) {
    Range own;
    for (const Range& range : part_.life(items_[item].block, own)) {
      for (std::uint32_t section = range.begin; section < range.end; ++section) visit(section);
    }
  }

  void report(Placed& placed) const {
    placed.offsets.resize(count_);
    placed.peak = 0;
    for (std::uint32_t item = 0; item < count_; ++item) {
      placed.offsets[items_[item].block] = offsets_[item];
      placed.peak = std::max(placed.peak, offsets_[item] + items_[item].size);
    }
  }

  const Part& part_;
  std::uint32_t count_ = 0;
  bool can_split_ = false;
  std::vector<std::vector<std::uint32_t>> neighbours_;  // per block
  std::array<std::vector<std::uint32_t>, kPreorders> orders_;
  std::uint32_t kind_ = 0;
  std::uint64_t capacity_ = 0, nodes_ = 0;
  std::vector<Item> items_;
  Lists<std::uint32_t> meets_;            // per item: those that it must not share a unit with
  Lists<std::uint32_t> alive_;            // per section: items
  std::vector<std::uint64_t> least_;      // per item: on top of all placed ones that it meets
  std::vector<std::uint64_t> offsets_;    // per item, if placed
  std::vector<std::uint64_t> rank_;       // per item: of two that could come next at one offset, the lower one does
  std::vector<std::uint64_t> total_;      // per item: for rank_anew
  std::vector<std::uint32_t> watch_;      // per section: an item that is alive in it
  std::vector<std::uint8_t> is_placed_;   // per item
  std::vector<std::uint64_t> floor_;      // per section: nothing more can be placed below
  std::vector<std::uint64_t> left_;       // per section: units of unplaced items
  std::vector<std::uint32_t> crossing_;   // per section: unplaced items alive in it and in the one before
  std::vector<Change> trail_;
  std::vector<std::uint32_t> stack_;      // the lists of the nodes on the way from the root
  std::vector<Candidate> candidates_;     // the same
};

ExactSearch::ExactSearch(const Part& part) : tree_(std::make_unique<Tree>(part)) {}
ExactSearch::~ExactSearch() = default;

Search ExactSearch::run(std::uint64_t capacity, std::uint64_t& nodes, Placed& placed) {
  return tree_->run(capacity, nodes, placed);
}

}  // namespace crucible::memory
