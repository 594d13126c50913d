// Cells: the memory that carries something from one iteration to the next, whatever their groups. A cell is read as one
// storage and left as one storage by each group that touches it, mostly the same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/base/result.hpp"
#include "frontends/aten/recording/history.hpp"

namespace crucible::aten {

/// Bytes that a cell is given before an iteration, because the program put them there and no recorded op did; or what
/// another cell holds by then (copies.hpp).
struct GivenBytes {
  std::uint32_t turn = 0;
  trace::BlobId blob = trace::kNone;
  bool is_seam = false;  // a storage that earlier iterations had; else one that is new
  std::optional<std::size_t> from = {};  // a cell
};

struct Cell {
  std::map<std::uint32_t, std::size_t> reads;              // by group: which of RecordedHistory::reads() reads it
  std::map<std::uint32_t, trace::StorageId> left;          // by group: the storage whose content it holds afterwards
  trace::BlobId initial = trace::kNone, final = trace::kNone;  // its first bytes, and the recorded last ones
  trace::StorageId final_storage = trace::kNone;           // whose last ones they are
  std::vector<GivenBytes> given;                           // after the first
  StorageRole typed = {};                                  // of what is neither read nor left: whose size it has
};

/// Cells for the reads of `carried` (indices in RecordedHistory::reads()) and for final states that are only written,
/// in the order of the reads, the latter behind. Each is tried by going through all iterations: what is read must be
/// what was left. What no cell can hold is copied between cells. Errors: kBadInput when a read is of what nobody left,
/// with its index in `failed`.
Result<std::vector<Cell>> make_cells(const trace::Trace& trace, const RecordedHistory& history,
                                     const std::vector<LoweredGroup>& groups, const std::vector<std::size_t>& carried,
                                     std::size_t& failed);

}  // namespace crucible::aten
