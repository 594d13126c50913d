// A plan: the host's list of ops as a CUDA graph, built node by node and started by one call.
#pragma once

#include <map>
#include <vector>

#include "backends/nvidia/kernel.hpp"
#include "plugins/sdk/graph_plan.hpp"

struct crucible_plan : crucible::sdk::GraphPlan<crucible_nvidia::GraphApi> {
  crucible_nvidia::Stream capture_stream;                  // while it is built: of library calls
  std::map<std::size_t, crucible_nvidia::Graph> captured;  // by op: what a library launches
  std::vector<std::size_t> activities;  // per node: how many launches, copies and fills of the device it is
  crucible_nvidia::Graph graph;
  crucible_nvidia::GraphExec executable;
};

namespace crucible_nvidia {

using Plans = crucible::sdk::GraphPlans<GraphApi>;

/// The plan's graph; as a chain, each node waits for the one before it. `nodes` gets the driver's of each of the plan's
/// order.
Graph build_graph(crucible_plan& plan, bool is_chain, std::vector<CUgraphNode>& nodes);

}  // namespace crucible_nvidia
