// The HIP runtime as the SDK's skeleton of plugins for such drivers sees it: what GraphApi has to have is said in
// plugins/sdk/graph_driver.hpp.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/amd/hip.hpp"
#include "plugins/sdk/graph_compile.hpp"
#include "plugins/sdk/graph_plan.hpp"

namespace crucible_amd {

class Current;
struct DeviceFacts;

struct GraphApi : crucible::sdk::GraphHandles {
  template <class Called>
  using Call = crucible::sdk::DriverCall<Called>;
  template <class Handle, auto Release>
  using Object = crucible::sdk::DriverObject<Hip, Handle, Release>;

  using Driver = Hip;
  using ErrorCode = hipError_t;
  using Facts = DeviceFacts;
  using Current = crucible_amd::Current;
  using Memory = Object<void*, &Hip::hipFree>;
  using HostMemory = Object<void*, &Hip::hipHostFree>;
  using StreamHandle = hipStream_t;
  using Function = hipFunction_t;
  using Node = hipGraphNode_t;
  using Stream = Object<hipStream_t, &Hip::hipStreamDestroy>;
  using Event = Object<hipEvent_t, &Hip::hipEventDestroy>;
  using DriverModule = Object<hipModule_t, &Hip::hipModuleUnload>;
  using Graph = Object<hipGraph_t, &Hip::hipGraphDestroy>;
  using GraphExec = Object<hipGraphExec_t, &Hip::hipGraphExecDestroy>;

  static constexpr hipError_t kSuccess = hipSuccess, kNotReady = hipErrorNotReady, kGone = hipErrorNoDevice;
  static constexpr std::string_view kGoneAdvice = "; see which devices `rocminfo` shows";
  static bool is_full(hipError_t code) { return code == hipErrorOutOfMemory || code == hipErrorLaunchOutOfResources; }
  static bool is_sticky(hipError_t code);  // nothing runs on the device any more
  /// It was there when it was opened.
  static bool is_gone(hipError_t code, bool) { return code == kGone; }
  static std::string error_text(const Hip& hip, hipError_t code) { return crucible_amd::error_text(hip, code); }

  static constexpr unsigned kStreamFlags = hipStreamNonBlocking;
  [[maybe_unused]] static constexpr Call kStreamCreate{&Hip::hipStreamCreateWithFlags, "hipStreamCreateWithFlags"};
  [[maybe_unused]] static constexpr Call kStreamQuery{&Hip::hipStreamQuery, "hipStreamQuery"};
  [[maybe_unused]] static constexpr Call kStreamSynchronize{&Hip::hipStreamSynchronize, "hipStreamSynchronize"};
  [[maybe_unused]] static constexpr Call kUpload{
      [](const auto& device, std::uint64_t to, const void* from, std::uint64_t size, hipStream_t stream) {
        return device.driver->hipMemcpyAsync(at(to), from, size, hipMemcpyHostToDevice, stream);
      },
      "hipMemcpyAsync"};
  [[maybe_unused]] static constexpr Call kDownload{
      [](const auto& device, void* to, std::uint64_t from, std::uint64_t size, hipStream_t stream) {
        return device.driver->hipMemcpyAsync(to, at(from), size, hipMemcpyDeviceToHost, stream);
      },
      "hipMemcpyAsync"};
  [[maybe_unused]] static constexpr Call kHostAlloc{[](const auto& device, void** address, std::uint64_t size) {
                                                      return device.driver->hipHostMalloc(address, size, 0);
                                                    },
                                                    "hipHostMalloc"};
  [[maybe_unused]] static constexpr Call kCopy{
      [](const auto& device, std::uint64_t to, std::uint64_t from, std::uint64_t size, hipStream_t stream) {
        return device.driver->hipMemcpyAsync(at(to), at(from), size, hipMemcpyDeviceToDevice, stream);
      },
      "hipMemcpyAsync"};
  [[maybe_unused]] static constexpr Call kFill{
      [](const auto& device, std::uint64_t to, std::uint8_t byte, std::uint64_t size, hipStream_t stream) {
        return device.driver->hipMemsetAsync(at(to), byte, size, stream);
      },
      "hipMemsetAsync"};
  [[maybe_unused]] static constexpr Call kEventCreate{&Hip::hipEventCreate, "hipEventCreate"};
  [[maybe_unused]] static constexpr Call kEventRecord{&Hip::hipEventRecord, "hipEventRecord"};
  [[maybe_unused]] static constexpr Call kEventElapsedTime{&Hip::hipEventElapsedTime, "hipEventElapsedTime"};

  static const crucible::sdk::Dialect& dialect() { return crucible::sdk::dialect_hip(); }
  static constexpr int kMostThreads = HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                       kRegisters = HIP_FUNC_ATTRIBUTE_NUM_REGS, kLocalBytes = HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                       kSharedBytes = HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
  [[maybe_unused]] static constexpr Call kModuleGetFunction{&Hip::hipModuleGetFunction, "hipModuleGetFunction"};
  [[maybe_unused]] static constexpr Call kFunctionAttribute{&Hip::hipFuncGetAttribute, "hipFuncGetAttribute"};

  static constexpr std::string_view kMatrixUnits = "matrix cores";
  static hipKernelNodeParams kernel_node(hipFunction_t function, const std::array<std::uint32_t, 3>& blocks,
                                         std::uint32_t threads, void** places);
  static hipMemsetParams fill_node(const crucible::sdk::FilledRange& range);
  [[maybe_unused]] static constexpr Call kLaunchKernel{&Hip::hipModuleLaunchKernel, "hipModuleLaunchKernel"};
  [[maybe_unused]] static constexpr Call kGraphCreate{&Hip::hipGraphCreate, "hipGraphCreate"};
  [[maybe_unused]] static constexpr Call kInstantiate{
      [](const auto& device, hipGraphExec_t* executable, hipGraph_t graph) {
        return device.driver->hipGraphInstantiate(executable, graph, nullptr, nullptr, 0);
      },
      "hipGraphInstantiate"};
  [[maybe_unused]] static constexpr Call kGraphUpload{&Hip::hipGraphUpload, "hipGraphUpload"};
  [[maybe_unused]] static constexpr Call kGraphLaunch{&Hip::hipGraphLaunch, "hipGraphLaunch"};
  [[maybe_unused]] static constexpr Call kAddKernelNode{&Hip::hipGraphAddKernelNode, "hipGraphAddKernelNode"};
  [[maybe_unused]] static constexpr Call kSetKernelNode{&Hip::hipGraphExecKernelNodeSetParams,
                                                        "hipGraphExecKernelNodeSetParams"};
  [[maybe_unused]] static constexpr Call kAddCopyNode{
      [](const auto& device, hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after, std::size_t count,
         std::uint64_t to, std::uint64_t from, std::uint64_t size) {
        return device.driver->hipGraphAddMemcpyNode1D(node, graph, after, count, at(to), at(from), size,
                                                      hipMemcpyDeviceToDevice);
      },
      "hipGraphAddMemcpyNode1D"};
  [[maybe_unused]] static constexpr Call kAddFillNode{
      [](const auto& device, hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after, std::size_t count,
         const crucible::sdk::FilledRange& range) {
        const hipMemsetParams fill = fill_node(range);
        return device.driver->hipGraphAddMemsetNode(node, graph, after, count, &fill);
      },
      "hipGraphAddMemsetNode"};

  static Memory allocate(Device& device, std::uint64_t size);  // tables.cpp
  static std::vector<crucible::sdk::BuiltBatch<GraphApi>> build_programs(
      Device& device, const std::vector<crucible::sdk::KernelBatch>& batches);
  static void build_plan(Plan& plan);  // plan.cpp
  static void run_plan(Plan& plan, hipStream_t stream);
  static const GraphExec& executable_of(const Plan& plan, std::size_t node);
  static void enqueue_library_call(Plan& plan, std::size_t index, hipStream_t stream);
  static std::string_view traced_from(const Plan& plan);
  static std::optional<std::vector<std::uint64_t>> traced_times(Plan& plan);  // plan_dispatches.cpp
};
using Built = crucible::sdk::BuiltBatch<GraphApi>;
using Module = GraphApi::DriverModule;
using Graph = GraphApi::Graph;
using GraphExec = GraphApi::GraphExec;
using DeviceMemory = GraphApi::Memory;

/// What has no device yet.
inline void check(const Hip& hip, hipError_t code, std::string_view what) {
  crucible::sdk::check_driver<GraphApi>(hip, code, what);
}

}  // namespace crucible_amd
