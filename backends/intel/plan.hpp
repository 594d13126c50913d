// A plan: the host's list of ops as one closed command list, which a replay executes as it is. Scalars are captured in
// it: a changed slot is patched where the driver has mutable command lists, elsewhere the list is recorded again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/intel/kernel.hpp"
#include "backends/intel/memory.hpp"
#include "plugins/sdk/plan_table.hpp"

namespace crucible_intel {

/// What this plugin adds to a launch of the list.
struct Launch {
  std::shared_ptr<Allocation> table;  // of a kernel with a table of buffers
  std::uint32_t group_size = 1, groups = 1;
  bool has_slots = false;
  std::uint64_t command = 0;  // with slots: its number in a mutable list
};

/// All ops in order, done on return. Threads: any.
void run_plan(crucible_plan& plan);

}  // namespace crucible_intel

struct crucible_plan : crucible::sdk::ListedPlan<crucible_device> {
  std::vector<crucible_intel::Launch> launches;  // one per op of the list
  crucible_intel::OwnedList list_of_commands;    // closed; none: to be recorded
  std::uint64_t recorded = 0, patched = 0;       // how often; arguments
};
