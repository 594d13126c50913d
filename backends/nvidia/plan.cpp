// Plan table: a CUDA graph, built node by node from the checked list. Ops are in order, so each node depends on the one before it. Slots
// are patched in the executable graph. Only cuBLASLt's and cuDNN's own launches cannot be written as nodes, because their kernels are the
// libraries' secret: each call is captured alone, from a stream that nothing else uses, and added as a child graph. So a replay stays one launch,
// where a graph cut at each call would be two for every call.
#include "backends/nvidia/plan.hpp"

#include <algorithm>
#include <array>

#include "backends/nvidia/memory.hpp"
#include "backends/nvidia/tables.hpp"

namespace crucible_nvidia {
namespace {

using namespace crucible;

void make_launches(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  std::vector<std::size_t> first;
  const std::vector<std::uint64_t> all = sdk::tables_of<crucible_kernel>(plan.list, first);
  if (!all.empty()) {
    plan.tables = allocate(device, all.size() * sizeof(std::uint64_t));
    CUstream const stream = device.stream.get();
    device.check(device.cuda->cuMemcpyHtoDAsync(plan.tables.get(), all.data(), all.size() * sizeof(std::uint64_t), stream),
                 "plan.build: cuMemcpyHtoDAsync of tables of buffers");
    device.synchronize(stream, "plan.build");
  }
  plan.launches = sdk::plan_launches<crucible_kernel>(plan.list, plan.tables.get(), first, device.facts.multiprocessors);
}

CUDA_KERNEL_NODE_PARAMS kernel_parameters(const crucible_kernel& kernel, const sdk::LaunchShape& shape, std::vector<void*>& places) {
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  parameters.func = kernel.function;
  parameters.gridDimX = shape.blocks;
  parameters.blockDimX = shape.threads;
  parameters.gridDimY = parameters.gridDimZ = parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = places.data();
  return parameters;
}

CUDA_KERNEL_NODE_PARAMS matrix_parameters(const MatrixProducts::Call& call, std::array<void*, sdk::kMatrixArguments>& places) {
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  parameters.func = call.function;
  parameters.gridDimX = call.launch.blocks[0], parameters.gridDimY = call.launch.blocks[1], parameters.gridDimZ = call.launch.blocks[2];
  parameters.blockDimX = call.launch.threads;
  parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = places.data();
  return parameters;
}

CUDA_MEMCPY3D copy_parameters(const sdk::ListedOp& op) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = op.addresses[0];
  copy.srcDevice = op.addresses[1];
  copy.WidthInBytes = copy.srcPitch = copy.dstPitch = op.size;
  copy.Height = copy.Depth = copy.srcHeight = copy.dstHeight = 1;
  return copy;
}

/// Four bytes at a time where the range allows it.
CUDA_MEMSET_NODE_PARAMS fill_parameters(const sdk::ListedOp& op) {
  const bool wide = op.addresses[0] % 4 == 0 && op.size % 4 == 0;
  CUDA_MEMSET_NODE_PARAMS fill = {};
  fill.dst = op.addresses[0];
  fill.value = wide ? op.pattern * 0x01010101u : op.pattern;
  fill.elementSize = wide ? 4 : 1;
  fill.width = wide ? op.size / 4 : op.size;
  fill.pitch = op.size;
  fill.height = 1;
  return fill;
}

/// A product by cuBLASLt, a convolution or an attention by cuDNN, on a stream.
void enqueue_library_call(crucible_device& device, const sdk::ListedOp& op, CUstream stream) {
  if (op.product != nullptr) return device.require_products().enqueue(*op.product, op.addresses.data(), op.scratch_bytes, stream);
  if (op.attention != nullptr) return device.require_attentions().enqueue(*op.attention, op.addresses.data(), op.scratch_bytes, stream);
  device.require_convolutions().enqueue(*op.convolution, op.addresses.data(), op.scratch_bytes, stream);
}

/// Launches, copies and fills in a graph that was captured. What graphs inside of it do is not counted: its profile is then by events.
std::size_t count_activities(crucible_device& device, CUgraph graph, const std::string& what) {
  const Cuda& cuda = *device.cuda;
  std::size_t count = 0;
  device.check(cuda.cuGraphGetNodes(graph, nullptr, &count), what + "cuGraphGetNodes");
  std::vector<CUgraphNode> nodes(count);
  device.check(cuda.cuGraphGetNodes(graph, nodes.data(), &count), what + "cuGraphGetNodes");
  std::size_t activities = 0;
  for (CUgraphNode const node : nodes) {
    int type = 0;
    device.check(cuda.cuGraphNodeGetType(node, &type), what + "cuGraphNodeGetType");
    if (type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET) ++activities;
  }
  return activities;
}

/// What a library puts on a stream for a call, as a graph. The capture is relaxed: the library may load code while it goes on.
Graph capture_library_call(crucible_plan& plan, const sdk::ListedOp& op, const std::string& what) {
  crucible_device& device = *plan.device;
  const Cuda& cuda = *device.cuda;
  if (plan.capture_stream.get() == nullptr) {
    CUstream stream = nullptr;
    device.check(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), what + "cuStreamCreate");
    plan.capture_stream = Stream(cuda, stream);
  }
  CUstream const stream = plan.capture_stream.get();
  if (op.product != nullptr) {
    (void)device.require_products();  // started before the capture
  } else if (op.attention != nullptr) {
    device.require_attentions().prepare(*op.attention, op.addresses.data(), op.scratch_bytes);
  } else {
    device.require_convolutions().prepare(*op.convolution, op.addresses.data(), op.scratch_bytes);
  }
  device.check(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), what + "cuStreamBeginCapture");
  CUgraph captured = nullptr;
  try {
    enqueue_library_call(device, op, stream);
  } catch (...) {  // the capture ends whatever came of it
    if (cuda.cuStreamEndCapture(stream, &captured) == CUDA_SUCCESS) (void)Graph(cuda, captured);
    throw;
  }
  device.check(cuda.cuStreamEndCapture(stream, &captured),
               what + (op.product != nullptr ? "cuStreamEndCapture of a product by cuBLASLt (option blas=none does without)"
                                              : op.attention != nullptr ? "cuStreamEndCapture of an attention by cuDNN (option dnn=none does without)"
                                              : "cuStreamEndCapture of a convolution by cuDNN (option dnn=none does without)"));
  return {cuda, captured};
}

/// One node for each place of the product, each after the one before it; the last one.
CUgraphNode add_matrix_nodes(crucible_plan& plan, const std::vector<MatrixProducts::Call>& calls, const std::string& what, const CUgraphNode* after,
                             std::size_t after_count) {
  CUgraphNode node = after_count == 0 ? nullptr : *after;
  for (const MatrixProducts::Call& call : calls) {
    std::array<void*, sdk::kMatrixArguments> places = call.launch.places();
    const CUDA_KERNEL_NODE_PARAMS parameters = matrix_parameters(call, places);
    const CUgraphNode before = node;
    plan.device->check(plan.device->cuda->cuGraphAddKernelNode(&node, plan.graph.get(), &before, before == nullptr ? 0 : 1, &parameters),
                       what + "cuGraphAddKernelNode of a product for the tensor cores");
  }
  return node;
}

CUgraphNode add_node(crucible_plan& plan, std::size_t index, const CUgraphNode* after, std::size_t after_count) {
  crucible_device& device = *plan.device;
  const Cuda& cuda = *device.cuda;
  const sdk::ListedOp& op = plan.list.ops[index];
  const std::string what = "plan.build: op " + std::to_string(index) + ": ";
  CUgraph const graph = plan.graph.get();
  CUgraphNode node = nullptr;
  if (op.kind == CRUCIBLE_OP_COPY) {
    const CUDA_MEMCPY3D copy = copy_parameters(op);
    device.check(cuda.cuGraphAddMemcpyNode(&node, graph, after, after_count, &copy, device.context), what + "cuGraphAddMemcpyNode");
  } else if (op.kind == CRUCIBLE_OP_FILL) {
    const CUDA_MEMSET_NODE_PARAMS fill = fill_parameters(op);
    device.check(cuda.cuGraphAddMemsetNode(&node, graph, after, after_count, &fill, device.context), what + "cuGraphAddMemsetNode");
  } else if (const auto calls = plan.matrix_calls.find(index); calls != plan.matrix_calls.end()) {
    node = add_matrix_nodes(plan, calls->second, what, after, after_count);
    plan.activities[index] = calls->second.size();
  } else if (op.kind == CRUCIBLE_OP_LIBRARY) {
    const Graph child = capture_library_call(plan, op, what);  // the node has a copy of it
    device.check(cuda.cuGraphAddChildGraphNode(&node, graph, after, after_count, child.get()), what + "cuGraphAddChildGraphNode");
    plan.activities[index] = count_activities(device, child.get(), what);
  } else {
    std::vector<void*> places = plan.launches[index].places();
    const CUDA_KERNEL_NODE_PARAMS parameters = kernel_parameters(*op.kernel, plan.launches[index].shape, places);
    device.check(cuda.cuGraphAddKernelNode(&node, graph, after, after_count, &parameters),
                 what + "cuGraphAddKernelNode of " + op.kernel->name);
  }
  return node;
}

void make(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  const Cuda& cuda = *device.cuda;
  make_launches(plan);
  plan.matrix_calls = sdk::calls_without_library(plan.list, *device.matrix_products,
                                                 [&](const sdk::Gemm& gemm) { return device.require_products().scratch_bytes(gemm); });
  plan.nodes.assign(plan.list.ops.size(), nullptr);
  plan.activities.assign(plan.list.ops.size(), 0);
  if (plan.node_count == 0) return;
  CUgraph graph = nullptr;
  device.check(cuda.cuGraphCreate(&graph, 0), "plan.build: cuGraphCreate");
  plan.graph = Graph(cuda, graph);
  CUgraphNode last = nullptr;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    if (!plan.list.ops[i].does_something()) continue;
    plan.activities[i] = 1;
    plan.nodes[i] = last = add_node(plan, i, &last, last == nullptr ? 0 : 1);
  }
  CUgraphExec executable = nullptr;
  device.check(cuda.cuGraphInstantiateWithFlags(&executable, graph, 0),
               "plan.build: cuGraphInstantiateWithFlags of " + std::to_string(plan.node_count) + " nodes");
  plan.executable = GraphExec(cuda, executable);
  plan.capture_stream = {};
}

void patch(crucible_plan& plan, std::size_t index) { set_arguments(plan, plan.executable.get(), index, "plan.set_slots"); }

void enqueue_matrix_calls(crucible_device& device, const std::vector<MatrixProducts::Call>& calls, CUstream stream, const std::string& what) {
  for (const MatrixProducts::Call& call : calls) {
    std::array<void*, sdk::kMatrixArguments> places = call.launch.places();
    const CUDA_KERNEL_NODE_PARAMS p = matrix_parameters(call, places);
    device.check(device.cuda->cuLaunchKernel(p.func, p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, 1, 1, 0, stream, places.data(), nullptr),
                 what + ": cuLaunchKernel of a product for the tensor cores");
  }
}

/// The op by itself, as the graph would run it.
void enqueue(crucible_plan& plan, std::size_t index, CUstream stream) {
  crucible_device& device = *plan.device;
  const Cuda& cuda = *device.cuda;
  const sdk::ListedOp& op = plan.list.ops[index];
  const std::string what = "plan.profile: op " + std::to_string(index);
  if (!op.does_something()) return;
  if (op.kind == CRUCIBLE_OP_COPY) {
    device.check(cuda.cuMemcpyDtoDAsync(op.addresses[0], op.addresses[1], op.size, stream), what + ": cuMemcpyDtoDAsync");
  } else if (op.kind == CRUCIBLE_OP_FILL) {
    device.check(cuda.cuMemsetD8Async(op.addresses[0], op.pattern, op.size, stream), what + ": cuMemsetD8Async");
  } else if (const auto calls = plan.matrix_calls.find(index); calls != plan.matrix_calls.end()) {
    enqueue_matrix_calls(device, calls->second, stream, what);
  } else if (op.kind == CRUCIBLE_OP_LIBRARY) {
    enqueue_library_call(device, op, stream);
  } else {
    const sdk::LaunchShape shape = plan.launches[index].shape;
    std::vector<void*> places = plan.launches[index].places();
    device.check(
        cuda.cuLaunchKernel(op.kernel->function, shape.blocks, 1, 1, shape.threads, 1, 1, 0, stream, places.data(), nullptr),
        what + ": cuLaunchKernel of " + op.kernel->name);
  }
}

/// One before the first op, and one behind each.
std::vector<std::uint64_t> times_by_events(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  const Cuda& cuda = *device.cuda;
  CUstream const stream = device.stream.get();
  std::vector<Event> marks;
  for (std::size_t i = 0; i <= plan.nodes.size(); ++i) {
    CUevent event = nullptr;
    device.check(cuda.cuEventCreate(&event, 0), "plan.profile: cuEventCreate");
    marks.emplace_back(cuda, event);
    if (i != 0) enqueue(plan, i - 1, stream);
    device.check(cuda.cuEventRecord(event, stream), "plan.profile: cuEventRecord");
  }
  device.synchronize(stream, "plan.profile");
  std::vector<std::uint64_t> result(plan.nodes.size(), 0);
  for (std::size_t i = 0; i < result.size(); ++i) {
    float milliseconds = 0;
    if (!plan.list.ops[i].does_something()) continue;
    device.check(cuda.cuEventElapsedTime(&milliseconds, marks[i].get(), marks[i + 1].get()), "plan.profile: cuEventElapsedTime");
    result[i] = static_cast<std::uint64_t>(std::max(milliseconds, 0.0f) * 1e6f);
  }
  return result;
}

std::vector<std::uint64_t> times(crucible_plan& plan) {
  plan.times_from = "CUPTI's records of one replay of the whole graph";
  if (std::optional<std::vector<std::uint64_t>> traced = times_by_activities(plan)) return *std::move(traced);
  plan.times_from = sdk::kTimesOfEvents;
  return times_by_events(plan);
}

void run(crucible_plan& plan) { run_plan(plan, plan.device->stream.get()); }

/// Graph and tables are given back while the context is current.
void destroy(crucible_plan* plan) {
  if (plan->device->watchdog.is_suspect()) return sdk::abandon(plan);
  const Current current(*plan->device, Current::EvenIfLost{});
  delete plan;
}

using Functions =
    sdk::PlanFunctions<crucible_device, crucible_plan, crucible_kernel, Current, make, patch, run, times, destroy>;

}  // namespace

void run_plan(crucible_plan& plan, CUstream stream) {
  crucible_device& device = *plan.device;
  const Current current(device);
  if (plan.node_count == 0) return;
  device.check(device.cuda->cuGraphLaunch(plan.executable.get(), stream), "plan.replay: cuGraphLaunch");
  device.synchronize(stream, "plan.replay");
}

void set_arguments(crucible_plan& plan, CUgraphExec executable, std::size_t index, const std::string& what) {
  std::vector<void*> places = plan.launches[index].places();
  const CUDA_KERNEL_NODE_PARAMS parameters = kernel_parameters(*plan.list.ops[index].kernel, plan.launches[index].shape, places);
  plan.device->check(plan.device->cuda->cuGraphExecKernelNodeSetParams(executable, plan.nodes[index], &parameters),
                     what + ": op " + std::to_string(index) + ": cuGraphExecKernelNodeSetParams");
}

const crucible_if_plan kPlanTable = sdk::make_plan_table<Functions>();

}  // namespace crucible_nvidia
