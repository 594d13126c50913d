// The part of CUPTI that this plugin calls, as its C ABI is in versions 12 and 13: NVIDIA's headers are not needed to
// build. Names are those of cupti_activity.h, cupti_profiler_host.h, cupti_profiler_target.h and
// cupti_range_profiler.h; cupti_layout_test.cpp compares where they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/nvidia/cuda_types.hpp"

namespace crucible_nvidia {

using CUptiResult = int;
inline constexpr CUptiResult CUPTI_SUCCESS = 0, CUPTI_ERROR_OUT_OF_MEMORY = 8, CUPTI_ERROR_HARDWARE_BUSY = 26,
                             CUPTI_ERROR_NOT_SUPPORTED = 27, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED = 33,
                             CUPTI_ERROR_INSUFFICIENT_PRIVILEGES = 35,
                             CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
                             CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES = 40,
                             CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED = 41,
                             CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED = 42, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED = 43,
                             CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED = 44, CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED = 45;

// Of CUpti_ActivityKind and CUpti_ActivityFlag.
inline constexpr int CUPTI_ACTIVITY_KIND_MEMCPY = 1, CUPTI_ACTIVITY_KIND_MEMSET = 2,
                     CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10;
inline constexpr std::uint32_t CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1;

// Records as versions 9 (CUDA 12) and 10 (CUDA 13) of the kernel's and 5, 6 and 4 of the others' begin; newer ones grow
// behind that.
struct CuptiKernelRecord {
  std::int32_t kind;
  std::uint8_t cache_configuration, shared_memory_configuration;
  std::uint16_t registersPerThread;
  std::int32_t cache_requested, cache_executed;
  std::uint64_t start, end, completed;  // nanoseconds
  std::uint32_t deviceId, contextId, streamId;
  std::int32_t grid[3], block[3];
  std::int32_t staticSharedMemory, dynamicSharedMemory;
  std::uint32_t localMemoryPerThread, localMemoryTotal, correlationId;
  std::int64_t gridId;
  const char* name;
  void* reserved0;
  std::uint64_t queued, submitted;
  std::uint8_t launchType, carveout_is_requested, carveout_requested, padding;
  std::uint32_t sharedMemoryExecuted;
  std::uint64_t graphNodeId;
  std::int32_t shmemLimitConfig;
  std::uint32_t graphId;  // 0: launched by no graph
};
struct CuptiTransferRecord {
  std::int32_t kind;
  std::uint32_t kinds_or_value;  // of a copy: what it goes from and to; of a fill: the value
  std::uint64_t bytes, start, end;
  std::uint32_t deviceId, contextId, streamId, correlationId;
  std::uint32_t of_kind[4];  // differs between copies and fills
  std::uint64_t graphNodeId;
  std::uint32_t graphId;
};

using CuptiBufferRequested = void (*)(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
using CuptiBufferCompleted = void (*)(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                                      std::size_t valid);

// Of CUpti_MetricType, CUpti_ProfilerType, CUpti_ProfilerRange and CUpti_ProfilerReplayMode.
inline constexpr int CUPTI_METRIC_TYPE_COUNTER = 0, CUPTI_PROFILER_TYPE_RANGE_PROFILER = 0, CUPTI_UserRange = 2,
                     CUPTI_UserReplay = 3;

// Parameters of the profiling functions: each begins with the bytes up to the end of its last member, without what pads
// it.
struct CUpti_Profiler_Initialize_Params {
  std::size_t structSize;
  void* pPriv;
};
struct CUpti_Device_GetChipName_Params {
  std::size_t structSize;
  void* pPriv;
  std::size_t deviceIndex;
  const char* pChipName;
};
struct CUpti_Profiler_GetCounterAvailability_Params {
  std::size_t structSize;
  void* pPriv;
  CUcontext ctx;
  std::size_t counterAvailabilityImageSize;
  std::uint8_t* pCounterAvailabilityImage;
};
struct CUpti_Profiler_Host_Initialize_Params {
  std::size_t structSize;
  void* pPriv;
  int profilerType;
  const char* pChipName;
  const std::uint8_t* pCounterAvailabilityImage;
  void* pHostObject;
};
struct CUpti_Profiler_Host_Deinitialize_Params {
  std::size_t structSize;
  void* pPriv;
  void* pHostObject;
};
struct CUpti_Profiler_Host_GetBaseMetrics_Params {
  std::size_t structSize;
  void* pPriv;
  void* pHostObject;
  int metricType;
  const char** ppMetricNames;
  std::size_t numMetrics;
};
struct CUpti_Profiler_Host_ConfigAddMetrics_Params {
  std::size_t structSize;
  void* pPriv;
  void* pHostObject;
  const char** ppMetricNames;
  std::size_t numMetrics;
};
struct CUpti_Profiler_Host_GetConfigImageSize_Params {
  std::size_t structSize;
  void* pPriv;
  void* pHostObject;
  std::size_t configImageSize;
};
struct CUpti_Profiler_Host_GetConfigImage_Params {
  std::size_t structSize;
  void* pPriv;
  void* pHostObject;
  std::size_t configImageSize;
  std::uint8_t* pConfigImage;
};
struct CUpti_Profiler_Host_GetNumOfPasses_Params {
  std::size_t structSize;
  void* pPriv;
  std::size_t configImageSize;
  std::uint8_t* pConfigImage;
  std::size_t numOfPasses;
};
struct CUpti_Profiler_Host_EvaluateToGpuValues_Params {
  std::size_t structSize;
  void* pPriv;
  void* pHostObject;
  const std::uint8_t* pCounterDataImage;
  std::size_t counterDataImageSize, rangeIndex;
  const char** ppMetricNames;
  std::size_t numMetrics;
  double* pMetricValues;
};
struct CUpti_RangeProfiler_Enable_Params {
  std::size_t structSize;
  void* pPriv;
  CUcontext ctx;
  void* pRangeProfilerObject;
};
/// Of Disable, Start and PopRange, which are alike.
struct CUpti_RangeProfiler_Object_Params {
  std::size_t structSize;
  void* pPriv;
  void* pRangeProfilerObject;
};
struct CUpti_RangeProfiler_GetCounterDataSize_Params {
  std::size_t structSize;
  void* pPriv;
  void* pRangeProfilerObject;
  const char** pMetricNames;
  std::size_t numMetrics, maxNumOfRanges;
  std::uint32_t maxNumRangeTreeNodes;
  std::size_t counterDataSize;
};
struct CUpti_RangeProfiler_CounterDataImage_Initialize_Params {
  std::size_t structSize;
  void* pPriv;
  void* pRangeProfilerObject;
  std::size_t counterDataSize;
  std::uint8_t* pCounterData;
};
struct CUpti_RangeProfiler_SetConfig_Params {
  std::size_t structSize;
  void* pPriv;
  void* pRangeProfilerObject;
  std::size_t configSize;
  const std::uint8_t* pConfig;
  std::size_t counterDataImageSize;
  std::uint8_t* pCounterDataImage;
  int range, replayMode;
  std::size_t maxRangesPerPass;
  std::uint16_t numNestingLevels, minNestingLevel;
  std::size_t passIndex;
  std::uint16_t targetNestingLevel;
};
struct CUpti_RangeProfiler_PushRange_Params {
  std::size_t structSize;
  void* pPriv;
  void* pRangeProfilerObject;
  const char* pRangeName;
};
struct CUpti_RangeProfiler_Stop_Params {
  std::size_t structSize;
  void* pPriv;
  void* pRangeProfilerObject;
  std::size_t passIndex, targetNestingLevel;
  std::uint8_t isAllPassSubmitted;
};
struct CUpti_RangeProfiler_DecodeData_Params {
  std::size_t structSize;
  void* pPriv;
  void* pRangeProfilerObject;
  std::size_t numOfRangeDropped;
};

// Every function that is called: X(name, parameters); all give a CUptiResult.
#define CRUCIBLE_CUPTI_FUNCTIONS(X)                                                                   \
  X(cuptiGetVersion, (std::uint32_t* version))                                                        \
  X(cuptiGetResultString, (CUptiResult result, const char** text))                                    \
  X(cuptiGetTimestamp, (std::uint64_t* nanoseconds))                                                  \
  X(cuptiActivityRegisterCallbacks, (CuptiBufferRequested requested, CuptiBufferCompleted completed)) \
  X(cuptiActivityEnable, (int kind))                                                                  \
  X(cuptiActivityDisable, (int kind))                                                                 \
  X(cuptiActivityFlushAll, (std::uint32_t flag))                                                      \
  X(cuptiActivityGetNextRecord, (std::uint8_t* buffer, std::size_t valid, void** record))             \
  X(cuptiActivityGetNumDroppedRecords, (CUcontext context, std::uint32_t stream, std::size_t* dropped))

// Those that counters need, of CUDA 13: absent from older libraries. X(name, parameters' type).
#define CRUCIBLE_CUPTI_PROFILER_FUNCTIONS(X)                                                              \
  X(cuptiProfilerInitialize, CUpti_Profiler_Initialize_Params)                                            \
  X(cuptiDeviceGetChipName, CUpti_Device_GetChipName_Params)                                              \
  X(cuptiProfilerGetCounterAvailability, CUpti_Profiler_GetCounterAvailability_Params)                    \
  X(cuptiProfilerHostInitialize, CUpti_Profiler_Host_Initialize_Params)                                   \
  X(cuptiProfilerHostDeinitialize, CUpti_Profiler_Host_Deinitialize_Params)                               \
  X(cuptiProfilerHostGetBaseMetrics, CUpti_Profiler_Host_GetBaseMetrics_Params)                           \
  X(cuptiProfilerHostConfigAddMetrics, CUpti_Profiler_Host_ConfigAddMetrics_Params)                       \
  X(cuptiProfilerHostGetConfigImageSize, CUpti_Profiler_Host_GetConfigImageSize_Params)                   \
  X(cuptiProfilerHostGetConfigImage, CUpti_Profiler_Host_GetConfigImage_Params)                           \
  X(cuptiProfilerHostGetNumOfPasses, CUpti_Profiler_Host_GetNumOfPasses_Params)                           \
  X(cuptiProfilerHostEvaluateToGpuValues, CUpti_Profiler_Host_EvaluateToGpuValues_Params)                 \
  X(cuptiRangeProfilerEnable, CUpti_RangeProfiler_Enable_Params)                                          \
  X(cuptiRangeProfilerDisable, CUpti_RangeProfiler_Object_Params)                                         \
  X(cuptiRangeProfilerGetCounterDataSize, CUpti_RangeProfiler_GetCounterDataSize_Params)                  \
  X(cuptiRangeProfilerCounterDataImageInitialize, CUpti_RangeProfiler_CounterDataImage_Initialize_Params) \
  X(cuptiRangeProfilerSetConfig, CUpti_RangeProfiler_SetConfig_Params)                                    \
  X(cuptiRangeProfilerStart, CUpti_RangeProfiler_Object_Params)                                           \
  X(cuptiRangeProfilerPushRange, CUpti_RangeProfiler_PushRange_Params)                                    \
  X(cuptiRangeProfilerPopRange, CUpti_RangeProfiler_Object_Params)                                        \
  X(cuptiRangeProfilerStop, CUpti_RangeProfiler_Stop_Params)                                              \
  X(cuptiRangeProfilerDecodeData, CUpti_RangeProfiler_DecodeData_Params)

}  // namespace crucible_nvidia
