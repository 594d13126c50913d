// Level Zero as this plugin sees it: the functions of the machine's loader, found at run time, and its errors in words.
// The plugin links no library of Intel's, so it is built and loaded on machines that have none.
#pragma once

#include <string>
#include <string_view>

#include "backends/intel/vendor_headers.hpp"
#include "plugins/sdk/owned.hpp"

namespace crucible_intel {

// The functions that are called always: they are in interface 1.0.
#define CRUCIBLE_LEVEL_ZERO_FUNCTIONS(X)                                                                               \
  X(zeInit)                                                                                                            \
  X(zeDriverGet) X(zeDriverGetApiVersion) X(zeDriverGetProperties) X(zeDriverGetExtensionProperties) X(zeDeviceGet)    \
      X(zeDeviceGetProperties) X(zeDeviceGetComputeProperties) X(zeDeviceGetModuleProperties)                          \
          X(zeDeviceGetMemoryProperties) X(zeDeviceGetCommandQueueGroupProperties) X(zeContextCreate)                  \
              X(zeContextDestroy) X(zeMemAllocDevice) X(zeMemFree) X(zeCommandQueueCreate) X(zeCommandQueueDestroy)    \
                  X(zeCommandQueueExecuteCommandLists) X(zeCommandQueueSynchronize) X(zeCommandListCreate)             \
                      X(zeCommandListCreateImmediate) X(zeCommandListDestroy) X(zeCommandListClose)                    \
                          X(zeCommandListAppendBarrier) X(zeCommandListAppendMemoryCopy)                               \
                              X(zeCommandListAppendMemoryFill) X(zeCommandListAppendLaunchKernel) X(zeEventPoolCreate) \
                                  X(zeEventPoolDestroy) X(zeEventCreate) X(zeEventDestroy)                             \
                                      X(zeEventQueryKernelTimestamp) X(zeModuleCreate) X(zeModuleDestroy)              \
                                          X(zeModuleBuildLogGetString) X(zeModuleBuildLogDestroy)                      \
                                              X(zeModuleGetNativeBinary) X(zeKernelCreate) X(zeKernelDestroy)          \
                                                  X(zeKernelSetGroupSize) X(zeKernelSetIndirectAccess)                 \
                                                      X(zeKernelSetArgumentValue)

// What newer loaders have beside: a loader without them does.
#define CRUCIBLE_LEVEL_ZERO_OPTIONAL_FUNCTIONS(X)                                                \
  X(zeDriverGetExtensionFunctionAddress)                                                         \
  X(zelLoaderTranslateHandle) X(zeDeviceGetGlobalTimestamps) X(zeCommandListGetNextCommandIdExp) \
      X(zeCommandListUpdateMutableCommandsExp)

// A loader without one of them has no metrics.
#define CRUCIBLE_METRIC_FUNCTIONS(X)                                                                            \
  X(zetMetricGroupGet)                                                                                          \
  X(zetMetricGroupGetProperties) X(zetMetricGet) X(zetMetricGetProperties) X(zetContextActivateMetricGroups)    \
      X(zetMetricQueryPoolCreate) X(zetMetricQueryPoolDestroy) X(zetMetricQueryCreate) X(zetMetricQueryDestroy) \
          X(zetMetricQueryReset) X(zetCommandListAppendMetricQueryBegin) X(zetCommandListAppendMetricQueryEnd)  \
              X(zetMetricQueryGetData) X(zetMetricGroupCalculateMetricValues)

struct Functions {
#define CRUCIBLE_LEVEL_ZERO_MEMBER(name) decltype(&::name) name = nullptr;
  CRUCIBLE_LEVEL_ZERO_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_MEMBER)
  CRUCIBLE_LEVEL_ZERO_OPTIONAL_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_MEMBER)  // null: not there
  CRUCIBLE_METRIC_FUNCTIONS(CRUCIBLE_LEVEL_ZERO_MEMBER)               // the same
#undef CRUCIBLE_LEVEL_ZERO_MEMBER
};

/// What the option `library` names, or the loader. Threads: any.
std::string library_name();
/// The functions of that library, loaded and initialised at the first call and never
/// unloaded: the reference is good until the process ends. Threads: any. Errors: UNAVAILABLE with what was tried and
/// what to install, INCOMPATIBLE for a library that lacks functions.
const Functions& level_zero();

/// "ZE_RESULT_ERROR_DEVICE_LOST (0x70000001)"; a number alone for one that is not known.
std::string error_name(ze_result_t code);

/// Throws a Failure "`what`: ZE_RESULT_..." unless `code` is success: OUT_OF_MEMORY, DEVICE_LOST, UNAVAILABLE or
/// INTERNAL, with the number as vendor.code.
void check(ze_result_t code, std::string_view what);

/// An object of Level Zero.
template <class Handle, auto destroy>
using Owned = crucible::sdk::Owned<Functions, Handle, destroy>;
using OwnedContext = Owned<ze_context_handle_t, &Functions::zeContextDestroy>;
using OwnedQueue = Owned<ze_command_queue_handle_t, &Functions::zeCommandQueueDestroy>;
using OwnedList = Owned<ze_command_list_handle_t, &Functions::zeCommandListDestroy>;
using OwnedModule = Owned<ze_module_handle_t, &Functions::zeModuleDestroy>;
using OwnedLog = Owned<ze_module_build_log_handle_t, &Functions::zeModuleBuildLogDestroy>;
using OwnedKernel = Owned<ze_kernel_handle_t, &Functions::zeKernelDestroy>;
using OwnedEventPool = Owned<ze_event_pool_handle_t, &Functions::zeEventPoolDestroy>;
using OwnedEvent = Owned<ze_event_handle_t, &Functions::zeEventDestroy>;
using OwnedMetricQueryPool = Owned<zet_metric_query_pool_handle_t, &Functions::zetMetricQueryPoolDestroy>;
using OwnedMetricQuery = Owned<zet_metric_query_handle_t, &Functions::zetMetricQueryDestroy>;

}  // namespace crucible_intel
