// Graphs of libamdhip64, built node by node.
#include <algorithm>
#include <cstdio>

#include "tests/emulators/amd/graph_objects.hpp"
#include "tests/emulators/core/settings.hpp"

using namespace crucible::emulator;

namespace {

/// Adds a node behind others; the body has checked its work.
hipError_t add_node(hipGraphNode_t* out, ihipGraph& graph, const hipGraphNode_t* on, std::size_t count, NodeKind kind,
                    NodeWork work) {
  if (out == nullptr || (count > 0 && on == nullptr)) return hipErrorInvalidValue;
  std::vector<NodeId> dependencies;
  for (std::size_t i = 0; i < count; ++i) {
    if (on[i] == nullptr || on[i]->graph != &graph) return hipErrorInvalidValue;
    dependencies.push_back(on[i]->id);
  }
  auto node = std::make_unique<hipGraphNode>();
  node->graph = &graph;
  node->kind = kind;
  node->id = graph.graph.add(work, dependencies);
  graph.work.push_back(std::move(work));
  graph.dependencies.push_back(std::move(dependencies));
  *out = node.get();
  graph.nodes.push_back(std::move(node));
  return hipSuccess;
}

hipError_t kernel_work(AmdDevice& device, const hipKernelNodeParams* params, NodeWork& work) {
  if (params == nullptr) return hipErrorInvalidValue;
  const LaunchShape shape = {params->gridDim, params->blockDim, params->sharedMemBytes};
  const auto* const function = static_cast<const ihipModuleSymbol_t*>(params->func);
  if (const hipError_t problem = check_launch(device, function, shape, params->kernelParams, params->extra))
    return problem;
  work = launch_work(device, *function, shape, params->kernelParams, params->extra);
  return hipSuccess;
}

hipError_t fill_node_work(AmdDevice& device, const hipMemsetParams* params, NodeWork& work) {
  if (params == nullptr || params->height == 0) return hipErrorInvalidValue;
  const unsigned element = params->elementSize;
  if (element != 1 && element != 2 && element != 4) return hipErrorInvalidValue;
  const std::size_t bytes = (params->height - 1) * params->pitch + params->width * element;
  if (const hipError_t problem = check_fill(params->dst, bytes)) return problem;
  work = fill_work(device, *params);
  return hipSuccess;
}

template <class Body>
hipError_t answer_for(hipGraph_t graph, Body body) {
  return answer_on_device(
      [&](AmdDevice&) { return machine().graphs.has(graph) ? body(*graph) : hipErrorInvalidValue; });
}

/// A node of the graph that the executable was made of.
template <class Body>
hipError_t answer_for_node(hipGraphExec_t exec, hipGraphNode_t node, NodeKind kind, Body body) {
  return answer_on_device([&](AmdDevice&) {
    if (!machine().executables.has(exec) || node == nullptr) return hipErrorInvalidValue;
    if (node->graph != exec->graph || node->id >= exec->kinds.size() || node->kind != kind) return hipErrorInvalidValue;
    NodeWork work;
    if (const hipError_t problem = body(*exec->device, work)) return problem;
    exec->executable->set(node->id, std::move(work));
    return hipSuccess;
  });
}

hipError_t instantiate(hipGraphExec_t* out, ihipGraph& graph, const char*& problem) {
  if (out == nullptr) return hipErrorInvalidValue;
  auto executable = ExecutableGraph::make(graph.graph, settings().order, settings().seed);
  if (!executable) {
    problem = "the dependencies of the graph have a cycle";
    return hipErrorInvalidValue;
  }
  auto made = std::make_unique<hipGraphExec>();
  made->device = graph.device;
  made->graph = &graph;
  for (const auto& node : graph.nodes) made->kinds.push_back(node->kind);
  made->dependencies = graph.dependencies;
  made->executable = std::move(executable);
  *out = machine().executables.add(std::move(made));
  return hipSuccess;
}

}  // namespace

extern "C" {

hipError_t hipGraphCreate(hipGraph_t* graph, unsigned flags) {
  return answer_on_device([&](AmdDevice& device) {
    if (graph == nullptr || flags != 0) return hipErrorInvalidValue;
    auto made = std::make_unique<ihipGraph>();
    made->device = &device;
    *graph = machine().graphs.add(std::move(made));
    return hipSuccess;
  });
}

hipError_t hipGraphDestroy(hipGraph_t graph) {
  return answer([&] { return machine().graphs.take(graph) != nullptr ? hipSuccess : hipErrorInvalidValue; });
}

hipError_t hipGraphAddKernelNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* on, size_t count,
                                 const hipKernelNodeParams* params) {
  return answer_for(graph, [&](ihipGraph& g) {
    NodeWork work;
    if (const hipError_t problem = kernel_work(*g.device, params, work)) return problem;
    return add_node(node, g, on, count, NodeKind::kKernel, std::move(work));
  });
}

hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* on, size_t count,
                                   void* to, const void* from, size_t size, hipMemcpyKind kind) {
  return answer_for(graph, [&](ihipGraph& g) {
    if (size == 0) return hipErrorInvalidValue;
    if (const hipError_t problem = check_copy(to, from, size, kind)) return problem;
    return add_node(node, g, on, count, NodeKind::kCopy, copy_work(*g.device, to, from, size));
  });
}

hipError_t hipGraphAddMemsetNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* on, size_t count,
                                 const hipMemsetParams* params) {
  return answer_for(graph, [&](ihipGraph& g) {
    NodeWork work;
    if (const hipError_t problem = fill_node_work(*g.device, params, work)) return problem;
    return add_node(node, g, on, count, NodeKind::kFill, std::move(work));
  });
}

hipError_t hipGraphAddEmptyNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* on, size_t count) {
  return answer_for(graph, [&](ihipGraph& g) { return add_node(node, g, on, count, NodeKind::kEmpty, [] {}); });
}

hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to,
                                   size_t count) {
  return answer_for(graph, [&](ihipGraph& g) {
    for (std::size_t i = 0; i < count; ++i) {
      if (from[i] == nullptr || to[i] == nullptr || from[i]->graph != &g || to[i]->graph != &g)
        return hipErrorInvalidValue;
      g.graph.depend(to[i]->id, from[i]->id);
      g.dependencies[to[i]->id].push_back(from[i]->id);
    }
    return hipSuccess;
  });
}

hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) {
  return answer_for(graph, [&](ihipGraph& g) {
    if (count == nullptr) return hipErrorInvalidValue;
    for (std::size_t i = 0; nodes != nullptr && i < std::min(*count, g.nodes.size()); ++i) nodes[i] = g.nodes[i].get();
    *count = g.nodes.size();
    return hipSuccess;
  });
}

hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t* error_node, char* log,
                               size_t log_size) {
  return answer_for(graph, [&](ihipGraph& g) {
    const char* problem = "";
    const hipError_t result = instantiate(exec, g, problem);
    if (error_node != nullptr) *error_node = nullptr;
    if (log != nullptr && log_size > 0) std::snprintf(log, log_size, "%s", problem);
    return result;
  });
}

hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t graph, unsigned long long) {
  return hipGraphInstantiate(exec, graph, nullptr, nullptr, 0);
}

hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams* params) {
  return answer_for(node != nullptr ? node->graph : nullptr, [&](ihipGraph& g) {
    if (node->kind != NodeKind::kKernel) return hipErrorInvalidValue;
    NodeWork work;
    if (const hipError_t problem = kernel_work(*g.device, params, work)) return problem;
    g.graph.set(node->id, work);
    g.work[node->id] = std::move(work);
    return hipSuccess;
  });
}

hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                           const hipKernelNodeParams* params) {
  return answer_for_node(exec, node, NodeKind::kKernel,
                         [&](AmdDevice& device, NodeWork& work) { return kernel_work(device, params, work); });
}

hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t exec, hipGraphNode_t node, void* to, const void* from,
                                             size_t size, hipMemcpyKind kind) {
  return answer_for_node(exec, node, NodeKind::kCopy, [&](AmdDevice& device, NodeWork& work) {
    if (size == 0) return hipErrorInvalidValue;
    if (const hipError_t problem = check_copy(to, from, size, kind)) return problem;
    work = copy_work(device, to, from, size);
    return hipSuccess;
  });
}

hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipMemsetParams* params) {
  return answer_for_node(exec, node, NodeKind::kFill,
                         [&](AmdDevice& device, NodeWork& work) { return fill_node_work(device, params, work); });
}

hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t* error_node,
                              hipGraphExecUpdateResult* result) {
  return answer_for(graph, [&](ihipGraph& g) {
    if (!machine().executables.has(exec) || result == nullptr) return hipErrorInvalidValue;
    bool same = g.nodes.size() == exec->kinds.size() && g.dependencies == exec->dependencies;
    for (std::size_t i = 0; same && i < g.nodes.size(); ++i) same = g.nodes[i]->kind == exec->kinds[i];
    if (error_node != nullptr) *error_node = nullptr;
    *result = same ? hipGraphExecUpdateSuccess : hipGraphExecUpdateErrorTopologyChanged;
    if (!same) return hipErrorGraphExecUpdateFailure;
    for (std::size_t i = 0; i < g.nodes.size(); ++i) exec->executable->set(static_cast<NodeId>(i), g.work[i]);
    return hipSuccess;
  });
}

hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  return answer([&] { return machine().executables.take(exec) != nullptr ? hipSuccess : hipErrorInvalidValue; });
}

hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t stream) {
  return answer_on_stream(stream, [&](const Target&) {
    return machine().executables.has(exec) ? hipSuccess : hipErrorInvalidValue;
  });
}

hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  return answer_on_stream(stream, [&](const Target& target) {
    if (!machine().executables.has(exec) || target.device != exec->device) return hipErrorInvalidValue;
    if (const hipError_t fault = fault_at(*target.device, Site::kSubmit, "hipGraphLaunch", hipErrorUnknown))
      return fault;
    target.stream->push(exec->executable->launch());
    return hipSuccess;
  });
}

}  // extern "C"
