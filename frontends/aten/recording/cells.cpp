// Which storages are one cell. First, a storage is one place: whoever reads it or leaves it does so there. Where that
// makes two places of one iteration one (a history of the last two states: each iteration hands on the older one), only
// who reads from whom counts.
#include "frontends/aten/recording/cells.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "frontends/aten/recording/copies.hpp"

namespace crucible::aten {
namespace {

using trace::StorageId;

/// Sets that are joined.
class Sets {
 public:
  std::size_t add() {
    parent_.push_back(parent_.size());
    return parent_.size() - 1;
  }
  std::size_t of(std::size_t x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void join(std::size_t a, std::size_t b) {
    a = of(a), b = of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

class CellMaker {
 public:
  CellMaker(const trace::Trace& trace, const RecordedHistory& history, const std::vector<LoweredGroup>& groups)
      : trace_(trace), history_(history), groups_(groups) {}

  /// By storages, or by who reads from whom alone. Cells that cannot be are left out; their reads are in `broken`.
  std::vector<Cell> make(const std::vector<std::size_t>& carried, const std::vector<std::size_t>& finals,
                         bool by_storage, std::set<std::size_t>& broken) {
    Sets sets;
    std::map<std::size_t, std::size_t> reads;     // a read -> its node
    std::map<StorageRole, std::size_t> leavers;   // likewise
    std::unordered_map<StorageId, std::size_t> storages;
    const auto node_of = [&](auto& nodes, const auto& key) {
      const auto found = nodes.find(key);
      return found != nodes.end() ? found->second : nodes.emplace(key, sets.add()).first->second;
    };
    for (const std::size_t index : carried) {
      const OutsideRead& read = history_.reads()[index];
      const std::size_t node = node_of(reads, index);
      const StorageMap::Entry* entry = groups_[read.role.group].storages.find(read.role.storage);
      if (by_storage && entry->written) sets.join(node, node_of(leavers, read.role));
      for (const OutsideUse& use : read.uses) {
        const bool is_left = use.given == trace::kNone && use.left_by;
        if (by_storage) {
          sets.join(node, node_of(storages, use.own));
          if (is_left) sets.join(node_of(storages, use.own), node_of(leavers, *use.left_by));
        } else if (is_left) {
          sets.join(node, node_of(leavers, *use.left_by));
        }
      }
    }
    std::map<std::size_t, std::size_t> last;  // a final state -> its node
    for (const std::size_t index : finals) {
      const StorageId storage = trace_.final_states[index].storage;
      const auto holder = history_.last_holder(storage);
      if (!holder || !is_left_there(*holder)) continue;
      last.emplace(index, node_of(leavers, *holder));
      if (!by_storage) continue;
      sets.join(last.at(index), node_of(storages, storage));
      for (const StorageRole& role : history_.writers(storage)) sets.join(last.at(index), node_of(leavers, role));
    }
    return collect(sets, reads, leavers, last, broken);
  }

  /// Goes through all iterations; fills in what the cells are given, and their first and last bytes. Returns those in
  /// which something else stands than what is read.
  std::set<std::size_t> run(std::vector<Cell>& cells) const {
    using Content = std::pair<StorageId, std::uint64_t>;  // a storage, as it was written that often
    std::vector<std::optional<Content>> contents(cells.size());
    std::unordered_map<StorageId, std::uint64_t> written;
    std::uint64_t writes = 0;
    std::set<std::size_t> broken;
    std::vector<std::vector<std::size_t>> of_group(groups_.size());
    for (std::size_t c = 0; c < cells.size(); ++c) {
      for (std::uint32_t g = 0; g < groups_.size(); ++g) {
        if (cells[c].reads.contains(g) || cells[c].left.contains(g)) of_group[g].push_back(c);
      }
    }
    for (std::uint32_t k = 0; k < history_.turns().size(); ++k) {
      const auto& [g, m, iteration] = history_.turns()[k];
      for (const std::size_t c : of_group[g]) {
        const auto read = cells[c].reads.find(g);
        if (read == cells[c].reads.end()) continue;
        const OutsideUse& use = history_.reads()[read->second].uses[m];
        if (use.given != trace::kNone) {
          const bool is_first = !contents[c] && cells[c].given.empty();
          if (is_first) {
            cells[c].initial = use.given;
          } else {
            cells[c].given.push_back({k, use.given, use.left_by.has_value()});
          }
          if (use.left_by) written[use.own] = ++writes;
          contents[c] = {use.own, written[use.own]};
        } else if (contents[c] != Content{use.own, written[use.own]}) {
          broken.insert(c);
        }
      }
      for (const StorageTouch& touch : history_.touches(k)) {
        if (touch.is_written) written[touch.own] = ++writes;
      }
      for (const std::size_t c : of_group[g]) {
        const auto left = cells[c].left.find(g);
        if (left == cells[c].left.end()) continue;
        const Alignment& alignment = groups_[g].alignment;
        const StorageId own = alignment.origin(alignment.from_first[m].at(left->second));
        if (!contents[c] && !cells[c].reads.contains(g))
          cells[c].initial = groups_[g].storages.external_blob(own, m);
        contents[c] = {own, written[own]};
      }
    }
    std::map<Content, std::vector<std::size_t>> holders;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (contents[c]) holders[*contents[c]].push_back(c);
    }
    for (const trace::FinalState& state : trace_.final_states) {
      for (const std::size_t c : holders[{state.storage, written[state.storage]}]) {
        cells[c].final = state.blob;
        cells[c].final_storage = state.storage;
      }
    }
    return broken;
  }

 private:
  /// Whether the group has a value of it in the end.
  bool is_left_there(const StorageRole& role) const {
    const StorageMap::Entry* entry = groups_[role.group].storages.find(role.storage);
    return entry != nullptr && entry->value != graph::kNone;
  }

  std::vector<Cell> collect(Sets& sets, const std::map<std::size_t, std::size_t>& reads,
                            const std::map<StorageRole, std::size_t>& leavers,
                            const std::map<std::size_t, std::size_t>& finals, std::set<std::size_t>& broken) const {
    std::vector<Cell> cells;
    std::map<std::size_t, std::size_t> cell_of;  // a set -> its cell
    std::set<std::size_t> doubled;               // cells that are two places of one group
    for (const auto& [index, node] : reads) {
      const auto [found, is_new] = cell_of.emplace(sets.of(node), cells.size());
      if (is_new) cells.emplace_back();
      const bool is_one = cells[found->second].reads.emplace(history_.reads()[index].role.group, index).second;
      if (!is_one) doubled.insert(found->second);
      if (!is_one) broken.insert(index);
    }
    for (const auto& [index, node] : finals) {  // those that nobody reads
      const StorageId storage = trace_.final_states[index].storage;
      if (history_.first_bytes(storage) == nullptr || !cell_of.emplace(sets.of(node), cells.size()).second) continue;
      cells.emplace_back().final_storage = storage;
    }
    for (const auto& [role, node] : leavers) {
      const auto found = cell_of.find(sets.of(node));
      if (found == cell_of.end()) continue;
      if (!cells[found->second].left.emplace(role.group, role.storage).second) doubled.insert(found->second);
    }
    for (const std::size_t cell : doubled) {
      for (const auto& [group, index] : cells[cell].reads) broken.insert(index);
    }
    std::vector<Cell> good;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (!doubled.contains(c)) good.push_back(std::move(cells[c]));
    }
    return good;
  }

  const trace::Trace& trace_;
  const RecordedHistory& history_;
  const std::vector<LoweredGroup>& groups_;
};

}  // namespace

Result<std::vector<Cell>> make_cells(const trace::Trace& trace, const RecordedHistory& history,
                                     const std::vector<LoweredGroup>& groups, const std::vector<std::size_t>& carried,
                                     std::size_t& failed) {
  CellMaker maker(trace, history, groups);
  std::vector<Cell> all;
  std::vector<std::size_t> wanted = carried, finals(trace.final_states.size());
  std::iota(finals.begin(), finals.end(), 0);
  for (const bool by_storage : {true, false}) {
    std::set<std::size_t> broken;
    std::vector<Cell> cells = maker.make(wanted, finals, by_storage, broken);
    const std::set<std::size_t> wrong = maker.run(cells);
    std::set<StorageId> found;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      for (const auto& [group, index] : cells[c].reads) {
        if (wrong.contains(c)) broken.insert(index);
      }
      const bool is_of_nothing = cells[c].reads.empty() && cells[c].final == trace::kNone;
      if (wrong.contains(c) || is_of_nothing) continue;
      if (cells[c].final != trace::kNone) found.insert(cells[c].final_storage);
      all.push_back(std::move(cells[c]));
    }
    std::erase_if(finals, [&](std::size_t index) { return found.contains(trace.final_states[index].storage); });
    wanted.assign(broken.begin(), broken.end());
    if (wanted.empty() && finals.empty()) break;
  }
  std::ranges::stable_sort(all, {}, [](const Cell& cell) {
    return cell.reads.empty() ? std::numeric_limits<std::size_t>::max() : cell.reads.begin()->second;
  });
  CRUCIBLE_TRY_VOID(add_copies(trace, history, groups, wanted, finals, all, failed));
  return all;
}

}  // namespace crucible::aten
