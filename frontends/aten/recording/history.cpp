// Who left what: see history.hpp.
#include "frontends/aten/recording/history.hpp"

#include <algorithm>

namespace crucible::aten {

RecordedHistory::RecordedHistory(const trace::Trace& trace, const std::vector<LoweredGroup>& groups) {
  for (const trace::External& external : trace.externals) {
    const auto [at, is_new] = first_bytes_.emplace(external.storage, &external);
    if (!is_new && external.iteration < at->second->iteration) at->second = &external;
  }
  order_turns(groups);
  find_reads(trace, groups);
  follow(groups);
}

void RecordedHistory::order_turns(const std::vector<LoweredGroup>& groups) {
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const auto& iterations = groups[g].alignment.iterations;
    for (std::uint32_t m = 0; m < iterations.size(); ++m) turns_.push_back({g, m, iterations[m]});
  }
  std::ranges::sort(turns_, {}, &RecordedTurn::iteration);
}

void RecordedHistory::find_reads(const trace::Trace& trace, const std::vector<LoweredGroup>& groups) {
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    const Alignment& alignment = groups[g].alignment;
    for (const auto& [storage, entry] : groups[g].storages.entries()) {
      if (entry.outside == graph::kNone) continue;
      OutsideRead& read = reads_.emplace_back(OutsideRead{{g, storage}, {}});
      for (std::size_t m = 0; m < alignment.count(); ++m) {
        const trace::StorageId own = alignment.origin(alignment.from_first[m].at(storage));
        watched_.insert(own);
        read.uses.push_back({.own = own, .given = groups[g].storages.external_blob(own, m)});
      }
    }
  }
  for (const trace::FinalState& state : trace.final_states) watched_.insert(state.storage);
}

void RecordedHistory::follow(const std::vector<LoweredGroup>& groups) {
  std::vector<std::vector<OutsideRead*>> reads_of(groups.size());
  for (OutsideRead& read : reads_) reads_of[read.role.group].push_back(&read);
  touches_.resize(turns_.size());
  for (std::uint32_t k = 0; k < turns_.size(); ++k) {
    const auto& [g, m, iteration] = turns_[k];
    for (OutsideRead* read : reads_of[g]) {
      OutsideUse& use = read->uses[m];
      use.turn = k;
      use.known = groups[g].storages.known_blob(use.own, m);
      const auto holder = holders_.find(use.own);
      if (holder != holders_.end()) use.left_by = holder->second;
      // What entered in an iteration that made views of it alone is read now.
      if (holder == holders_.end() && use.given == trace::kNone) use.given = use.known;
    }
    for (const auto& [own, role] : groups[g].alignment.to_first[m]) {
      if (!watched_.contains(own) || groups[g].alignment.origin(own) != own) continue;
      const StorageMap::Entry* entry = groups[g].storages.find(role);
      const bool is_written = entry != nullptr && entry->written;
      touches_[k].push_back({own, role, is_written});
      if (entry == nullptr) continue;
      holders_.insert_or_assign(own, StorageRole{g, role});
      if (is_written) writers_[own].insert({g, role});
    }
  }
}

const std::set<StorageRole>& RecordedHistory::writers(trace::StorageId own) const {
  static const std::set<StorageRole> kNobody;
  const auto found = writers_.find(own);
  return found == writers_.end() ? kNobody : found->second;
}

std::optional<StorageRole> RecordedHistory::last_holder(trace::StorageId own) const {
  const auto found = holders_.find(own);
  return found == holders_.end() ? std::nullopt : std::optional(found->second);
}

const trace::External* RecordedHistory::first_bytes(trace::StorageId own) const {
  const auto found = first_bytes_.find(own);
  return found == first_bytes_.end() ? nullptr : found->second;
}

}  // namespace crucible::aten
