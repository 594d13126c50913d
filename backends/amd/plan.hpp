// A plan: the host's list of ops as a HIP graph, built node by node and started by one call.
#pragma once

#include <vector>

#include "backends/amd/kernel.hpp"
#include "plugins/sdk/plan_table.hpp"

struct crucible_plan : crucible::sdk::DevicePlan<crucible_device> {
  std::vector<crucible_amd::hipGraphNode_t> nodes;  // one per op; none for an op that does nothing
  crucible_amd::DeviceMemory tables;             // addresses of buffers, for kernels that take them so
  crucible_amd::Graph graph;
  crucible_amd::GraphExec executable;
};

namespace crucible_amd {

/// All ops in order on `stream`, done on return. Threads: any. Errors: DEVICE_LOST and others of the runtime.
void run_plan(crucible_plan& plan, hipStream_t stream);

}  // namespace crucible_amd
