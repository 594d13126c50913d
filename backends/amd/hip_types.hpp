// The part of the HIP runtime that this plugin calls, as its C ABI is in HIP 5, 6 and 7: AMD's headers are not needed
// to build. Names are those of hip_runtime_api.h. hipGetDeviceProperties is not among them: its struct changed in
// version 6, attributes did not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crucible_amd {

using hipError_t = int;
using hipStream_t = struct ihipStream_t*;
using hipEvent_t = struct ihipEvent_t*;
using hipModule_t = struct ihipModule_t*;
using hipFunction_t = struct ihipModuleSymbol_t*;
using hipGraph_t = struct ihipGraph*;
using hipGraphNode_t = struct hipGraphNode*;
using hipGraphExec_t = struct hipGraphExec*;
struct hipUUID {
  char bytes[16];
};
struct dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

// Results that are looked at.
inline constexpr hipError_t hipSuccess = 0, hipErrorInvalidValue = 1, hipErrorOutOfMemory = 2,
                            hipErrorInsufficientDriver = 35, hipErrorNoDevice = 100, hipErrorInvalidImage = 200,
                            hipErrorNoBinaryForGpu = 209, hipErrorECCNotCorrectable = 214,
                            hipErrorInvalidKernelFile = 218, hipErrorIllegalAddress = 700,
                            hipErrorLaunchOutOfResources = 701, hipErrorLaunchTimeOut = 702,
                            hipErrorContextIsDestroyed = 709, hipErrorAssert = 710, hipErrorLaunchFailure = 719,
                            hipErrorNotReady = 600;

// Of hipDeviceAttribute_t (since HIP 5), hipFunction_attribute, hipMemcpyKind and the streams' flags.
inline constexpr int hipDeviceAttributeEccEnabled = 0, hipDeviceAttributeClockRate = 5,
                     hipDeviceAttributeComputeMode = 6, hipDeviceAttributeMaxThreadsPerBlock = 56,
                     hipDeviceAttributeMultiprocessorCount = 63, hipDeviceAttributeWarpSize = 87;
inline constexpr int hipComputeModeDefault = 0, hipComputeModeProhibited = 2;
inline constexpr int HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
                     HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3, HIP_FUNC_ATTRIBUTE_NUM_REGS = 4;
inline constexpr int hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2, hipMemcpyDeviceToDevice = 3;
inline constexpr unsigned hipStreamNonBlocking = 1;

/// `func` is a hipFunction_t of a module, or a host function of the runtime's own registration, which is looked for
/// first.
struct hipKernelNodeParams {
  dim3 blockDim;
  void** extra = nullptr;
  void* func = nullptr;
  dim3 gridDim;
  void** kernelParams = nullptr;
  unsigned sharedMemBytes = 0;
};

struct hipMemsetParams {
  void* dst = nullptr;
  unsigned elementSize = 0;
  std::size_t height = 0, pitch = 0;
  unsigned value = 0;
  std::size_t width = 0;
};

// Every function that is called: X(name, result, parameters).
#define CRUCIBLE_HIP_FUNCTIONS(X)                                                                                   \
  X(hipInit, hipError_t, (unsigned flags))                                                                          \
  X(hipRuntimeGetVersion, hipError_t, (int* version))                                                               \
  X(hipGetErrorName, const char*, (hipError_t error))                                                               \
  X(hipGetErrorString, const char*, (hipError_t error))                                                             \
  X(hipGetDeviceCount, hipError_t, (int* count))                                                                    \
  X(hipGetDevice, hipError_t, (int* device))                                                                        \
  X(hipSetDevice, hipError_t, (int device))                                                                         \
  X(hipDeviceGetName, hipError_t, (char* name, int size, int device))                                               \
  X(hipDeviceTotalMem, hipError_t, (std::size_t* bytes, int device))                                                \
  X(hipDeviceGetPCIBusId, hipError_t, (char* id, int size, int device))                                             \
  X(hipDeviceGetAttribute, hipError_t, (int* value, int attribute, int device))                                     \
  X(hipMalloc, hipError_t, (void** address, std::size_t bytes))                                                     \
  X(hipFree, hipError_t, (void* address))                                                                           \
  X(hipMemGetInfo, hipError_t, (std::size_t* free, std::size_t* total))                                             \
  X(hipHostMalloc, hipError_t, (void** address, std::size_t bytes, unsigned flags))                                 \
  X(hipHostFree, hipError_t, (void* address))                                                                       \
  X(hipMemcpyAsync, hipError_t, (void* to, const void* from, std::size_t bytes, int kind, hipStream_t stream))      \
  X(hipMemsetAsync, hipError_t, (void* to, int byte, std::size_t bytes, hipStream_t stream))                        \
  X(hipStreamCreateWithFlags, hipError_t, (hipStream_t * stream, unsigned flags))                                   \
  X(hipStreamDestroy, hipError_t, (hipStream_t stream))                                                             \
  X(hipStreamSynchronize, hipError_t, (hipStream_t stream))                                                         \
  X(hipStreamQuery, hipError_t, (hipStream_t stream))                                                               \
  X(hipEventCreate, hipError_t, (hipEvent_t * event))                                                               \
  X(hipEventDestroy, hipError_t, (hipEvent_t event))                                                                \
  X(hipEventRecord, hipError_t, (hipEvent_t event, hipStream_t stream))                                             \
  X(hipEventElapsedTime, hipError_t, (float* milliseconds, hipEvent_t start, hipEvent_t end))                       \
  X(hipModuleLoadData, hipError_t, (hipModule_t * module, const void* image))                                       \
  X(hipModuleUnload, hipError_t, (hipModule_t module))                                                              \
  X(hipModuleGetFunction, hipError_t, (hipFunction_t * function, hipModule_t module, const char* name))             \
  X(hipFuncGetAttribute, hipError_t, (int* value, int attribute, hipFunction_t function))                           \
  X(hipModuleLaunchKernel, hipError_t,                                                                              \
    (hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared_bytes, hipStream_t stream, void** parameters, void** extra))                 \
  X(hipGraphCreate, hipError_t, (hipGraph_t * graph, unsigned flags))                                               \
  X(hipGraphDestroy, hipError_t, (hipGraph_t graph))                                                                \
  X(hipGraphAddKernelNode, hipError_t,                                                                              \
    (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t* after, std::size_t count,                       \
     const hipKernelNodeParams* parameters))                                                                        \
  X(hipGraphAddMemcpyNode1D, hipError_t,                                                                            \
    (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t* after, std::size_t count, void* to,             \
     const void* from, std::size_t bytes, int kind))                                                                \
  X(hipGraphAddMemsetNode, hipError_t,                                                                              \
    (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t* after, std::size_t count,                       \
     const hipMemsetParams* fill))                                                                                  \
  X(hipGraphInstantiate, hipError_t,                                                                                \
    (hipGraphExec_t * executable, hipGraph_t graph, hipGraphNode_t * error_node, char* log, std::size_t log_size))  \
  X(hipGraphExecDestroy, hipError_t, (hipGraphExec_t executable))                                                   \
  X(hipGraphExecKernelNodeSetParams, hipError_t,                                                                    \
    (hipGraphExec_t executable, hipGraphNode_t node, const hipKernelNodeParams* parameters))                        \
  X(hipGraphUpload, hipError_t, (hipGraphExec_t executable, hipStream_t stream))                                    \
  X(hipGraphLaunch, hipError_t, (hipGraphExec_t executable, hipStream_t stream))

}  // namespace crucible_amd
