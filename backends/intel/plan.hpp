// A plan: the host's list of ops as one closed command list, which a replay executes as it is. Scalars are captured in it: a changed slot is patched
// where the driver has mutable command lists, elsewhere the list is recorded again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/intel/kernel.hpp"
#include "backends/intel/memory.hpp"

namespace crucible_intel {

struct PlanOp {
  std::uint32_t kind = 0;
  crucible_kernel* kernel = nullptr;        // LAUNCH
  std::shared_ptr<Allocation> table;        // LAUNCH of a kernel with a table of buffers
  std::vector<std::uint64_t> scalars;       // LAUNCH: the bytes of their present values
  std::int64_t grid = 0;                    // LAUNCH; an empty one is left out
  std::uint32_t group_size = 1, groups = 1; // LAUNCH
  std::vector<Place> places;                // they keep the memory alive
  std::uint64_t size = 0;                   // COPY, FILL: bytes
  std::uint8_t pattern = 0;                 // FILL
  bool has_slots = false;                   // LAUNCH
  std::uint64_t command = 0;                // LAUNCH with slots: its number in a mutable list
};

struct SlotUse {
  std::uint32_t slot, op, scalar;
  std::uint32_t parameter;  // of the kernel: where the scalar goes
};

/// All ops in order, done on return. Threads: any.
void run_plan(crucible_plan& plan);

}  // namespace crucible_intel

struct crucible_plan {
  crucible_device* device = nullptr;
  std::vector<crucible_intel::PlanOp> ops;
  std::vector<crucible_intel::SlotUse> slot_uses;
  std::uint32_t slot_count = 0;
  crucible_intel::OwnedList list;           // closed; none: to be recorded
  std::uint64_t recorded = 0, patched = 0;  // how often; arguments
};
