// A plan: the host's list of ops, each with a kernel object of its own whose arguments are set, enqueued one by one or recorded
// in a command buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/opencl/kernel.hpp"
#include "backends/opencl/memory.hpp"

namespace crucible_opencl {

struct ScalarArgument {
  crucible::spirv::Parameter parameter;
  std::uint64_t bits = 0;  // of the present value
};

struct PlanOp {
  std::uint32_t kind = 0;
  KernelObject kernel;                          // LAUNCH; none for an empty grid
  std::shared_ptr<Allocation> table;            // LAUNCH of a kernel with a table of buffers
  std::uint32_t first_scalar = 0;               // LAUNCH: index of the argument
  std::size_t global_size = 0, local_size = 0;  // LAUNCH
  std::vector<Place> places;                    // they keep the memory alive
  std::uint64_t size = 0;                       // COPY, FILL: bytes
  std::uint8_t pattern = 0;                     // FILL
  std::vector<std::uint64_t> scalars;           // LAUNCH: the bytes of their present values
  std::vector<ScalarArgument> arguments;        // LAUNCH: from first_scalar on
  bool has_slots = false;                       // LAUNCH
  bool is_stale = false;                        // LAUNCH: the kernel object has older scalars than these
  MutableCommand command = nullptr;             // LAUNCH with slots, recorded where slots are patched
};

struct SlotUse {
  std::uint32_t slot, op, scalar;
};

/// All ops in order, done on return. Threads: any.
void run_plan(crucible_plan& plan);

}  // namespace crucible_opencl

struct crucible_plan {
  crucible_device* device = nullptr;
  std::vector<crucible_opencl::PlanOp> ops;
  std::vector<crucible_opencl::SlotUse> slot_uses;
  std::uint32_t slot_count = 0;
  bool is_recorded = false;               // as a command buffer; else a queue takes the ops
  std::string why_queue;                  // the reason
  crucible_opencl::CommandBuffer buffer;  // none: to be recorded
  std::uint64_t recorded = 0, patched = 0;  // how often; arguments
};
