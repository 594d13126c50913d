// A plan: the host's list of ops as HIP graphs, built node by node, with calls of rocBLAS and MIOpen between them.
// Without those it is one graph, started by one call.
#pragma once

#include <string_view>
#include <vector>

#include "backends/amd/kernel.hpp"
#include "plugins/sdk/graph_plan.hpp"

namespace crucible_amd {

/// A graph, or one call of a library.
struct PlanPiece {
  Graph graph;
  GraphExec executable;
  const crucible::sdk::ListedOp* call = nullptr;    // in the plan's list, which stays as it is
  const Convolutions::Call* convolution = nullptr;  // what does it, if it is one
};

}  // namespace crucible_amd

struct crucible_plan : crucible::sdk::GraphPlan<crucible_amd::GraphApi> {
  std::vector<std::size_t> piece_of;            // of a node of the order
  std::vector<crucible_amd::PlanPiece> pieces;  // in order
};

namespace crucible_amd {

using Plans = crucible::sdk::GraphPlans<GraphApi>;

/// A graph like the piece's, whose nodes go one after the other.
GraphExec chain_of(crucible_plan& plan, std::size_t piece, Graph& graph);

/// One of a plan's pieces, not waited for. The device must be the current one.
void run_piece(crucible_plan& plan, const PlanPiece& piece, hipStream_t stream, std::string_view what);

}  // namespace crucible_amd
