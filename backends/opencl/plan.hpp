// A plan: the host's list of ops, each with a kernel object of its own whose arguments are set, enqueued one by one or
// recorded in a command buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/opencl/kernel.hpp"
#include "backends/opencl/memory.hpp"
#include "plugins/sdk/plan_table.hpp"

namespace crucible_opencl {

struct ScalarArgument {
  crucible::spirv::Parameter parameter;
  std::uint64_t bits = 0;  // of the present value
};

/// What this plugin adds to a launch of the list.
struct Launch {
  KernelObject kernel;
  std::shared_ptr<Allocation> table;            // of a kernel with a table of buffers
  std::uint32_t first_scalar = 0;               // index of the argument
  std::size_t global_size = 0, local_size = 0;
  std::vector<ScalarArgument> arguments;        // from first_scalar on
  bool has_slots = false;
  bool is_stale = false;                        // the kernel object has older scalars than these
  MutableCommand command = nullptr;             // with slots, recorded where slots are patched
};

/// All ops in order, done on return. Threads: any.
void run_plan(crucible_plan& plan);

}  // namespace crucible_opencl

struct crucible_plan : crucible::sdk::ListedPlan<crucible_device> {
  std::vector<crucible_opencl::Launch> launches;  // one per op of the list
  bool is_recorded = false;               // as a command buffer; else a queue takes the ops
  std::string why_queue;                  // the reason
  crucible_opencl::CommandBuffer buffer;  // none: to be recorded
  std::uint64_t recorded = 0, patched = 0;  // how often; arguments
};
