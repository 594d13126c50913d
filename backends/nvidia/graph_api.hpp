// CUDA's driver as the SDK's skeleton of plugins for such drivers sees it: what GraphApi has to have is said in
// plugins/sdk/graph_driver.hpp.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/nvidia/cuda.hpp"
#include "plugins/sdk/graph_compile.hpp"
#include "plugins/sdk/graph_plan.hpp"

namespace crucible_nvidia {

class Current;
class DeviceMemory;
struct DeviceFacts;

struct GraphApi : crucible::sdk::GraphHandles {
  template <class Called>
  using Call = crucible::sdk::DriverCall<Called>;
  template <class Handle, auto Release>
  using Object = crucible::sdk::DriverObject<Cuda, Handle, Release>;

  using Driver = Cuda;
  using ErrorCode = CUresult;
  using Facts = DeviceFacts;
  using Current = crucible_nvidia::Current;
  using Memory = DeviceMemory;
  using HostMemory = Object<void*, &Cuda::cuMemFreeHost>;
  using StreamHandle = CUstream;
  using Function = CUfunction;
  using Node = CUgraphNode;
  using Stream = Object<CUstream, &Cuda::cuStreamDestroy>;
  using Event = Object<CUevent, &Cuda::cuEventDestroy>;
  using DriverModule = Object<CUmodule, &Cuda::cuModuleUnload>;
  using Graph = Object<CUgraph, &Cuda::cuGraphDestroy>;
  using GraphExec = Object<CUgraphExec, &Cuda::cuGraphExecDestroy>;

  static constexpr CUresult kSuccess = CUDA_SUCCESS, kNotReady = CUDA_ERROR_NOT_READY,
                            kGone = CUDA_ERROR_DEVICE_UNAVAILABLE;
  static constexpr std::string_view kGoneAdvice =
      "; another process has the device for itself (compute mode, see `nvidia-smi -q -d COMPUTE`): end it or use "
      "another device";
  static bool is_full(CUresult code) {
    return code == CUDA_ERROR_OUT_OF_MEMORY || code == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  static bool is_sticky(CUresult code);  // nothing runs in the context any more
  /// Unavailable is busy before it is open, and gone afterwards.
  static bool is_gone(CUresult code, bool is_open) { return code == kGone && is_open; }
  static std::string error_text(const Cuda& cuda, CUresult code) { return crucible_nvidia::error_text(cuda, code); }

  static constexpr unsigned kStreamFlags = CU_STREAM_NON_BLOCKING;
  [[maybe_unused]] static constexpr Call kStreamCreate{&Cuda::cuStreamCreate, "cuStreamCreate"};
  [[maybe_unused]] static constexpr Call kStreamQuery{&Cuda::cuStreamQuery, "cuStreamQuery"};
  [[maybe_unused]] static constexpr Call kStreamSynchronize{&Cuda::cuStreamSynchronize, "cuStreamSynchronize"};
  [[maybe_unused]] static constexpr Call kUpload{&Cuda::cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync"};
  [[maybe_unused]] static constexpr Call kHostAlloc{[](const auto& device, void** address, std::uint64_t size) {
                                                      return device.driver->cuMemHostAlloc(address, size, 0);
                                                    },
                                                    "cuMemHostAlloc"};
  [[maybe_unused]] static constexpr Call kDownload{&Cuda::cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync"};
  [[maybe_unused]] static constexpr Call kCopy{&Cuda::cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync"};
  [[maybe_unused]] static constexpr Call kFill{&Cuda::cuMemsetD8Async, "cuMemsetD8Async"};
  [[maybe_unused]] static constexpr Call kEventCreate{
      [](const auto& device, CUevent* event) { return device.driver->cuEventCreate(event, 0); }, "cuEventCreate"};
  [[maybe_unused]] static constexpr Call kEventRecord{&Cuda::cuEventRecord, "cuEventRecord"};
  [[maybe_unused]] static constexpr Call kEventElapsedTime{&Cuda::cuEventElapsedTime, "cuEventElapsedTime"};

  static const crucible::sdk::Dialect& dialect() { return crucible::sdk::dialect_cuda(); }
  static constexpr int kMostThreads = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kRegisters = CU_FUNC_ATTRIBUTE_NUM_REGS,
                       kLocalBytes = CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                       kSharedBytes = CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
  [[maybe_unused]] static constexpr Call kModuleGetFunction{&Cuda::cuModuleGetFunction, "cuModuleGetFunction"};
  [[maybe_unused]] static constexpr Call kFunctionAttribute{&Cuda::cuFuncGetAttribute, "cuFuncGetAttribute"};

  static constexpr std::string_view kMatrixUnits = "tensor cores";
  static CUDA_KERNEL_NODE_PARAMS kernel_node(CUfunction function, const std::array<std::uint32_t, 3>& blocks,
                                             std::uint32_t threads, void** places);
  /// One node, or two where rows of at most `most_pitch` bytes leave a rest: no row is longer, whatever the size.
  static std::vector<CUDA_MEMCPY3D> copy_nodes(CUdeviceptr to, CUdeviceptr from, std::uint64_t size,
                                               std::uint64_t most_pitch);
  static CUDA_MEMSET_NODE_PARAMS fill_node(const crucible::sdk::FilledRange& range);
  [[maybe_unused]] static constexpr Call kLaunchKernel{&Cuda::cuLaunchKernel, "cuLaunchKernel"};
  [[maybe_unused]] static constexpr Call kGraphCreate{&Cuda::cuGraphCreate, "cuGraphCreate"};
  [[maybe_unused]] static constexpr Call kInstantiate{[](const auto& device, CUgraphExec* executable, CUgraph graph) {
                                                        return device.driver->cuGraphInstantiateWithFlags(executable,
                                                                                                          graph, 0);
                                                      },
                                                      "cuGraphInstantiateWithFlags"};
  [[maybe_unused]] static constexpr Call kGraphUpload{&Cuda::cuGraphUpload, "cuGraphUpload"};
  [[maybe_unused]] static constexpr Call kGraphLaunch{&Cuda::cuGraphLaunch, "cuGraphLaunch"};
  [[maybe_unused]] static constexpr Call kAddKernelNode{&Cuda::cuGraphAddKernelNode, "cuGraphAddKernelNode"};
  [[maybe_unused]] static constexpr Call kSetKernelNode{&Cuda::cuGraphExecKernelNodeSetParams,
                                                        "cuGraphExecKernelNodeSetParams"};
  [[maybe_unused]] static constexpr Call kAddCopyNode{
      [](const auto& device, CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
         CUdeviceptr to, CUdeviceptr from, std::uint64_t size) {
        CUresult added = CUDA_SUCCESS;
        CUgraphNode last = nullptr;
        for (const CUDA_MEMCPY3D& copy : copy_nodes(to, from, size, device.facts.most_pitch)) {
          CUgraphNode const before = last;
          if (added != CUDA_SUCCESS) break;
          added = device.driver->cuGraphAddMemcpyNode(&last, graph, before == nullptr ? after : &before,
                                                      before == nullptr ? count : 1, &copy, device.context);
        }
        *node = last;
        return added;
      },
      "cuGraphAddMemcpyNode"};
  [[maybe_unused]] static constexpr Call kAddFillNode{
      [](const auto& device, CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
         const crucible::sdk::FilledRange& range) {
        const CUDA_MEMSET_NODE_PARAMS fill = fill_node(range);
        return device.driver->cuGraphAddMemsetNode(node, graph, after, count, &fill, device.context);
      },
      "cuGraphAddMemsetNode"};

  static Memory allocate(Device& device, std::uint64_t size);  // memory.cpp
  static std::vector<crucible::sdk::BuiltBatch<GraphApi>> build_programs(
      Device& device, const std::vector<crucible::sdk::KernelBatch>& batches);
  static void build_plan(Plan& plan);  // plan.cpp
  static void run_plan(Plan& plan, CUstream stream);
  static const GraphExec& executable_of(const Plan& plan, std::size_t node);
  static void enqueue_library_call(Plan& plan, std::size_t index, CUstream stream);
  static std::string_view traced_from(const Plan& plan);
  static std::optional<std::vector<std::uint64_t>> traced_times(Plan& plan);  // plan_activities.cpp
};
using Built = crucible::sdk::BuiltBatch<GraphApi>;
using Stream = GraphApi::Stream;
using Module = GraphApi::DriverModule;
using Graph = GraphApi::Graph;
using GraphExec = GraphApi::GraphExec;

/// What has no device yet.
inline void check(const Cuda& cuda, CUresult code, std::string_view what) {
  crucible::sdk::check_driver<GraphApi>(cuda, code, what);
}

}  // namespace crucible_nvidia
