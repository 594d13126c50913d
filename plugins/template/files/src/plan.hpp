// A plan: a copy of the host's list of ops, ready to be run many times.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel.hpp"

namespace acme {

struct PlanOp {
  std::uint32_t kind = 0;
  const crucible_kernel* kernel = nullptr;  // LAUNCH
  std::vector<void*> buffers;               // addresses that memory.address gave, plus offsets
  // LAUNCH: eight bytes each, of a double or a whole number as the kernel takes it; those of slots are set by set_slots.
  std::vector<std::uint64_t> scalars;
  std::int64_t grid = 0;                    // LAUNCH: number of work items
  std::uint64_t size = 0;                   // COPY, FILL: bytes
  std::uint8_t pattern = 0;                 // FILL
};

struct SlotUse {
  std::uint32_t slot, op, scalar;
};

/// (8) One op on the device, done on return. Replace its body in run_op.cpp by your driver's launch, copy and fill; for
/// a graph or a command list, build that in plan.cpp's build() and start it in replay().
void run_op(crucible_device& device, const PlanOp& op);

/// All ops in order, done on return. Threads: any.
void run_plan(crucible_plan& plan);

}  // namespace acme

struct crucible_plan {
  crucible_device* device = nullptr;
  std::vector<acme::PlanOp> ops;
  std::vector<acme::SlotUse> slot_uses;
  std::uint32_t slot_count = 0;
};
