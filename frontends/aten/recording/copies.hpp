// What no cell can carry from one iteration to the next: a tensor that is read at a place where another one was read
// before (a list of past steps that is sampled, a layer chosen by chance). Such a place is a cell of its own, and what
// it holds is copied there before the iteration, from where it was left or from a cell that keeps it until then.
#pragma once

#include <cstddef>
#include <vector>

#include "frontends/aten/recording/cells.hpp"

namespace crucible::aten {

/// Adds cells for the reads of `wanted` (indices in RecordedHistory::reads()) and for `finals` (in Trace::final_states)
/// behind `cells`, which hold what they must. Errors: kBadInput when a read is of something that no iteration left and
/// of which there are no bytes, with its index in `failed`.
Result<void> add_copies(const trace::Trace& trace, const RecordedHistory& history,
                        const std::vector<LoweredGroup>& groups, const std::vector<std::size_t>& wanted,
                        const std::vector<std::size_t>& finals, std::vector<Cell>& cells, std::size_t& failed);

}  // namespace crucible::aten
