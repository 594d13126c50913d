// Plan table: a HIP graph, built node by node from the checked list, never captured. Ops are in order, so each node depends on the
// one before it. Slots are patched in the executable graph. Products by rocBLAS and convolutions by MIOpen run between graphs on the same
// stream: the list is cut at each of them. To capture them would save launches, but rocBLAS calls that a beta feature, and says of older
// releases that it is not safe; MIOpen loads code and asks after streams of its own when it likes, which ends a capture.
#include "backends/amd/plan.hpp"

#include <algorithm>
#include <array>

#include "backends/amd/memory.hpp"
#include "backends/amd/tables.hpp"

namespace crucible_amd {
namespace {

using namespace crucible;

void make_launches(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  std::vector<std::size_t> first;
  const std::vector<std::uint64_t> all = sdk::tables_of<crucible_kernel>(plan.list, first);
  if (!all.empty()) {
    plan.tables = allocate(device, all.size() * sizeof(std::uint64_t));
    hipStream_t const stream = device.stream.get();
    device.check(device.hip->hipMemcpyAsync(plan.tables.get(), all.data(), all.size() * sizeof(std::uint64_t), hipMemcpyHostToDevice,
                                            stream),
                 "plan.build: hipMemcpyAsync of tables of buffers");
    device.synchronize(stream, "plan.build");
  }
  const auto tables = reinterpret_cast<std::uint64_t>(plan.tables.get());
  plan.launches = sdk::plan_launches<crucible_kernel>(plan.list, tables, first, device.facts.units);
}

hipKernelNodeParams kernel_parameters(const crucible_kernel& kernel, const sdk::LaunchShape& shape, std::vector<void*>& places) {
  hipKernelNodeParams parameters;
  parameters.func = kernel.function;
  parameters.gridDim.x = shape.blocks;
  parameters.blockDim.x = shape.threads;
  parameters.kernelParams = places.data();
  return parameters;
}

hipKernelNodeParams matrix_parameters(const MatrixProducts::Call& call, std::array<void*, sdk::kMatrixArguments>& places) {
  hipKernelNodeParams parameters;
  parameters.func = call.function;
  parameters.gridDim = {call.launch.blocks[0], call.launch.blocks[1], call.launch.blocks[2]};
  parameters.blockDim.x = call.launch.threads;
  parameters.kernelParams = places.data();
  return parameters;
}

/// Four bytes at a time where the range allows it.
hipMemsetParams fill_parameters(const sdk::ListedOp& op) {
  const bool wide = op.addresses[0] % 4 == 0 && op.size % 4 == 0;
  hipMemsetParams fill = {};
  fill.dst = at(op.addresses[0]);
  fill.value = wide ? op.pattern * 0x01010101u : op.pattern;
  fill.elementSize = wide ? 4 : 1;
  fill.width = wide ? op.size / 4 : op.size;
  fill.pitch = op.size;
  fill.height = 1;
  return fill;
}

/// One node for each place of the product, each after the one before it; the last one.
hipGraphNode_t add_matrix_nodes(crucible_plan& plan, const std::vector<MatrixProducts::Call>& calls, const std::string& what,
                                const hipGraphNode_t* after, std::size_t after_count) {
  hipGraphNode_t node = after_count == 0 ? nullptr : *after;
  for (const MatrixProducts::Call& call : calls) {
    std::array<void*, sdk::kMatrixArguments> places = call.launch.places();
    const hipKernelNodeParams parameters = matrix_parameters(call, places);
    hipGraphNode_t const before = node;
    plan.device->check(plan.device->hip->hipGraphAddKernelNode(&node, plan.pieces.back().graph.get(), &before, before == nullptr ? 0 : 1, &parameters),
                       what + "hipGraphAddKernelNode of a product for the matrix cores");
  }
  return node;
}

hipGraphNode_t add_node(crucible_plan& plan, std::size_t index, const hipGraphNode_t* after, std::size_t after_count) {
  crucible_device& device = *plan.device;
  const Hip& hip = *device.hip;
  const sdk::ListedOp& op = plan.list.ops[index];
  const std::string what = "plan.build: op " + std::to_string(index) + ": ";
  hipGraph_t const graph = plan.pieces.back().graph.get();
  hipGraphNode_t node = nullptr;
  if (op.kind == CRUCIBLE_OP_COPY) {
    device.check(hip.hipGraphAddMemcpyNode1D(&node, graph, after, after_count, at(op.addresses[0]), at(op.addresses[1]), op.size,
                                             hipMemcpyDeviceToDevice),
                 what + "hipGraphAddMemcpyNode1D");
  } else if (op.kind == CRUCIBLE_OP_FILL) {
    const hipMemsetParams fill = fill_parameters(op);
    device.check(hip.hipGraphAddMemsetNode(&node, graph, after, after_count, &fill), what + "hipGraphAddMemsetNode");
  } else if (const auto calls = plan.matrix_calls.find(index); calls != plan.matrix_calls.end()) {
    node = add_matrix_nodes(plan, calls->second, what, after, after_count);
  } else {
    std::vector<void*> places = plan.launches[index].places();
    const hipKernelNodeParams parameters = kernel_parameters(*op.kernel, plan.launches[index].shape, places);
    device.check(hip.hipGraphAddKernelNode(&node, graph, after, after_count, &parameters),
                 what + "hipGraphAddKernelNode of " + op.kernel->name);
  }
  return node;
}

void instantiate(crucible_plan& plan, std::size_t node_count) {
  const Hip& hip = *plan.device->hip;
  PlanPiece& piece = plan.pieces.back();
  hipGraphExec_t executable = nullptr;
  plan.device->check(hip.hipGraphInstantiate(&executable, piece.graph.get(), nullptr, nullptr, 0),
                     "plan.build: hipGraphInstantiate of " + std::to_string(node_count) + " nodes");
  piece.executable = GraphExec(hip, executable);
}

/// Not a node of a graph.
bool is_library_call(const crucible_plan& plan, std::size_t index) {
  return plan.list.ops[index].kind == CRUCIBLE_OP_LIBRARY && !plan.matrix_calls.contains(index);
}

/// The ops from `first` on that one graph takes, up to a library call or the end. Returns where it ends.
std::size_t make_graph(crucible_plan& plan, std::size_t first) {
  const Hip& hip = *plan.device->hip;
  hipGraph_t graph = nullptr;
  plan.device->check(hip.hipGraphCreate(&graph, 0), "plan.build: hipGraphCreate");
  plan.pieces.emplace_back().graph = Graph(hip, graph);
  hipGraphNode_t last = nullptr;
  std::size_t i = first, node_count = 0;
  for (; i < plan.nodes.size() && !is_library_call(plan, i); ++i) {
    if (!plan.list.ops[i].does_something()) continue;
    plan.nodes[i] = last = add_node(plan, i, &last, last == nullptr ? 0 : 1);
    plan.piece_of[i] = plan.pieces.size() - 1;
    ++node_count;
  }
  if (node_count == 0) {
    plan.pieces.pop_back();
  } else {
    instantiate(plan, node_count);
  }
  return i;
}

/// A piece of its own. Everything that the library makes for the call is made now.
void add_library_call(crucible_plan& plan, std::size_t index) {
  const sdk::ListedOp& op = plan.list.ops[index];
  plan.piece_of[index] = plan.pieces.size();
  PlanPiece& piece = plan.pieces.emplace_back();
  piece.call = &op;
  if (op.product != nullptr) {
    (void)plan.device->require_products();
  } else {
    const std::uint64_t scratch = op.scratch_bytes == 0 ? 0 : op.addresses[3];
    piece.convolution = &plan.device->require_convolutions().prepare(*op.convolution, scratch, op.scratch_bytes);
  }
}

void enqueue_library_call(crucible_device& device, const PlanPiece& piece, hipStream_t stream) {
  const sdk::ListedOp& op = *piece.call;
  if (op.product != nullptr) return device.require_products().enqueue(*op.product, op.addresses.data(), op.scratch_bytes, stream);
  device.require_convolutions().enqueue(*piece.convolution, *op.convolution, op.addresses.data(), stream);
}

void make(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  make_launches(plan);
  plan.matrix_calls = sdk::calls_without_library(plan.list, *device.matrix_products,
                                                 [&](const sdk::Gemm& gemm) { return device.require_products().scratch_bytes(gemm); });
  plan.nodes.assign(plan.list.ops.size(), nullptr);
  plan.piece_of.assign(plan.list.ops.size(), 0);
  if (plan.node_count == 0) return;
  for (std::size_t i = 0; i < plan.nodes.size();) {
    if (is_library_call(plan, i)) {
      add_library_call(plan, i++);
    } else {
      i = make_graph(plan, i);
    }
  }
}

void patch(crucible_plan& plan, std::size_t index) {
  std::vector<void*> places = plan.launches[index].places();
  const hipKernelNodeParams parameters = kernel_parameters(*plan.list.ops[index].kernel, plan.launches[index].shape, places);
  plan.device->check(plan.device->hip->hipGraphExecKernelNodeSetParams(plan.pieces[plan.piece_of[index]].executable.get(),
                                                                          plan.nodes[index], &parameters),
                     "plan.set_slots: op " + std::to_string(index) + ": hipGraphExecKernelNodeSetParams");
}

void enqueue_matrix_calls(crucible_device& device, const std::vector<MatrixProducts::Call>& calls, hipStream_t stream, const std::string& what) {
  for (const MatrixProducts::Call& call : calls) {
    std::array<void*, sdk::kMatrixArguments> places = call.launch.places();
    const auto [columns, rows, batch] = call.launch.blocks;
    device.check(device.hip->hipModuleLaunchKernel(call.function, columns, rows, batch, call.launch.threads, 1, 1, 0, stream, places.data(), nullptr),
                 what + ": hipModuleLaunchKernel of a product for the matrix cores");
  }
}

/// The op by itself, as the graph would run it.
void enqueue(crucible_plan& plan, std::size_t index, hipStream_t stream) {
  crucible_device& device = *plan.device;
  const Hip& hip = *device.hip;
  const sdk::ListedOp& op = plan.list.ops[index];
  const std::string what = "plan.profile: op " + std::to_string(index);
  if (!op.does_something()) return;
  if (op.kind == CRUCIBLE_OP_COPY) {
    device.check(hip.hipMemcpyAsync(at(op.addresses[0]), at(op.addresses[1]), op.size, hipMemcpyDeviceToDevice, stream),
                 what + ": hipMemcpyAsync");
  } else if (const auto calls = plan.matrix_calls.find(index); calls != plan.matrix_calls.end()) {
    enqueue_matrix_calls(device, calls->second, stream, what);
  } else if (op.kind == CRUCIBLE_OP_LIBRARY) {
    enqueue_library_call(device, plan.pieces[plan.piece_of[index]], stream);
  } else if (op.kind == CRUCIBLE_OP_FILL) {
    device.check(hip.hipMemsetAsync(at(op.addresses[0]), op.pattern, op.size, stream), what + ": hipMemsetAsync");
  } else {
    const sdk::LaunchShape shape = plan.launches[index].shape;
    std::vector<void*> places = plan.launches[index].places();
    device.check(
        hip.hipModuleLaunchKernel(op.kernel->function, shape.blocks, 1, 1, shape.threads, 1, 1, 0, stream, places.data(), nullptr),
        what + ": hipModuleLaunchKernel of " + op.kernel->name);
  }
}

/// By events: one before the first op, and one behind each.
std::vector<std::uint64_t> times_by_events(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  const Hip& hip = *device.hip;
  hipStream_t const stream = device.stream.get();
  std::vector<Event> marks;
  for (std::size_t i = 0; i <= plan.nodes.size(); ++i) {
    hipEvent_t event = nullptr;
    device.check(hip.hipEventCreate(&event), "plan.profile: hipEventCreate");
    marks.emplace_back(hip, event);
    if (i != 0) enqueue(plan, i - 1, stream);
    device.check(hip.hipEventRecord(event, stream), "plan.profile: hipEventRecord");
  }
  device.synchronize(stream, "plan.profile");
  std::vector<std::uint64_t> result(plan.nodes.size(), 0);
  for (std::size_t i = 0; i < result.size(); ++i) {
    float milliseconds = 0;
    if (!plan.list.ops[i].does_something()) continue;
    device.check(hip.hipEventElapsedTime(&milliseconds, marks[i].get(), marks[i + 1].get()), "plan.profile: hipEventElapsedTime");
    result[i] = static_cast<std::uint64_t>(std::max(milliseconds, 0.0f) * 1e6f);
  }
  return result;
}

std::vector<std::uint64_t> times(crucible_plan& plan) {
  plan.times_from = plan.pieces.size() == 1 ? "rocprofiler-sdk's records of one replay of the whole graph"
                                            : "rocprofiler-sdk's records of one replay, graph by graph and call by call";
  if (std::optional<std::vector<std::uint64_t>> traced = times_by_dispatches(plan)) return *std::move(traced);
  plan.times_from = sdk::kTimesOfEvents;
  return times_by_events(plan);
}

void run(crucible_plan& plan) { run_plan(plan, plan.device->stream.get()); }

/// Graph and tables are given back while the device is the current one.
void destroy(crucible_plan* plan) {
  if (plan->device->watchdog.is_suspect()) return sdk::abandon(plan);
  const Current current(*plan->device, Current::EvenIfLost{});
  delete plan;
}

using Functions =
    sdk::PlanFunctions<crucible_device, crucible_plan, crucible_kernel, Current, make, patch, run, times, destroy>;

}  // namespace

void run_piece(crucible_plan& plan, const PlanPiece& piece, hipStream_t stream, const std::string& what) {
  crucible_device& device = *plan.device;
  if (piece.call != nullptr) return enqueue_library_call(device, piece, stream);
  device.check(device.hip->hipGraphLaunch(piece.executable.get(), stream), what + ": hipGraphLaunch");
}

void run_plan(crucible_plan& plan, hipStream_t stream) {
  crucible_device& device = *plan.device;
  const Current current(device);
  if (plan.node_count == 0) return;
  for (const PlanPiece& piece : plan.pieces) run_piece(plan, piece, stream, "plan.replay");
  device.synchronize(stream, "plan.replay");
}

const crucible_if_plan kPlanTable = sdk::make_plan_table<Functions>();

}  // namespace crucible_amd
