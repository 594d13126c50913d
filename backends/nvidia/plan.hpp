// A plan: the host's list of ops as a CUDA graph, built node by node and started by one call.
#pragma once

#include <map>
#include <vector>

#include "backends/nvidia/kernel.hpp"
#include "plugins/sdk/plan_table.hpp"

struct crucible_plan : crucible::sdk::DevicePlan<crucible_device> {
  std::vector<crucible_nvidia::CUgraphNode> nodes;  // one per op; none for an op that does nothing
  std::map<std::size_t, std::vector<crucible_nvidia::MatrixProducts::Call>> matrix_calls;  // by op: products that are kernels for the tensor cores
  crucible_nvidia::DeviceMemory tables;             // addresses of buffers, for kernels that take them so
  crucible_nvidia::Stream capture_stream;           // while it is built: of library calls
  crucible_nvidia::Graph graph;
  crucible_nvidia::GraphExec executable;
};

namespace crucible_nvidia {

/// All ops in order on `stream`, done on return. Threads: any. Errors: DEVICE_LOST and others of the driver.
void run_plan(crucible_plan& plan, CUstream stream);

}  // namespace crucible_nvidia
