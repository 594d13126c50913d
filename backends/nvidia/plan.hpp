// A plan: the host's list of ops as a CUDA graph, built node by node and started by one call.
#pragma once

#include <vector>

#include "backends/nvidia/kernel.hpp"
#include "plugins/sdk/graph_plan.hpp"

struct crucible_plan : crucible::sdk::GraphPlan<crucible_nvidia::GraphApi> {
  crucible_nvidia::Stream capture_stream;  // while it is built: of library calls
  std::vector<std::size_t> activities;     // per op: how many launches, copies and fills of the device it is
  crucible_nvidia::Graph graph;
  crucible_nvidia::GraphExec executable;
};

namespace crucible_nvidia {

using Plans = crucible::sdk::GraphPlans<GraphApi>;

}  // namespace crucible_nvidia
