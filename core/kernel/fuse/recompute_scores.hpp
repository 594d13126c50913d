// Before fusion: what the backward pass of an attention reads of scores, stated again from queries, keys and the rows'
// maxima and sums instead of kept in memory. Each gradient then is a form that attention.hpp joins to one step: for the
// gradient of queries row by row, for those of keys and values column by column, as rows of the transposed scores. Like
// rematerialize.hpp, which does so for cheap ops; here products are done again, so only large scores are worth it.
#pragma once

#include <cstdint>
#include <optional>

#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// From how many bytes on the scores of an attention are computed again; fewer are kept.
inline constexpr std::int64_t kLeastRecomputedScores = std::int64_t{64} << 20;

/// The program with copies of products and element-wise ops between scores and the gradients that read them. The same
/// bits: copies compute what their originals do, transposed ones with the factors of products exchanged. Values keep
/// their numbers, and new ones come after them. Nothing when no scores have `least_bytes` bytes, or when more of them
/// would lie in memory.
std::optional<graph::Program> recompute_scores(const graph::Program& program, const Options& options,
                                               std::int64_t least_bytes = kLeastRecomputedScores);

}  // namespace crucible::kernel
