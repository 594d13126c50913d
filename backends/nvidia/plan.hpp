// A plan: the host's list of ops as a CUDA graph, built node by node and started by one call.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/nvidia/kernel.hpp"
#include "plugins/sdk/plan_table.hpp"

struct crucible_plan : crucible::sdk::DevicePlan<crucible_device> {
  std::vector<crucible_nvidia::CUgraphNode> nodes;  // one per op; none for an op that does nothing
  std::map<std::size_t, std::vector<crucible_nvidia::MatrixProducts::Call>> matrix_calls;  // by op: products that are kernels for the tensor cores
  crucible_nvidia::DeviceMemory tables;             // addresses of buffers, for kernels that take them so
  crucible_nvidia::Stream capture_stream;           // while it is built: of library calls
  std::vector<std::size_t> activities;              // per op: how many launches, copies and fills of the device it is
  crucible_nvidia::Graph graph;
  crucible_nvidia::GraphExec executable;
};

namespace crucible_nvidia {

/// All ops in order on `stream`, done on return. Threads: any. Errors: DEVICE_LOST and others of the driver.
void run_plan(crucible_plan& plan, CUstream stream);

/// Gives the arguments of the launch at `index` to an executable graph of the plan's. `what` names the call.
void set_arguments(crucible_plan& plan, CUgraphExec executable, std::size_t index, const std::string& what);

/// Nanoseconds per op over one replay of the whole graph, from CUPTI's records: the time from the begin of an op's first activity to the end of its
/// last. Nothing where there is no CUPTI for the device, where counters are counted, or where it has refused: the reason is logged once. Errors: DEVICE_LOST
/// and others of the driver.
std::optional<std::vector<std::uint64_t>> times_by_activities(crucible_plan& plan);

}  // namespace crucible_nvidia
