// Attention as one step: products whose results are the scores of a group of ops over rows, that group, and the
// products that read what it makes, done block of rows by block of rows in scratch of a work item, so that no matrix
// [rows x keys] has to lie in memory. A softmax between two products is one; so is a gradient that states scores again
// (recompute_scores.hpp).
//
// It decides which units (fusion.hpp) become such a step. emit_attention.cpp writes the kernel: each product by the
// chains that every product has, the group by the loops that it would have alone, so that no bit depends on it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "core/kernel/emit/emit.hpp"
#include "core/kernel/fuse/fusion.hpp"
#include "core/kernel/emit/group_plan.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::kernel {

/// The sizes of scores: of each batch a matrix [rows, keys].
struct ScoreSizes {
  std::vector<std::int64_t> batch;
  std::int64_t rows = 0, keys = 0;
  std::int64_t batches() const;
  std::int64_t elements() const { return batches() * rows * keys; }
  bool is_of(const graph::View& view) const;  // row-major, with these last two sizes and as many elements
};

/// Of an operand or a result of a product with batches; nothing for others, and for what lies in memory in another
/// order.
std::optional<ScoreSizes> score_sizes(const graph::View& view);

/// The values that lie in scratch: results of `inner`, and left operands of `outer`.
std::set<graph::ValueId> scratch_values(const graph::Program& program, const std::vector<graph::OpId>& inner,
                                        const std::vector<graph::OpId>& outer);

/// The loops of the group one row of scores after the other: the items of the plan are the rows, in order. Nothing when
/// a value in `scratch` is walked otherwise, or the group cannot be done row by row.
std::optional<LoopPlan> plan_by_rows(const Group& group, const std::set<graph::ValueId>& scratch,
                                     const ScoreSizes& sizes);

/// Bytes of scores that a work item may keep: much of a core's second cache; little on a device that has thousands of
/// items at once, each with its own.
std::int64_t most_scratch_bytes(const DeviceShape& device);
inline constexpr std::int64_t kFewestRows = 4;  // for which a step of its own is worth it

/// Elements from one row of scores in scratch to the next: a line more than they need, so that rows lie in different
/// sets of a cache.
std::int64_t score_pitch(std::int64_t keys, DType type);

/// How many rows of scores fit into a work item's scratch, `copies` being how many values of that size wait in it.
std::int64_t rows_that_fit(const ScoreSizes& sizes, DType type, std::int64_t copies, const DeviceShape& device);

/// Joins units to such steps where it is legal and moves fewer bytes, and orders them anew. Where the library claims
/// both products, see docs/kernels.md. Returns what was not joined though it has the form.
std::vector<NotFused> fuse_attention(const graph::Program& program, std::vector<Unit>& units, const Options& options);

/// The kernel of a unit with products around its group. `stored`: its values that others need.
Emitted emit_attention(const graph::Program& program, const Unit& unit, const std::set<graph::ValueId>& stored,
                       const DeviceShape& device);

}  // namespace crucible::kernel
