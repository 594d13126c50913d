// The part of CUDA's driver API that this plugin calls, as its C ABI has it: the toolkit's headers are not needed to
// build. Names are those of cuda.h, so that its documentation can be read beside this; layout_test.cpp compares the two
// where cuda.h is there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crucible_nvidia {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = std::uint64_t;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUmemGenericAllocationHandle = std::uint64_t;
struct CUuuid {
  unsigned char bytes[16];
};

// Results that are looked at.
inline constexpr CUresult CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2,
                          CUDA_ERROR_STUB_LIBRARY = 34, CUDA_ERROR_DEVICE_UNAVAILABLE = 46, CUDA_ERROR_NO_DEVICE = 100,
                          CUDA_ERROR_INVALID_IMAGE = 200, CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
                          CUDA_ERROR_ECC_UNCORRECTABLE = 214, CUDA_ERROR_INVALID_PTX = 218,
                          CUDA_ERROR_NVLINK_UNCORRECTABLE = 220, CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
                          CUDA_ERROR_CONTAINED = 226, CUDA_ERROR_ILLEGAL_ADDRESS = 700,
                          CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701, CUDA_ERROR_LAUNCH_TIMEOUT = 702,
                          CUDA_ERROR_CONTEXT_IS_DESTROYED = 709, CUDA_ERROR_ASSERT = 710,
                          CUDA_ERROR_HARDWARE_STACK_ERROR = 714, CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
                          CUDA_ERROR_MISALIGNED_ADDRESS = 716, CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
                          CUDA_ERROR_INVALID_PC = 718, CUDA_ERROR_LAUNCH_FAILED = 719,
                          CUDA_ERROR_SYSTEM_NOT_READY = 802, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
                          CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, CUDA_ERROR_NOT_READY = 600;

// Of CUdevice_attribute, CUfunction_attribute, CUcomputemode, CUjit_option, CUmemorytype, CUstream_flags.
inline constexpr int CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11;
inline constexpr int CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
                     CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20, CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
                     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
                     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76;
inline constexpr int CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
                     CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115;
inline constexpr int CU_MEM_ALLOCATION_TYPE_PINNED = 1, CU_MEM_LOCATION_TYPE_DEVICE = 1,
                     CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
                     CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
                     CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7;
inline constexpr int CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
                     CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3, CU_FUNC_ATTRIBUTE_NUM_REGS = 4;
inline constexpr int CU_COMPUTEMODE_DEFAULT = 0, CU_COMPUTEMODE_PROHIBITED = 2, CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3;
inline constexpr int CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6, CU_JIT_OPTIMIZATION_LEVEL = 7;
inline constexpr unsigned CU_MEMORYTYPE_DEVICE = 2;
inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
inline constexpr int CU_STREAM_CAPTURE_MODE_RELAXED = 2;
inline constexpr int CU_GRAPH_NODE_TYPE_KERNEL = 0, CU_GRAPH_NODE_TYPE_MEMCPY = 1, CU_GRAPH_NODE_TYPE_MEMSET = 2;

/// The first struct of that name and what version 12 put behind it: a driver of any version reads as much as it knows.
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void** kernelParams;
  void** extra;
  void* kern;
  CUcontext ctx;
};

struct CUDA_MEMCPY3D {
  std::size_t srcXInBytes, srcY, srcZ, srcLOD;
  unsigned srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  void* srcArray;
  void* reserved0;
  std::size_t srcPitch, srcHeight;
  std::size_t dstXInBytes, dstY, dstZ, dstLOD;
  unsigned dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  void* dstArray;
  void* reserved1;
  std::size_t dstPitch, dstHeight;
  std::size_t WidthInBytes, Height, Depth;
};

struct CUDA_MEMSET_NODE_PARAMS {
  CUdeviceptr dst;
  std::size_t pitch;
  unsigned value, elementSize;
  std::size_t width, height;
};

struct CUmemLocation {
  int type, id;
};

struct CUmemAllocationProp {
  int type, requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType, gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};

struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};

/// Of all versions the same size: what was added was cut out of `reserved`.
struct CUmemPoolProps {
  int allocType, handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  unsigned char reserved[64];
};

// Every function that is called: X(name, the version of CUDA whose form of it is meant, parameters). cuGetProcAddress
// gives exactly that form, so that a driver of later years answers as one of that time.
#define CRUCIBLE_CUDA_FUNCTIONS(X)                                                                                     \
  X(cuInit, 2000, (unsigned flags))                                                                                    \
  X(cuGetErrorName, 6000, (CUresult error, const char** text))                                                         \
  X(cuGetErrorString, 6000, (CUresult error, const char** text))                                                       \
  X(cuDeviceGetCount, 2000, (int* count))                                                                              \
  X(cuDeviceGet, 2000, (CUdevice * device, int ordinal))                                                               \
  X(cuDeviceGetName, 2000, (char* name, int size, CUdevice device))                                                    \
  X(cuDeviceGetUuid, 9020, (CUuuid * uuid, CUdevice device))                                                           \
  X(cuDeviceTotalMem, 3020, (std::size_t* bytes, CUdevice device))                                                     \
  X(cuDeviceGetPCIBusId, 4010, (char* id, int size, CUdevice device))                                                  \
  X(cuDeviceGetAttribute, 2000, (int* value, int attribute, CUdevice device))                                          \
  X(cuDevicePrimaryCtxRetain, 7000, (CUcontext * context, CUdevice device))                                            \
  X(cuDevicePrimaryCtxRelease, 11000, (CUdevice device))                                                               \
  X(cuCtxPushCurrent, 4000, (CUcontext context))                                                                       \
  X(cuCtxPopCurrent, 4000, (CUcontext * context))                                                                      \
  X(cuMemAlloc, 3020, (CUdeviceptr * address, std::size_t bytes))                                                      \
  X(cuMemFree, 3020, (CUdeviceptr address))                                                                            \
  X(cuMemFreeAsync, 11020, (CUdeviceptr address, CUstream stream))                                                     \
  X(cuMemPoolCreate, 11020, (CUmemoryPool * pool, const CUmemPoolProps* properties))                                   \
  X(cuMemPoolDestroy, 11020, (CUmemoryPool pool))                                                                      \
  X(cuMemPoolSetAttribute, 11020, (CUmemoryPool pool, int attribute, void* value))                                     \
  X(cuMemPoolGetAttribute, 11020, (CUmemoryPool pool, int attribute, void* value))                                     \
  X(cuMemPoolTrimTo, 11020, (CUmemoryPool pool, std::size_t least))                                                    \
  X(cuMemAllocFromPoolAsync, 11020, (CUdeviceptr * address, std::size_t bytes, CUmemoryPool pool, CUstream stream))    \
  X(cuMemGetAllocationGranularity, 10020,                                                                              \
    (std::size_t* granularity, const CUmemAllocationProp* properties, int which))                                      \
  X(cuMemAddressReserve, 10020,                                                                                        \
    (CUdeviceptr * address, std::size_t bytes, std::size_t alignment, CUdeviceptr where, unsigned long long flags))    \
  X(cuMemAddressFree, 10020, (CUdeviceptr address, std::size_t bytes))                                                 \
  X(cuMemCreate, 10020,                                                                                                \
    (CUmemGenericAllocationHandle * handle, std::size_t bytes, const CUmemAllocationProp* properties,                  \
     unsigned long long flags))                                                                                        \
  X(cuMemRelease, 10020, (CUmemGenericAllocationHandle handle))                                                        \
  X(cuMemMap, 10020,                                                                                                   \
    (CUdeviceptr address, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,                  \
     unsigned long long flags))                                                                                        \
  X(cuMemSetAccess, 10020, (CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count)) \
  X(cuMemUnmap, 10020, (CUdeviceptr address, std::size_t bytes))                                                       \
  X(cuMemGetInfo, 3020, (std::size_t* free, std::size_t* total))                                                       \
  X(cuMemHostAlloc, 2020, (void** address, std::size_t bytes, unsigned flags))                                         \
  X(cuMemFreeHost, 2000, (void* address))                                                                              \
  X(cuMemcpyHtoDAsync, 3020, (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream))                   \
  X(cuMemcpyDtoHAsync, 3020, (void* to, CUdeviceptr from, std::size_t bytes, CUstream stream))                         \
  X(cuMemcpyDtoDAsync, 3020, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream))                   \
  X(cuMemsetD8Async, 3020, (CUdeviceptr to, unsigned char byte, std::size_t count, CUstream stream))                   \
  X(cuStreamCreate, 2000, (CUstream * stream, unsigned flags))                                                         \
  X(cuStreamDestroy, 4000, (CUstream stream))                                                                          \
  X(cuStreamSynchronize, 2000, (CUstream stream))                                                                      \
  X(cuStreamQuery, 2000, (CUstream stream))                                                                            \
  X(cuEventCreate, 2000, (CUevent * event, unsigned flags))                                                            \
  X(cuEventDestroy, 4000, (CUevent event))                                                                             \
  X(cuEventRecord, 2000, (CUevent event, CUstream stream))                                                             \
  X(cuEventElapsedTime, 2000, (float* milliseconds, CUevent start, CUevent end))                                       \
  X(cuModuleLoadDataEx, 2010, (CUmodule * module, const void* image, unsigned count, int* options, void** values))     \
  X(cuModuleUnload, 2000, (CUmodule module))                                                                           \
  X(cuModuleGetFunction, 2000, (CUfunction * function, CUmodule module, const char* name))                             \
  X(cuFuncGetAttribute, 2020, (int* value, int attribute, CUfunction function))                                        \
  X(cuLaunchKernel, 4000,                                                                                              \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,       \
     unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters, void** extra))                       \
  X(cuGraphCreate, 10000, (CUgraph * graph, unsigned flags))                                                           \
  X(cuGraphDestroy, 10000, (CUgraph graph))                                                                            \
  X(cuGraphAddKernelNode, 10000,                                                                                       \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, std::size_t count,                                   \
     const CUDA_KERNEL_NODE_PARAMS* parameters))                                                                       \
  X(cuGraphAddMemcpyNode, 10000,                                                                                       \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, std::size_t count, const CUDA_MEMCPY3D* copy,        \
     CUcontext context))                                                                                               \
  X(cuGraphAddMemsetNode, 10000,                                                                                       \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, std::size_t count,                                   \
     const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext context))                                                          \
  X(cuGraphAddChildGraphNode, 10000,                                                                                   \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, std::size_t count, CUgraph child))                   \
  X(cuGraphGetNodes, 10000, (CUgraph graph, CUgraphNode * nodes, std::size_t* count))                                  \
  X(cuGraphNodeGetType, 10000, (CUgraphNode node, int* type))                                                          \
  X(cuStreamBeginCapture, 10010, (CUstream stream, int mode))                                                          \
  X(cuStreamEndCapture, 10000, (CUstream stream, CUgraph * graph))                                                     \
  X(cuGraphInstantiateWithFlags, 11040, (CUgraphExec * executable, CUgraph graph, unsigned long long flags))           \
  X(cuGraphExecDestroy, 10000, (CUgraphExec executable))                                                               \
  X(cuGraphExecKernelNodeSetParams, 10010,                                                                             \
    (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters))                             \
  X(cuGraphUpload, 11010, (CUgraphExec executable, CUstream stream))                                                   \
  X(cuGraphLaunch, 10000, (CUgraphExec executable, CUstream stream))

}  // namespace crucible_nvidia
