// How applications find the driver's functions, and what its codes mean. One table names every entry point with the
// version of CUDA that brought this form of it.
#include <cstring>

#include "tests/emulators/nvidia/driver.hpp"

// The names of cuda.h stand for their newest forms; here each form is meant as it is written.
#undef cuGraphAddKernelNode
#undef cuGraphExecKernelNodeSetParams
#undef cuGetProcAddress
#undef cuEventElapsedTime
extern "C" {
CUresult cuGraphAddKernelNode(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_KERNEL_NODE_PARAMS_v1*);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*);
CUresult cuEventElapsedTime(float*, CUevent, CUevent);
__attribute__((visibility("default"))) CUresult cuGetProcAddress(const char*, void**, int, cuuint64_t);
}

namespace {

struct Entry {
  const char* name;
  int version;
  void* function;
};

#define ENTRY(name, version, function) \
  { name, version, reinterpret_cast<void*>(&function) }

/// Forms of one name stand together, the newest first.
const Entry kEntries[] = {
    ENTRY("cuInit", 2000, cuInit),
    ENTRY("cuDriverGetVersion", 2020, cuDriverGetVersion),
    ENTRY("cuGetProcAddress", 12000, cuGetProcAddress_v2),
    ENTRY("cuGetProcAddress", 11030, cuGetProcAddress),
    ENTRY("cuGetErrorName", 6000, cuGetErrorName),
    ENTRY("cuGetErrorString", 6000, cuGetErrorString),
    ENTRY("cuGetExportTable", 3000, cuGetExportTable),
    ENTRY("cuDeviceGetCount", 2000, cuDeviceGetCount),
    ENTRY("cuDeviceGet", 2000, cuDeviceGet),
    ENTRY("cuDeviceGetName", 2000, cuDeviceGetName),
    ENTRY("cuDeviceGetUuid", 9020, cuDeviceGetUuid),
    ENTRY("cuDeviceTotalMem", 3020, cuDeviceTotalMem),
    ENTRY("cuDeviceGetPCIBusId", 4010, cuDeviceGetPCIBusId),
    ENTRY("cuDeviceGetAttribute", 2000, cuDeviceGetAttribute),
    ENTRY("cuDeviceCanAccessPeer", 4000, cuDeviceCanAccessPeer),
    ENTRY("cuDeviceGetP2PAttribute", 8000, cuDeviceGetP2PAttribute),
    ENTRY("cuCtxEnablePeerAccess", 4000, cuCtxEnablePeerAccess),
    ENTRY("cuCtxDisablePeerAccess", 4000, cuCtxDisablePeerAccess),
    ENTRY("cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain),
    ENTRY("cuDevicePrimaryCtxRelease", 11000, cuDevicePrimaryCtxRelease),
    ENTRY("cuDevicePrimaryCtxGetState", 7000, cuDevicePrimaryCtxGetState),
    ENTRY("cuDevicePrimaryCtxReset", 11000, cuDevicePrimaryCtxReset),
    ENTRY("cuCtxSetCurrent", 4000, cuCtxSetCurrent),
    ENTRY("cuCtxGetCurrent", 4000, cuCtxGetCurrent),
    ENTRY("cuCtxPushCurrent", 4000, cuCtxPushCurrent),
    ENTRY("cuCtxPopCurrent", 4000, cuCtxPopCurrent),
    ENTRY("cuCtxGetDevice", 2000, cuCtxGetDevice),
    ENTRY("cuCtxSynchronize", 2000, cuCtxSynchronize),
    ENTRY("cuMemAlloc", 3020, cuMemAlloc),
    ENTRY("cuMemFree", 3020, cuMemFree),
    ENTRY("cuMemAllocAsync", 11020, cuMemAllocAsync),
    ENTRY("cuMemFreeAsync", 11020, cuMemFreeAsync),
    ENTRY("cuMemPoolCreate", 11020, cuMemPoolCreate),
    ENTRY("cuMemPoolDestroy", 11020, cuMemPoolDestroy),
    ENTRY("cuMemPoolSetAttribute", 11020, cuMemPoolSetAttribute),
    ENTRY("cuMemPoolGetAttribute", 11020, cuMemPoolGetAttribute),
    ENTRY("cuMemPoolTrimTo", 11020, cuMemPoolTrimTo),
    ENTRY("cuMemAllocFromPoolAsync", 11020, cuMemAllocFromPoolAsync),
    ENTRY("cuMemGetInfo", 3020, cuMemGetInfo),
    ENTRY("cuMemGetAddressRange", 3020, cuMemGetAddressRange),
    ENTRY("cuPointerGetAttribute", 4000, cuPointerGetAttribute),
    ENTRY("cuMemAllocHost", 3020, cuMemAllocHost),
    ENTRY("cuMemHostAlloc", 2020, cuMemHostAlloc),
    ENTRY("cuMemFreeHost", 2000, cuMemFreeHost),
    ENTRY("cuMemHostRegister", 6050, cuMemHostRegister),
    ENTRY("cuMemHostUnregister", 4000, cuMemHostUnregister),
    ENTRY("cuMemHostGetDevicePointer", 3020, cuMemHostGetDevicePointer),
    ENTRY("cuMemcpy", 4000, cuMemcpy),
    ENTRY("cuMemcpyAsync", 4000, cuMemcpyAsync),
    ENTRY("cuMemcpyPeer", 4000, cuMemcpyPeer),
    ENTRY("cuMemcpyPeerAsync", 4000, cuMemcpyPeerAsync),
    ENTRY("cuMemcpyHtoD", 3020, cuMemcpyHtoD),
    ENTRY("cuMemcpyDtoH", 3020, cuMemcpyDtoH),
    ENTRY("cuMemcpyDtoD", 3020, cuMemcpyDtoD),
    ENTRY("cuMemcpyHtoDAsync", 3020, cuMemcpyHtoDAsync),
    ENTRY("cuMemcpyDtoHAsync", 3020, cuMemcpyDtoHAsync),
    ENTRY("cuMemcpyDtoDAsync", 3020, cuMemcpyDtoDAsync),
    ENTRY("cuMemsetD8", 3020, cuMemsetD8),
    ENTRY("cuMemsetD16", 3020, cuMemsetD16),
    ENTRY("cuMemsetD32", 3020, cuMemsetD32),
    ENTRY("cuMemsetD8Async", 3020, cuMemsetD8Async),
    ENTRY("cuMemsetD16Async", 3020, cuMemsetD16Async),
    ENTRY("cuMemsetD32Async", 3020, cuMemsetD32Async),
    ENTRY("cuMemGetAllocationGranularity", 10020, cuMemGetAllocationGranularity),
    ENTRY("cuMemAddressReserve", 10020, cuMemAddressReserve),
    ENTRY("cuMemAddressFree", 10020, cuMemAddressFree),
    ENTRY("cuMemCreate", 10020, cuMemCreate),
    ENTRY("cuMemRelease", 10020, cuMemRelease),
    ENTRY("cuMemMap", 10020, cuMemMap),
    ENTRY("cuMemUnmap", 10020, cuMemUnmap),
    ENTRY("cuMemSetAccess", 10020, cuMemSetAccess),
    ENTRY("cuStreamCreate", 2000, cuStreamCreate),
    ENTRY("cuStreamCreateWithPriority", 5050, cuStreamCreateWithPriority),
    ENTRY("cuStreamDestroy", 4000, cuStreamDestroy),
    ENTRY("cuStreamSynchronize", 2000, cuStreamSynchronize),
    ENTRY("cuStreamQuery", 2000, cuStreamQuery),
    ENTRY("cuStreamGetFlags", 5050, cuStreamGetFlags),
    ENTRY("cuStreamWaitEvent", 3020, cuStreamWaitEvent),
    ENTRY("cuLaunchHostFunc", 10000, cuLaunchHostFunc),
    ENTRY("cuStreamBeginCapture", 10010, cuStreamBeginCapture),
    ENTRY("cuStreamEndCapture", 10000, cuStreamEndCapture),
    ENTRY("cuStreamIsCapturing", 10000, cuStreamIsCapturing),
    ENTRY("cuEventCreate", 2000, cuEventCreate),
    ENTRY("cuEventDestroy", 4000, cuEventDestroy),
    ENTRY("cuEventRecord", 2000, cuEventRecord),
    ENTRY("cuEventSynchronize", 2000, cuEventSynchronize),
    ENTRY("cuEventQuery", 2000, cuEventQuery),
    ENTRY("cuEventElapsedTime", 12080, cuEventElapsedTime_v2),
    ENTRY("cuEventElapsedTime", 2000, cuEventElapsedTime),
    ENTRY("cuModuleLoadData", 2000, cuModuleLoadData),
    ENTRY("cuModuleLoadDataEx", 2010, cuModuleLoadDataEx),
    ENTRY("cuModuleUnload", 2000, cuModuleUnload),
    ENTRY("cuModuleGetFunction", 2000, cuModuleGetFunction),
    ENTRY("cuModuleGetGlobal", 3020, cuModuleGetGlobal),
    ENTRY("cuFuncGetAttribute", 2020, cuFuncGetAttribute),
    ENTRY("cuFuncSetAttribute", 9000, cuFuncSetAttribute),
    ENTRY("cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor),
    ENTRY("cuLaunchKernel", 4000, cuLaunchKernel),
    ENTRY("cuLaunchKernelEx", 11060, cuLaunchKernelEx),
    ENTRY("cuGraphCreate", 10000, cuGraphCreate),
    ENTRY("cuGraphDestroy", 10000, cuGraphDestroy),
    ENTRY("cuGraphAddKernelNode", 12000, cuGraphAddKernelNode_v2),
    ENTRY("cuGraphAddKernelNode", 10000, cuGraphAddKernelNode),
    ENTRY("cuGraphAddMemcpyNode", 10000, cuGraphAddMemcpyNode),
    ENTRY("cuGraphAddMemsetNode", 10000, cuGraphAddMemsetNode),
    ENTRY("cuGraphAddHostNode", 10000, cuGraphAddHostNode),
    ENTRY("cuGraphAddEmptyNode", 10000, cuGraphAddEmptyNode),
    ENTRY("cuGraphAddChildGraphNode", 10000, cuGraphAddChildGraphNode),
    ENTRY("cuGraphAddDependencies", 12030, cuGraphAddDependencies),
    ENTRY("cuGraphGetNodes", 10000, cuGraphGetNodes),
    ENTRY("cuGraphNodeGetType", 10000, cuGraphNodeGetType),
    ENTRY("cuGraphInstantiate", 12000, cuGraphInstantiateWithFlags),
    ENTRY("cuGraphInstantiateWithFlags", 11040, cuGraphInstantiateWithFlags),
    ENTRY("cuGraphInstantiateWithParams", 12000, cuGraphInstantiateWithParams),
    ENTRY("cuGraphExecDestroy", 10000, cuGraphExecDestroy),
    ENTRY("cuGraphExecKernelNodeSetParams", 12000, cuGraphExecKernelNodeSetParams_v2),
    ENTRY("cuGraphExecKernelNodeSetParams", 10010, cuGraphExecKernelNodeSetParams),
    ENTRY("cuGraphExecMemcpyNodeSetParams", 10020, cuGraphExecMemcpyNodeSetParams),
    ENTRY("cuGraphExecMemsetNodeSetParams", 10020, cuGraphExecMemsetNodeSetParams),
    ENTRY("cuGraphExecUpdate", 12000, cuGraphExecUpdate),
    ENTRY("cuGraphUpload", 11010, cuGraphUpload),
    ENTRY("cuGraphLaunch", 10000, cuGraphLaunch),
};

struct ErrorText {
  CUresult code;
  const char* name;
  const char* text;
};

#define ERROR_TEXT(code, text) \
  { code, #code, text }
constexpr ErrorText kErrors[] = {
    ERROR_TEXT(CUDA_SUCCESS, "no error"),
    ERROR_TEXT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR_TEXT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR_TEXT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR_TEXT(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    ERROR_TEXT(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    ERROR_TEXT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR_TEXT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR_TEXT(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ERROR_TEXT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR_TEXT(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR_TEXT(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    ERROR_TEXT(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ERROR_TEXT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    ERROR_TEXT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR_TEXT(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ERROR_TEXT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR_TEXT(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR_TEXT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR_TEXT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    ERROR_TEXT(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    ERROR_TEXT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    ERROR_TEXT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    ERROR_TEXT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
               "part or all of the requested memory range is already mapped"),
    ERROR_TEXT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    ERROR_TEXT(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ERROR_TEXT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR_TEXT(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    ERROR_TEXT(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination"),
    ERROR_TEXT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    ERROR_TEXT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    ERROR_TEXT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
               "the graph update was not performed because it included changes which violated constraints specific to "
               "instantiated graph update"),
    ERROR_TEXT(CUDA_ERROR_UNKNOWN, "unknown error"),
};

const ErrorText* error_text(CUresult code) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

/// The newest form that an application of `version` knows.
CUdriverProcAddressQueryResult find(const char* name, int version, void** function) {
  *function = nullptr;
  bool known = false;
  for (const Entry& entry : kEntries) {
    if (std::strcmp(entry.name, name) != 0) continue;
    known = true;
    if (entry.version > version) continue;
    *function = entry.function;
    return CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

}  // namespace

namespace crucible::emulators::nvidia {

CUresult code_of(const emulator::Rule& rule, CUresult usual) {
  if (rule.code.empty()) return usual;
  for (const ErrorText& error : kErrors) {
    if (rule.code == error.name) return error.code;
  }
  return usual;
}

}  // namespace crucible::emulators::nvidia

CUresult cuGetErrorName(CUresult code, const char** text) {
  const ErrorText* const error = error_text(code);
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = error == nullptr ? nullptr : error->name;
  return error == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  const ErrorText* const error = error_text(code);
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = error == nullptr ? nullptr : error->text;
  return error == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char* name, void** function, int version, cuuint64_t,
                             CUdriverProcAddressQueryResult* result) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUdriverProcAddressQueryResult found = find(name, version, function);
  if (result != nullptr) *result = found;
  return found == CU_GET_PROC_ADDRESS_SUCCESS || result != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

/// NVRTC opens the driver while it compiles and asks for private tables: it copes with an error, not with a missing
/// function.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
