// Who made what is read, how many iterations ago; then the chain is tried by going through all iterations.
#include "frontends/aten/recording/chains.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

namespace crucible::aten {
namespace {

using trace::StorageId;

constexpr std::size_t kLongest = 64;  // cells, each of which is copied in each iteration

/// An iteration that wrote a storage, and the part that this plays in it.
struct Writing {
  std::uint32_t turn = 0;
  StorageRole role;
};

/// Reads that one chain serves.
struct Links {
  std::vector<std::size_t> reads;
  std::map<std::uint32_t, StorageId> left;  // by group: what it hands on
};

class ChainMaker {
 public:
  ChainMaker(const RecordedHistory& history, const std::vector<LoweredGroup>& groups)
      : history_(history), groups_(groups) {
    for (std::uint32_t k = 0; k < history.turns().size(); ++k) {
      for (const StorageTouch& touch : history.touches(k)) {
        if (touch.is_written) writings_[touch.own].push_back({k, {history.turns()[k].group, touch.role}});
      }
    }
  }

  std::optional<std::vector<Cell>> make(const std::vector<std::size_t>& reads) const {
    std::vector<Links> all;
    for (const std::size_t index : reads) {
      if (!add(index, all)) return std::nullopt;
    }
    std::vector<Cell> cells;
    for (std::size_t chain = 0; chain < all.size(); ++chain) {
      auto made = cells_of(all[chain], chain);
      if (!made || !holds(*made)) return std::nullopt;
      std::ranges::move(*made, std::back_inserter(cells));
    }
    return cells;
  }

 private:
  const Writing* writing_before(const OutsideUse& use) const {
    const auto found = writings_.find(use.own);
    if (found == writings_.end()) return nullptr;
    const Writing* last = nullptr;
    for (const Writing& writing : found->second) {
      if (writing.turn < use.turn) last = &writing;
    }
    return last;
  }

  /// The bytes that the recording has of what is read, where no iteration before made it.
  trace::BlobId given(const OutsideUse& use) const {
    if (use.given != trace::kNone) return use.given;
    return writing_before(use) == nullptr ? use.known : trace::kNone;
  }

  /// Puts a read to those that have a maker in common with it. False where nobody made it, or one group makes several.
  bool add(std::size_t index, std::vector<Links>& all) const {
    Links own{.reads = {index}, .left = {}};
    for (const OutsideUse& use : history_.reads()[index].uses) {
      if (given(use) != trace::kNone) continue;
      const Writing* writing = writing_before(use);
      if (writing == nullptr || !put(own.left, writing->role)) return false;
    }
    if (own.left.empty()) return false;
    const auto shares = [&own](const Links& other) {
      return std::ranges::any_of(own.left, [&other](const auto& left) {
        const auto found = other.left.find(left.first);
        return found != other.left.end() && found->second == left.second;
      });
    };
    for (std::size_t i = all.size(); i-- > 0;) {
      if (!shares(all[i])) continue;
      for (const auto& [group, storage] : all[i].left) {
        if (!put(own.left, {group, storage})) return false;
      }
      own.reads.insert(own.reads.end(), all[i].reads.begin(), all[i].reads.end());
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    }
    all.push_back(std::move(own));
    return true;
  }

  static bool put(std::map<std::uint32_t, StorageId>& left, const StorageRole& role) {
    return left.emplace(role.group, role.storage).first->second == role.storage;
  }

  /// How many iterations of these groups ended before each of the recording.
  std::vector<std::size_t> handed_on_before(const Links& links) const {
    std::vector<std::size_t> counts;
    std::size_t count = 0;
    for (const RecordedTurn& turn : history_.turns()) {
      counts.push_back(count);
      count += links.left.contains(turn.group);
    }
    return counts;
  }

  std::optional<std::vector<Cell>> cells_of(const Links& links, std::size_t chain) const {
    const std::vector<std::size_t> before = handed_on_before(links);
    std::map<std::size_t, std::size_t> places;  // of each read
    std::size_t length = 0;
    for (const std::size_t index : links.reads) {
      std::optional<std::size_t> place;
      for (const OutsideUse& use : history_.reads()[index].uses) {
        if (given(use) != trace::kNone) continue;
        const std::size_t own = before[use.turn] - before[writing_before(use)->turn] - 1;
        if (place.value_or(own) != own) return std::nullopt;
        place = own;
      }
      places[index] = *place;
      length = std::max(length, *place + 1);
    }
    if (length > kLongest) return std::nullopt;
    std::vector<Cell> cells(length);
    for (std::size_t place = 0; place < length; ++place) {
      cells[place].chain = chain;
      cells[place].typed = StorageRole{links.left.begin()->first, links.left.begin()->second};
      if (place == 0) cells[place].left = links.left;
      if (place == 0) continue;
      for (const auto& [group, storage] : links.left) cells[place].moved_on.insert(group);
    }
    for (const auto& [index, place] : places) {
      const OutsideRead& read = history_.reads()[index];
      if (!cells[place].reads.emplace(read.role.group, index).second) return std::nullopt;
      for (const OutsideUse& use : read.uses) {
        const trace::BlobId blob = given(use);
        if (blob == trace::kNone) continue;
        const bool is_seam = use.given != trace::kNone && use.left_by.has_value();
        if (use.turn == 0) cells[place].initial = blob;
        if (use.turn > 0) cells[place].given.push_back({use.turn, blob, is_seam});
      }
    }
    for (Cell& cell : cells) std::ranges::sort(cell.given, {}, &GivenBytes::turn);
    return cells;
  }

  bool holds(const std::vector<Cell>& cells) const {
    std::vector<StorageId> contents(cells.size(), trace::kNone);
    for (const auto& [g, m, iteration] : history_.turns()) {
      for (std::size_t c = 0; c < cells.size(); ++c) {
        const auto read = cells[c].reads.find(g);
        if (read == cells[c].reads.end()) continue;
        const OutsideUse& use = history_.reads()[read->second].uses[m];
        if (given(use) != trace::kNone) contents[c] = use.own;
        if (contents[c] != use.own) return false;
      }
      const auto left = cells.front().left.find(g);
      if (left == cells.front().left.end()) continue;
      std::shift_right(contents.begin(), contents.end(), 1);
      contents.front() = groups_[g].alignment.from_first[m].at(left->second);
    }
    return true;
  }

  const RecordedHistory& history_;
  const std::vector<LoweredGroup>& groups_;
  std::unordered_map<StorageId, std::vector<Writing>> writings_;  // in order
};

}  // namespace

std::optional<std::vector<Cell>> make_chains(const RecordedHistory& history, const std::vector<LoweredGroup>& groups,
                                             const std::vector<std::size_t>& reads) {
  return ChainMaker(history, groups).make(reads);
}

}  // namespace crucible::aten
