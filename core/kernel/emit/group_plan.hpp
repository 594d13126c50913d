// How a group becomes loops: which dimensions a work item stands for, which it loops over, which is vectorised, and in
// how many passes over a row its members run. Decided from sizes and strides alone; emit_group.cpp follows the plan.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/graph/program.hpp"
#include "core/kernel/fuse/nest.hpp"

namespace crucible::kernel {

enum class LoopForm : std::uint8_t {
  kFlat,     // at most one dimension: the grid is the vector loop, and the text does not hold its size
  kMap,      // no reduction: an item is a row of the vector dimension
  kRows,     // an item is one row of the kept dimensions; the vector dimension is reduced
  kColumns,  // an item is a block of neighbouring rows (lanes), which are the vector dimension
};

struct LoopPlan {
  LoopForm form = LoopForm::kFlat;
  Group group;                    // collapsed and split; the dimensions below are its
  std::vector<std::size_t> grid;  // dimensions of the work item, outermost first
  std::vector<std::size_t>
      loops;                 // dimensions looped over inside an item, outermost first; kMap, kRows: last is the vector
  std::size_t lanes = 0;              // kColumns: the vector dimension
  std::vector<std::size_t> unrolled;  // kColumns: reduced dimensions, outermost first, of kTreeTerms points at most
  // kRows with a named order: how many chains, and how many of the innermost loops run inside a block.
  std::int64_t chains = 0;
  std::size_t place_loops = 0;
  bool chain_by_lane = false;  // a vector loop's item i adds to chain i mod `chains`
  std::int64_t items() const;
  std::int64_t unrolled_points() const;
};

/// `lanes`: those of the device (DeviceShape); they cut what a work item is, and no sum.
LoopPlan plan_loops(Group group, int lanes = 1);

/// The number of independent items that a kernel of this group would have (elements / 1024 for flat ones).
std::int64_t work_items(const Group& group);

/// When the values of a group are known. Rows' values are known before pass `n`; the others are computed in pass `n` at
/// the earliest.
struct PassPlan {
  std::map<graph::ValueId, int> pass;  // per value that a member writes
  int count = 0;                       // passes over a row
  std::set<graph::ValueId> kept;       // inner values stored in a scratch array because a later pass needs them
};

/// `stored` are the values that need a buffer: a later pass may read them back from there.
PassPlan plan_passes(const graph::Program& program, const LoopPlan& loops, const std::set<graph::ValueId>& stored);

/// Estimated cycles of one element of an op on one lane of a vector unit.
double cycles(graph::OpKind kind);

/// Is this member a reduction that has dimensions to reduce?
bool reduces(const graph::Program& program, const Group& group, const Member& member);

}  // namespace crucible::kernel
