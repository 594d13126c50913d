// Chains: cells for what a program keeps through several iterations, such as a list of losses that is averaged now and
// then. What an iteration leaves goes into the first cell of its chain, and what a cell held goes into the next one, so
// that each is read where it has come to. For reads whose tensors were made the same number of such iterations ago
// each time.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "frontends/aten/recording/cells.hpp"

namespace crucible::aten {

/// Cells for these reads (indices in RecordedHistory::reads()); nothing where no chains hold what is read. Those of a
/// chain follow each other.
std::optional<std::vector<Cell>> make_chains(const RecordedHistory& history, const std::vector<LoweredGroup>& groups,
                                             const std::vector<std::size_t>& reads);

}  // namespace crucible::aten
