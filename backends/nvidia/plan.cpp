// What is CUDA's own in a plan: one graph for all ops, in which what need not wait for each other may run at once. Only
// cuBLASLt's and cuDNN's launches cannot be written as nodes, because their kernels are the libraries' secret: each
// call is captured alone, from a stream that nothing else uses, and added as a child graph. So a replay stays one
// launch, where a graph cut at each call would be two for every call.
#include "backends/nvidia/plan.hpp"

namespace crucible_nvidia {
namespace {

using namespace crucible;

/// A product by cuBLASLt, a convolution or an attention by cuDNN, on a stream.
void enqueue(crucible_device& device, const sdk::ListedOp& op, CUstream stream) {
  if (op.product != nullptr)
    return device.require_products().enqueue(*op.product, op.addresses.data(), op.scratch_bytes, stream);
  if (op.attention != nullptr)
    return device.require_attentions().enqueue(*op.attention, op.addresses.data(), op.scratch_bytes, stream);
  device.require_convolutions().enqueue(*op.convolution, op.addresses.data(), op.scratch_bytes, stream);
}

/// Launches, copies and fills in a graph that was captured. What graphs inside of it do is not counted: its profile is
/// then by events.
std::size_t count_activities(crucible_device& device, CUgraph graph, const std::string& what) {
  const Cuda& cuda = *device.driver;
  std::size_t count = 0;
  device.check(cuda.cuGraphGetNodes(graph, nullptr, &count), what + "cuGraphGetNodes");
  std::vector<CUgraphNode> nodes(count);
  device.check(cuda.cuGraphGetNodes(graph, nodes.data(), &count), what + "cuGraphGetNodes");
  std::size_t activities = 0;
  for (CUgraphNode const node : nodes) {
    int type = 0;
    device.check(cuda.cuGraphNodeGetType(node, &type), what + "cuGraphNodeGetType");
    if (type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET)
      ++activities;
  }
  return activities;
}

/// Before the capture: what a library makes for a call.
void prepare(crucible_device& device, const sdk::ListedOp& op) {
  if (op.product != nullptr) {
    (void)device.require_products();
  } else if (op.attention != nullptr) {
    device.require_attentions().prepare(*op.attention, op.addresses.data(), op.scratch_bytes);
  } else {
    device.require_convolutions().prepare(*op.convolution, op.addresses.data(), op.scratch_bytes);
  }
}

/// What a library puts on a stream for a call, as a graph. The capture is relaxed: the library may load code while it
/// goes on.
Graph capture_library_call(crucible_plan& plan, const sdk::ListedOp& op, const std::string& what) {
  crucible_device& device = *plan.device;
  const Cuda& cuda = *device.driver;
  if (plan.capture_stream.get() == nullptr) plan.capture_stream = device.make_stream(what);
  CUstream const stream = plan.capture_stream.get();
  prepare(device, op);
  device.check(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), what + "cuStreamBeginCapture");
  CUgraph captured = nullptr;
  try {
    enqueue(device, op, stream);
  } catch (...) {  // the capture ends whatever came of it
    if (cuda.cuStreamEndCapture(stream, &captured) == CUDA_SUCCESS) (void)Graph(cuda, captured);
    throw;
  }
  device.check(
      cuda.cuStreamEndCapture(stream, &captured),
      what + (op.product != nullptr ? "cuStreamEndCapture of a product by cuBLASLt (option blas=none does without)"
              : op.attention != nullptr
                  ? "cuStreamEndCapture of an attention by cuDNN (option dnn=none does without)"
                  : "cuStreamEndCapture of a convolution by cuDNN (option dnn=none does without)"));
  return {cuda, captured};
}

/// The library's launches are captured once: the node has a copy of them.
CUgraphNode add_library_node(crucible_plan& plan, CUgraph graph, std::size_t node,
                             const std::vector<CUgraphNode>& after) {
  crucible_device& device = *plan.device;
  const std::size_t index = plan.order.nodes[node].ops.front();
  const std::string what = "plan.build: op " + std::to_string(index) + ": ";
  Graph& child = plan.captured[index];
  if (child.get() == nullptr) child = capture_library_call(plan, plan.list.ops[index], what);
  plan.activities[node] = count_activities(device, child.get(), what);
  CUgraphNode made = nullptr;
  device.check(device.driver->cuGraphAddChildGraphNode(&made, graph, after.data(), after.size(), child.get()),
               what + "cuGraphAddChildGraphNode");
  return made;
}

}  // namespace

Graph build_graph(crucible_plan& plan, bool is_chain, std::vector<CUgraphNode>& nodes) {
  plan.activities.assign(plan.node_count, 1);
  for (std::size_t node = 0; node < plan.node_count; ++node) {
    const std::size_t first = plan.order.nodes[node].ops.front();
    const auto calls = plan.matrix_calls.find(first);
    if (calls != plan.matrix_calls.end()) plan.activities[node] = calls->second.size();
    if (const sdk::ListedOp& op = plan.list.ops[first]; op.kind == CRUCIBLE_OP_COPY)
      plan.activities[node] = GraphApi::copy_nodes(0, 0, op.size, plan.device->facts.most_pitch).size();
  }
  Graph graph = Plans::make_graph(*plan.device);
  nodes.assign(plan.node_count, nullptr);
  Plans::add_nodes(
      plan, graph, nodes, is_chain, 0, [](std::size_t) { return true; },
      [&](std::size_t node, const std::vector<CUgraphNode>& after) {
        return add_library_node(plan, graph.get(), node, after);
      });
  plan.capture_stream = {};
  return graph;
}

void GraphApi::build_plan(crucible_plan& plan) {
  if (plan.node_count == 0) return;
  plan.graph = build_graph(plan, false, plan.nodes);
  plan.executable = Plans::instantiate(*plan.device, plan.graph,
                                       {"plan.build: ", " of " + std::to_string(plan.node_count) + " nodes"});
}

const GraphExec& GraphApi::executable_of(const crucible_plan& plan, std::size_t) { return plan.executable; }

void GraphApi::enqueue_library_call(crucible_plan& plan, std::size_t index, CUstream stream) {
  enqueue(*plan.device, plan.list.ops[index], stream);
}

std::string_view GraphApi::traced_from(const crucible_plan&) {
  return "CUPTI's records of one replay of the whole graph, node after node";
}

void GraphApi::run_plan(crucible_plan& plan, CUstream stream) {
  crucible_device& device = *plan.device;
  const Current current(device);
  if (plan.node_count == 0) return;
  Plans::prepare_run(plan, stream, "queue.submit: ");
  device.call({"queue.submit: "}, kGraphLaunch, plan.executable.get(), stream);
  device.synchronize(stream, "queue.submit");
}

}  // namespace crucible_nvidia
