// Where what an iteration reads comes from, over all iterations in the order in which they were recorded: bytes of the
// recording, or what an earlier iteration, of whatever group, left.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontends/aten/recording/align.hpp"
#include "frontends/aten/recording/storage_map.hpp"

namespace crucible::aten {

/// A group whose ops are lowered. Borrowed.
struct LoweredGroup {
  const Alignment& alignment;
  StorageMap& storages;
  Emitter& emitter;
};

/// One iteration of the recording.
struct RecordedTurn {
  std::uint32_t group = 0;
  std::uint32_t member = 0;     // which of the group's iterations
  std::uint32_t iteration = 0;  // in Trace::iterations
};

/// The part that a storage plays in a group, named by the storage of the group's first iteration.
struct StorageRole {
  std::uint32_t group = 0;
  trace::StorageId storage = trace::kNone;
  auto operator<=>(const StorageRole&) const = default;
};

/// A storage that one iteration reads before any of its ops has written it.
struct OutsideUse {
  std::uint32_t turn = 0;
  trace::StorageId own = trace::kNone;
  trace::BlobId given = trace::kNone;       // its bytes, where the recording has them of this iteration, or of one
                                            // before that did not look at them
  trace::BlobId known = trace::kNone;       // the same, else the last ones that it has of an earlier one
  std::optional<StorageRole> left_by = {};  // who had it last before; nothing of a storage that is new
};

/// What a group reads from outside at one place.
struct OutsideRead {
  StorageRole role;
  std::vector<OutsideUse> uses;  // one per iteration of the group
};

/// A storage that others read too, in one iteration.
struct StorageTouch {
  trace::StorageId own = trace::kNone, role = trace::kNone;
  bool is_written = false;
};

class RecordedHistory {
 public:
  /// Borrows both.
  RecordedHistory(const trace::Trace& trace, const std::vector<LoweredGroup>& groups);

  const std::vector<RecordedTurn>& turns() const { return turns_; }
  const std::vector<OutsideRead>& reads() const { return reads_; }  // by group, then by storage
  const std::vector<StorageTouch>& touches(std::size_t turn) const { return touches_[turn]; }
  /// Whether an op of any iteration writes it.
  bool is_written(trace::StorageId own) const { return !writers(own).empty(); }
  /// The parts in which ops write it.
  const std::set<StorageRole>& writers(trace::StorageId own) const;
  /// Who had it last of all; nothing where no iteration did.
  std::optional<StorageRole> last_holder(trace::StorageId own) const;
  /// The first bytes of it that the recording has, with its name; null where it has none.
  const trace::External* first_bytes(trace::StorageId own) const;

 private:
  void order_turns(const std::vector<LoweredGroup>& groups);
  void find_reads(const trace::Trace& trace, const std::vector<LoweredGroup>& groups);
  void follow(const std::vector<LoweredGroup>& groups);

  std::vector<RecordedTurn> turns_;
  std::vector<OutsideRead> reads_;
  std::vector<std::vector<StorageTouch>> touches_;  // by turn
  std::unordered_set<trace::StorageId> watched_;
  std::unordered_map<trace::StorageId, std::set<StorageRole>> writers_;
  std::unordered_map<trace::StorageId, StorageRole> holders_;
  std::unordered_map<trace::StorageId, const trace::External*> first_bytes_;
};

}  // namespace crucible::aten
