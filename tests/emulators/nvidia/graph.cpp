// Graphs made node by node; capture is in stream.cpp.
#include <algorithm>

#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/nvidia/driver.hpp"

namespace crucible::emulators::nvidia {
namespace {

using Work = std::expected<emulator::NodeWork, CUresult>;

bool is_node(CUgraph graph, CUgraphNode node) {
  return node != nullptr && std::ranges::any_of(graph->nodes, [&](const CUgraphNode_st& own) { return &own == node; });
}

/// Adds a node that does `work`.
CUresult add(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count, CUgraphNodeType type,
             Work work) {
  if (!work) return work.error();
  if (node == nullptr || (count > 0 && dependencies == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<emulator::NodeId> ids;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_node(graph, dependencies[i])) return CUDA_ERROR_INVALID_VALUE;
    ids.push_back(dependencies[i]->id);
  }
  CUgraphNode_st made;
  made.graph = graph;
  made.type = type;
  made.work = *work;
  made.id = graph->graph.add(std::move(*work), ids);
  graph->nodes.push_back(std::move(made));
  *node = &graph->nodes.back();
  return CUDA_SUCCESS;
}

Work kernel_node(CUcontext context, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr || parameters->func == nullptr) return std::unexpected(CUDA_ERROR_INVALID_VALUE);
  if (!driver().modules.has(parameters->func->module)) return std::unexpected(CUDA_ERROR_INVALID_HANDLE);
  const emulator::Launch shape = {{parameters->gridDimX, parameters->gridDimY, parameters->gridDimZ},
                                  {parameters->blockDimX, parameters->blockDimY, parameters->blockDimZ},
                                  parameters->sharedMemBytes,
                                  nullptr};
  if (const CUresult code = check_launch(record_of(context), parameters->func->kernel, shape))
    return std::unexpected(code);
  auto arguments = pack_arguments(parameters->func->kernel.kernel(), parameters->kernelParams, parameters->extra);
  if (!arguments) return std::unexpected(CUDA_ERROR_INVALID_VALUE);
  return kernel_work(*context->device, *parameters->func, shape, std::move(*arguments));
}

/// One side of a copy: its first byte, when all rows of it are memory that may be used.
std::optional<char*> side_of(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t pitch,
                             std::size_t height, std::size_t x, std::size_t y, std::size_t z,
                             const CUDA_MEMCPY3D& copy) {
  const std::size_t offset = x + pitch * (y + height * z);
  const std::size_t last = pitch * ((copy.Height - 1) + height * (copy.Depth - 1)) + copy.WidthInBytes;
  if (type == CU_MEMORYTYPE_HOST)
    return host == nullptr ? std::nullopt : std::optional(const_cast<char*>(static_cast<const char*>(host)) + offset);
  if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED) return resolve(device + offset, last);
  return std::nullopt;
}

Work copy_node(CUcontext context, const CUDA_MEMCPY3D* copy) {
  if (copy == nullptr || copy->WidthInBytes == 0 || copy->Height == 0 || copy->Depth == 0)
    return std::unexpected(CUDA_ERROR_INVALID_VALUE);
  // Whatever the number of rows, as the driver's documentation has it.
  if (std::max(copy->dstPitch, copy->srcPitch) > emulator::settings().pitch)
    return std::unexpected(CUDA_ERROR_INVALID_VALUE);
  const auto to = side_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstPitch, copy->dstHeight,
                          copy->dstXInBytes, copy->dstY, copy->dstZ, *copy);
  const auto from = side_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcPitch, copy->srcHeight,
                            copy->srcXInBytes, copy->srcY, copy->srcZ, *copy);
  if (!to || !from) return std::unexpected(CUDA_ERROR_INVALID_VALUE);
  const char* const direction = copy_direction(copy->dstDevice, copy->dstMemoryType == CU_MEMORYTYPE_HOST,
                                               copy->srcDevice, copy->srcMemoryType == CU_MEMORYTYPE_HOST);
  return [&device = *context->device, to = *to, from = *from, copy = *copy, direction] {
    const emulator::ActivityScope scope(
        {.kind = emulator::Activity::Kind::kCopy, .bytes = copy.WidthInBytes * copy.Height * copy.Depth});
    for (std::size_t z = 0; z < copy.Depth; ++z) {
      for (std::size_t y = 0; y < copy.Height; ++y) {
        copy_now(device, to + copy.dstPitch * (y + copy.dstHeight * z), from + copy.srcPitch * (y + copy.srcHeight * z),
                 copy.WidthInBytes, direction);
      }
    }
    spend_copy(device, copy.WidthInBytes * copy.Height * copy.Depth, direction);
  };
}

Work fill_node(CUcontext context, const CUDA_MEMSET_NODE_PARAMS* fill) {
  if (fill == nullptr || fill->width == 0 || fill->height == 0) return std::unexpected(CUDA_ERROR_INVALID_VALUE);
  if (fill->elementSize != 1 && fill->elementSize != 2 && fill->elementSize != 4)
    return std::unexpected(CUDA_ERROR_INVALID_VALUE);
  const auto to = resolve(fill->dst, fill->pitch * (fill->height - 1) + fill->width * fill->elementSize);
  if (!to) return std::unexpected(CUDA_ERROR_INVALID_VALUE);
  return [&device = *context->device, to = *to, fill = *fill] {
    const emulator::ActivityScope scope(
        {.kind = emulator::Activity::Kind::kFill, .bytes = fill.width * fill.elementSize * fill.height});
    device.at(emulator::Site::kCopy, "fill", fill.width * fill.elementSize * fill.height);
    if (device.state() != emulator::DeviceState::kGood) return;
    for (std::size_t y = 0; y < fill.height; ++y)
      fill_now(to + y * fill.pitch, fill.value, fill.elementSize, fill.width);
    device.spend({.memory_bytes = fill.width * fill.elementSize * fill.height});
  };
}

/// The context, when a graph may be changed in it.
CUresult ready_for(CUgraph graph, CUcontext* context) {
  if (const CUresult code = ready(context)) return code;
  return driver().graphs.has(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Puts other work in the place of an executable graph's node, which must be of `type`.
CUresult set(CUgraphExec executable, CUgraphNode node, CUgraphNodeType type, Work work) {
  if (!driver().executables.has(executable)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = executable->nodes.find(node);
  if (found == executable->nodes.end() || found->second.second != type) return CUDA_ERROR_INVALID_VALUE;
  if (!work) return work.error();
  executable->graph.set(found->second.first, std::move(*work));
  return CUDA_SUCCESS;
}

CUresult instantiate(CUgraphExec* executable, CUgraph graph) {
  CUcontext context = nullptr;
  if (const CUresult code = ready_for(graph, &context)) return code;
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const auto fault = fault_at(context, emulator::Site::kAlloc, "cuGraphInstantiate", CUDA_ERROR_OUT_OF_MEMORY))
    return *fault;
  auto made = emulator::ExecutableGraph::make(graph->graph, emulator::settings().order, emulator::settings().seed);
  if (!made) return CUDA_ERROR_INVALID_VALUE;  // a cycle
  static std::atomic<std::uint32_t> instantiated = 0;
  auto object = std::make_unique<CUgraphExec_st>(CUgraphExec_st{std::move(*made), {}, {}, ++instantiated});
  for (CUgraphNode_st& node : graph->nodes) {
    object->nodes[&node] = {node.id, node.type};
    object->types.push_back(node.type);
  }
  *executable = driver().executables.add(std::move(object));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult capture(CUstream stream, CUgraphNodeType type, emulator::NodeWork work) {
  CUgraphNode const before = stream->last_captured;
  return add(&stream->last_captured, stream->capturing, &before, before == nullptr ? 0 : 1, type, std::move(work));
}

}  // namespace crucible::emulators::nvidia

using namespace crucible::emulators::nvidia;
namespace emulator = crucible::emulator;

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUgraph_st>();
  made->device = context->device;
  *graph = driver().graphs.add(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  if (const CUresult code = ready()) return code;
  return driver().graphs.take(graph) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                              const CUDA_KERNEL_NODE_PARAMS* parameters) {
  CUcontext context = nullptr;
  if (const CUresult code = ready_for(graph, &context)) return code;
  return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_KERNEL, kernel_node(context, parameters));
}
#undef cuGraphAddKernelNode
/// The form before CUDA 12: its parameters are the first members of today's.
extern "C" __attribute__((visibility("default"))) CUresult
cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                     const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return cuGraphAddKernelNode_v2(node, graph, dependencies, count,
                                 reinterpret_cast<const CUDA_KERNEL_NODE_PARAMS*>(parameters));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                              const CUDA_MEMCPY3D* copy, CUcontext) {
  CUcontext context = nullptr;
  if (const CUresult code = ready_for(graph, &context)) return code;
  return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEMCPY, copy_node(context, copy));
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext) {
  CUcontext context = nullptr;
  if (const CUresult code = ready_for(graph, &context)) return code;
  return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEMSET, fill_node(context, fill));
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                            const CUDA_HOST_NODE_PARAMS* parameters) {
  CUcontext context = nullptr;
  if (const CUresult code = ready_for(graph, &context)) return code;
  if (parameters == nullptr || parameters->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto work = [&device = *context->device, host = *parameters] {
    if (device.state() == emulator::DeviceState::kGood) host.fn(host.userData);
  };
  return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_HOST, Work(work));
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count) {
  CUcontext context = nullptr;
  if (const CUresult code = ready_for(graph, &context)) return code;
  return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EMPTY, Work([] {}));
}

/// The child as it is now: later changes to it do not matter.
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, std::size_t count,
                                  CUgraph child) {
  CUcontext context = nullptr;
  if (const CUresult code = ready_for(graph, &context)) return code;
  if (child == graph || !driver().graphs.has(child)) return CUDA_ERROR_INVALID_VALUE;
  auto made = emulator::ExecutableGraph::make(child->graph, emulator::settings().order, emulator::settings().seed);
  if (!made) return CUDA_ERROR_INVALID_VALUE;
  const auto shared = std::make_shared<emulator::ExecutableGraph>(std::move(*made));  // a node's work is copied
  return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_GRAPH, Work([shared] { shared->launch()(); }));
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*,
                                std::size_t count) {
  CUcontext context = nullptr;
  if (const CUresult code = ready_for(graph, &context)) return code;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_node(graph, from[i]) || !is_node(graph, to[i])) return CUDA_ERROR_INVALID_VALUE;
    graph->graph.depend(to[i]->id, from[i]->id);
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  CUcontext context = nullptr;
  if (const CUresult code = ready_for(graph, &context)) return code;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes == nullptr) {
    *count = graph->nodes.size();
    return CUDA_SUCCESS;
  }
  for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < graph->nodes.size() ? &graph->nodes[i] : nullptr;
  *count = std::min(*count, graph->nodes.size());
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  if (const CUresult code = ready()) return code;
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  return instantiate(executable, graph);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* executable, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  const CUresult code = instantiate(executable, graph);
  if (parameters != nullptr)
    parameters->result_out = code == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return code;
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  if (const CUresult code = ready()) return code;
  return driver().executables.take(executable) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS* parameters) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  return set(executable, node, CU_GRAPH_NODE_TYPE_KERNEL, kernel_node(context, parameters));
}
#undef cuGraphExecKernelNodeSetParams
extern "C" __attribute__((visibility("default"))) CUresult
cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return cuGraphExecKernelNodeSetParams_v2(executable, node,
                                           reinterpret_cast<const CUDA_KERNEL_NODE_PARAMS*>(parameters));
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D* copy,
                                        CUcontext) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  return set(executable, node, CU_GRAPH_NODE_TYPE_MEMCPY, copy_node(context, copy));
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* fill,
                                        CUcontext) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  return set(executable, node, CU_GRAPH_NODE_TYPE_MEMSET, fill_node(context, fill));
}

CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* result) {
  CUcontext context = nullptr;
  if (const CUresult code = ready_for(graph, &context)) return code;
  if (!driver().executables.has(executable)) return CUDA_ERROR_INVALID_VALUE;
  const bool same = std::ranges::equal(graph->nodes, executable->types, {}, &CUgraphNode_st::type);
  if (result != nullptr)
    *result = {same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr, nullptr};
  if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (const CUgraphNode_st& node : graph->nodes) executable->graph.set(node.id, node.work);
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream handle) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (stream_of(context, handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return driver().executables.has(executable) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream handle) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  auto* const stream = stream_of(context, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!driver().executables.has(executable)) return CUDA_ERROR_INVALID_VALUE;
  if (const auto fault = fault_at(context, emulator::Site::kSubmit, "cuGraphLaunch", CUDA_ERROR_UNKNOWN)) return *fault;
  stream->push([work = executable->graph.launch(), number = executable->number] {
    const emulator::GraphScope scope(number);
    if (WarpReport* const report = WarpReport::find()) report->graph_launched(number);
    work();
  });
  return CUDA_SUCCESS;
}
