// Copies between cells: see copies.hpp. All iterations are gone through twice: once to see which contents are read
// later and until when, once to say before which iteration what is copied where.
#include "frontends/aten/recording/copies.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace crucible::aten {
namespace {

using trace::StorageId;
using Content = std::pair<StorageId, std::uint64_t>;  // a storage, as it was written that often

constexpr std::uint32_t kAlways = std::numeric_limits<std::uint32_t>::max();

/// What one iteration does with the contents of storages.
struct Step {
  std::map<std::size_t, Content> reads;  // by read: what stands there
  std::map<Content, StorageRole> left;   // what it wrote, and in which part
};

class Copies {
 public:
  Copies(const trace::Trace& trace, const RecordedHistory& history, const std::vector<LoweredGroup>& groups,
         std::vector<Cell>& cells)
      : trace_(trace), history_(history), groups_(groups), cells_(cells) {}

  /// The read that cannot be served; nothing where all are.
  std::optional<std::size_t> add(const std::vector<std::size_t>& wanted, const std::vector<std::size_t>& finals) {
    go_through();
    for (const std::size_t index : wanted) {
      for (const OutsideUse& use : history_.reads()[index].uses) {
        const Content content = steps_[use.turn].reads.at(index);
        if (bytes_.contains(content)) continue;
        const auto writer = writers_.find(content);
        if (writer == writers_.end() || !has_value(writer->second.second)) return index;
        need(content, use.turn);
      }
    }
    for (const std::size_t index : finals) {
      const StorageId storage = trace_.final_states[index].storage;
      const Content content{storage, written_[storage]};
      const auto writer = writers_.find(content);
      if (history_.first_bytes(storage) == nullptr || writer == writers_.end() || !has_value(writer->second.second))
        continue;
      need(content, kAlways);
      final_of_.emplace(content, index);
    }
    make_places(wanted);
    for (std::uint32_t turn = 0; turn < steps_.size(); ++turn) give(turn, wanted);
    find_finals();
    return std::nullopt;
  }

 private:
  /// Counts how often each storage is written, as what each read finds.
  void go_through() {
    std::vector<std::vector<std::size_t>> reads_of(groups_.size());
    for (std::size_t index = 0; index < history_.reads().size(); ++index)
      reads_of[history_.reads()[index].role.group].push_back(index);
    std::uint64_t writes = 0;
    for (std::uint32_t turn = 0; turn < history_.turns().size(); ++turn) {
      const auto& [group, member, iteration] = history_.turns()[turn];
      Step& step = steps_.emplace_back();
      for (const std::size_t index : reads_of[group]) {
        const OutsideUse& use = history_.reads()[index].uses[member];
        if (use.given != trace::kNone && given_.emplace(use.own, turn).second && use.left_by)
          written_[use.own] = ++writes;  // the program put other bytes there
        const Content content{use.own, written_[use.own]};
        if (use.given != trace::kNone) bytes_.emplace(content, use.given);
        step.reads.emplace(index, content);
      }
      given_.clear();
      for (const StorageTouch& touch : history_.touches(turn)) {
        if (!touch.is_written) continue;
        written_[touch.own] = ++writes;
        const Content content{touch.own, writes};
        const StorageRole role{group, touch.role};
        step.left.emplace(content, role);
        writers_.emplace(content, std::pair{turn, role});
      }
    }
  }

  bool has_value(const StorageRole& role) const {
    const StorageMap::Entry* entry = groups_[role.group].storages.find(role.storage);
    return entry != nullptr && entry->value != graph::kNone;
  }

  void need(const Content& content, std::uint32_t turn) {
    std::uint32_t& last = last_needs_.try_emplace(content, 0).first->second;
    last = std::max(last, turn);
  }

  /// A cell for each read, and for each part in which something is left that is needed and that no cell holds.
  void make_places(const std::vector<std::size_t>& wanted) {
    for (const std::size_t index : wanted) {
      const StorageRole role = history_.reads()[index].role;
      Cell& cell = cells_.emplace_back();
      cell.reads.emplace(role.group, index);
      if (groups_[role.group].storages.find(role.storage)->written) cell.left.emplace(role.group, role.storage);
      place_of_.emplace(index, cells_.size() - 1);
    }
    for (std::size_t c = 0; c < cells_.size(); ++c) {
      for (const auto& [group, storage] : cells_[c].left) holders_.try_emplace({group, storage}, c);
    }
    for (const auto& [content, last] : last_needs_) {
      const StorageRole role = writers_.at(content).second;
      if (!holders_.try_emplace(role, cells_.size()).second) continue;
      cells_.emplace_back().left.emplace(role.group, role.storage);
    }
  }

  /// The next iteration behind `turn` in which something else is put into the cell.
  std::uint32_t next_change(std::size_t cell, std::uint32_t turn) const {
    while (++turn < steps_.size()) {
      const std::uint32_t group = history_.turns()[turn].group;
      if (cells_[cell].reads.contains(group) || cells_[cell].left.contains(group)) return turn;
    }
    return kAlways;
  }

  /// What is copied before the iteration. All copies are of what stood there before any of them.
  void give(std::uint32_t turn, const std::vector<std::size_t>& wanted) {
    std::map<std::size_t, std::size_t> keeps;  // what is kept from now on: from which cell in which
    for (auto at = leaving_.begin(); at != leaving_.end() && at->first == turn; at = leaving_.erase(at)) {
      const Content content = at->second;
      const std::size_t from = holders_.at(writers_.at(content).second), kept = keeper_for(content);
      cells_[kept].given.push_back({turn, trace::kNone, false, from});
      keeps_at_.emplace(content, std::pair{kept, turn});
    }
    const std::uint32_t group = history_.turns()[turn].group;
    for (const std::size_t index : wanted) {
      if (history_.reads()[index].role.group != group) continue;
      const std::size_t place = place_of_.at(index);
      Cell& cell = cells_[place];
      const Content content = steps_[turn].reads.at(index);
      const OutsideUse& use = history_.reads()[index].uses[history_.turns()[turn].member];
      const bool is_seam = use.given != trace::kNone && use.left_by.has_value();
      std::optional<Content>& held = contents_[place];
      if (held == content && !is_seam) continue;
      if (const auto bytes = bytes_.find(content); bytes != bytes_.end()) {
        const bool is_first = !held && cell.given.empty() && !is_changed_[place];
        if (is_first) cell.initial = bytes->second;
        if (!is_first) cell.given.push_back({turn, bytes->second, is_seam, {}});
      } else {
        cell.given.push_back({turn, trace::kNone, false, where(content, turn)});
      }
      held = content;
    }
    for (auto& [content, kept] : keeps_at_) {
      if (last_needs_.at(content) == turn) free_[bytes_of(content)].push_back(kept.first);
    }
    std::erase_if(keeps_at_, [&](const auto& kept) { return last_needs_.at(kept.first) == turn; });
    leave(turn);
  }

  /// The cell that holds it before the iteration is given anything.
  std::size_t where(const Content& content, std::uint32_t turn) const {
    const auto kept = keeps_at_.find(content);
    return kept != keeps_at_.end() && kept->second.second < turn ? kept->second.first
                                                                 : holders_.at(writers_.at(content).second);
  }

  /// What the iteration writes stands in cells then, and is kept from the time when it no longer does.
  void leave(std::uint32_t turn) {
    const std::uint32_t group = history_.turns()[turn].group, member = history_.turns()[turn].member;
    for (const auto& [index, place] : place_of_) {
      const auto left = cells_[place].left.find(group);
      if (left == cells_[place].left.end()) continue;
      is_changed_[place] = true;
      contents_[place].reset();
      const StorageId own = groups_[group].alignment.from_first[member].at(left->second);
      for (const auto& [content, role] : steps_[turn].left) {
        if (content.first == own) contents_[place] = content;
      }
    }
    for (const auto& [content, role] : steps_[turn].left) {
      const auto last = last_needs_.find(content);
      if (last == last_needs_.end()) continue;
      const std::uint32_t change = next_change(holders_.at(role), turn);
      if (change != kAlways && last->second > change) leaving_.emplace(change, content);
    }
  }

  std::uint64_t bytes_of(const Content& content) const { return trace_.storages[content.first].size_bytes; }

  std::size_t keeper_for(const Content& content) {
    std::vector<std::size_t>& free = free_[bytes_of(content)];
    if (!free.empty() && last_needs_.at(content) != kAlways) {
      const std::size_t kept = free.back();
      free.pop_back();
      return kept;
    }
    cells_.emplace_back().typed = writers_.at(content).second;
    return cells_.size() - 1;
  }

  /// Of the final states that are wanted, which cell has which in the end.
  void find_finals() {
    for (const auto& [content, index] : final_of_) {
      Cell& cell = cells_[where(content, kAlways)];
      cell.final = trace_.final_states[index].blob;
      cell.final_storage = content.first;
    }
  }

  const trace::Trace& trace_;
  const RecordedHistory& history_;
  const std::vector<LoweredGroup>& groups_;
  std::vector<Cell>& cells_;
  std::vector<Step> steps_;  // by turn
  std::unordered_map<StorageId, std::uint64_t> written_;
  std::map<StorageId, std::uint32_t> given_;  // in the iteration that is gone through
  std::map<Content, trace::BlobId> bytes_;
  std::map<Content, std::pair<std::uint32_t, StorageRole>> writers_;
  std::map<Content, std::uint32_t> last_needs_;  // of what an iteration left: the last one that reads it
  std::map<Content, std::size_t> final_of_;
  std::map<std::size_t, std::size_t> place_of_;    // a read -> its cell
  std::map<StorageRole, std::size_t> holders_;     // a part -> the cell that it is left in
  std::multimap<std::uint32_t, Content> leaving_;  // by the iteration before which it must be kept elsewhere
  std::map<Content, std::pair<std::size_t, std::uint32_t>> keeps_at_;  // the cell that keeps it, and since when
  std::map<std::uint64_t, std::vector<std::size_t>> free_;             // by size: cells that keep nothing any more
  std::map<std::size_t, std::optional<Content>> contents_;             // of the cells of reads
  std::map<std::size_t, bool> is_changed_;
};

}  // namespace

Result<void> add_copies(const trace::Trace& trace, const RecordedHistory& history,
                        const std::vector<LoweredGroup>& groups, const std::vector<std::size_t>& wanted,
                        const std::vector<std::size_t>& finals, std::vector<Cell>& cells, std::size_t& failed) {
  const std::optional<std::size_t> unknown = Copies(trace, history, groups, cells).add(wanted, finals);
  if (!unknown) return {};
  failed = *unknown;
  return Error{ErrorCode::kBadInput, "what it reads was left by no iteration and is not in the recording"};
}

}  // namespace crucible::aten
