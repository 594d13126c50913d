// A plan: the host's list of ops as HIP graphs, built node by node, with calls of rocBLAS and MIOpen between them. Without those it is one
// graph, started by one call.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/amd/kernel.hpp"
#include "backends/amd/profiler.hpp"
#include "plugins/sdk/plan_table.hpp"

namespace crucible_amd {

/// A graph, or one call of a library.
struct PlanPiece {
  Graph graph;
  GraphExec executable;
  const crucible::sdk::ListedOp* call = nullptr;    // in the plan's list, which stays as it is
  const Convolutions::Call* convolution = nullptr;  // what does it, if it is one
};

}  // namespace crucible_amd

struct crucible_plan : crucible::sdk::DevicePlan<crucible_device> {
  std::vector<crucible_amd::hipGraphNode_t> nodes;  // one per op; none for an op that does nothing
  std::vector<std::size_t> piece_of;                // of the op
  std::map<std::size_t, std::vector<crucible_amd::MatrixProducts::Call>> matrix_calls;  // by op: products that are kernels
  crucible_amd::DeviceMemory tables;                // addresses of buffers, for kernels that take them so
  std::vector<crucible_amd::PlanPiece> pieces;      // in order
};

namespace crucible_amd {

/// All ops in order on `stream`, done on return. Threads: any. Errors: DEVICE_LOST and others of the runtime.
void run_plan(crucible_plan& plan, hipStream_t stream);
/// One of its pieces, not waited for. The device must be the current one.
void run_piece(crucible_plan& plan, const PlanPiece& piece, hipStream_t stream, const std::string& what);

/// Times per op by rocprofiler-sdk's records of one replay, from the begin of an op's first dispatch to the end of its last. Nothing where there is
/// no profiler for the device, where counters are counted, or where it has refused: the reason is logged once. Errors: DEVICE_LOST and others
/// of the replay.
std::optional<std::vector<std::uint64_t>> times_by_dispatches(crucible_plan& plan);

}  // namespace crucible_amd
