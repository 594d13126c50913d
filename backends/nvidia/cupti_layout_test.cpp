// Our declarations of CUPTI's structs, constants and functions are those of its headers, where they are; skipped
// elsewhere.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "backends/nvidia/cupti_types.hpp"

#ifdef CRUCIBLE_HAS_CUPTI_H
#include <cuda.h>
#include <cupti.h>
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#endif

namespace {

#ifdef CRUCIBLE_HAS_CUPTI_H

namespace ours = crucible_nvidia;

#define SAME(name) EXPECT_EQ(static_cast<long>(ours::name), static_cast<long>(::name)) << #name
#define SAME_MEMBER(ours_struct, theirs, member, their_member)                                   \
  EXPECT_EQ(offsetof(ours::ours_struct, member), offsetof(theirs, their_member)) << #their_member; \
  EXPECT_EQ(sizeof(ours::ours_struct{}.member), sizeof(theirs{}.their_member)) << #their_member

TEST(CuptiLayout, ConstantsAreThoseOfItsHeaders) {
  SAME(CUPTI_SUCCESS);
  SAME(CUPTI_ERROR_OUT_OF_MEMORY);
  SAME(CUPTI_ERROR_HARDWARE_BUSY);
  SAME(CUPTI_ERROR_NOT_SUPPORTED);
  SAME(CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED); SAME(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  SAME(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED); SAME(CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
  SAME(CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED);
  SAME(CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED);
  SAME(CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED);
  SAME(CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED); SAME(CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED);
  SAME(CUPTI_ACTIVITY_KIND_MEMCPY); SAME(CUPTI_ACTIVITY_KIND_MEMSET); SAME(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  SAME(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  SAME(CUPTI_METRIC_TYPE_COUNTER);
  SAME(CUPTI_PROFILER_TYPE_RANGE_PROFILER);
  SAME(CUPTI_UserRange);
  SAME(CUPTI_UserReplay);
}

TEST(CuptiLayout, RecordsBeginAsOursDo) {
#define KERNEL(member)                                                    \
  SAME_MEMBER(CuptiKernelRecord, CUpti_ActivityKernel9, member, member); \
  SAME_MEMBER(CuptiKernelRecord, CUpti_ActivityKernel10, member, member)
  KERNEL(kind);
  KERNEL(registersPerThread);
  KERNEL(start);
  KERNEL(end);
  KERNEL(streamId);
  KERNEL(staticSharedMemory);
  KERNEL(dynamicSharedMemory);
  KERNEL(name); KERNEL(graphNodeId); KERNEL(graphId);
#define TRANSFER(member)                                                     \
  SAME_MEMBER(CuptiTransferRecord, CUpti_ActivityMemcpy5, member, member); \
  SAME_MEMBER(CuptiTransferRecord, CUpti_ActivityMemcpy6, member, member); \
  SAME_MEMBER(CuptiTransferRecord, CUpti_ActivityMemset4, member, member)
  TRANSFER(kind);
  TRANSFER(bytes);
  TRANSFER(start);
  TRANSFER(end);
  TRANSFER(streamId);
  TRANSFER(graphNodeId);
  TRANSFER(graphId);
}

/// The size that a function is told is up to the end of the last member, and that has to lie where it does in CUPTI.
#define SAME_END(type, last)                                                                             \
  SAME_MEMBER(type, type, last, last);                                                                   \
  EXPECT_EQ(offsetof(ours::type, last) + sizeof(ours::type{}.last), std::size_t{type##_STRUCT_SIZE}) << #type

TEST(CuptiLayout, ParametersAreThoseOfItsFunctions) {
  SAME_END(CUpti_Profiler_Initialize_Params, pPriv);
  SAME_END(CUpti_Device_GetChipName_Params, pChipName);
  SAME_END(CUpti_Profiler_GetCounterAvailability_Params, pCounterAvailabilityImage);
  SAME_END(CUpti_Profiler_Host_Initialize_Params, pHostObject);
  SAME_END(CUpti_Profiler_Host_Deinitialize_Params, pHostObject);
  SAME_END(CUpti_Profiler_Host_GetBaseMetrics_Params, numMetrics);
  SAME_END(CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics);
  SAME_END(CUpti_Profiler_Host_GetConfigImageSize_Params, configImageSize);
  SAME_END(CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage);
  SAME_END(CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses);
  SAME_END(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues);
  SAME_END(CUpti_RangeProfiler_Enable_Params, pRangeProfilerObject);
  SAME_END(CUpti_RangeProfiler_GetCounterDataSize_Params, counterDataSize);
  SAME_END(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, pCounterData);
  SAME_END(CUpti_RangeProfiler_SetConfig_Params, targetNestingLevel);
  SAME_END(CUpti_RangeProfiler_PushRange_Params, pRangeName);
  SAME_END(CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted);
  SAME_END(CUpti_RangeProfiler_DecodeData_Params, numOfRangeDropped);
  const std::size_t object = offsetof(ours::CUpti_RangeProfiler_Object_Params, pRangeProfilerObject);
  EXPECT_EQ(object, offsetof(CUpti_RangeProfiler_Disable_Params, pRangeProfilerObject));
  EXPECT_EQ(object, offsetof(CUpti_RangeProfiler_Start_Params, pRangeProfilerObject));
  EXPECT_EQ(object, offsetof(CUpti_RangeProfiler_PopRange_Params, pRangeProfilerObject));
  for (const std::size_t size :
       {CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE, CUpti_RangeProfiler_Start_Params_STRUCT_SIZE,
        CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE})
    EXPECT_EQ(size, sizeof(ours::CUpti_RangeProfiler_Object_Params));
}

TEST(CuptiLayout, MembersBetweenLieWhereTheirsDo) {
#define MEMBER(type, member) SAME_MEMBER(type, type, member, member)
  MEMBER(CUpti_Device_GetChipName_Params, deviceIndex); MEMBER(CUpti_Profiler_GetCounterAvailability_Params, ctx);
  MEMBER(CUpti_Profiler_GetCounterAvailability_Params, counterAvailabilityImageSize);
  MEMBER(CUpti_Profiler_Host_Initialize_Params, profilerType);
  MEMBER(CUpti_Profiler_Host_Initialize_Params, pChipName);
  MEMBER(CUpti_Profiler_Host_Initialize_Params, pCounterAvailabilityImage);
  MEMBER(CUpti_Profiler_Host_GetBaseMetrics_Params, metricType);
  MEMBER(CUpti_Profiler_Host_GetBaseMetrics_Params, ppMetricNames);
  MEMBER(CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames);
  MEMBER(CUpti_Profiler_Host_GetConfigImage_Params, configImageSize);
  MEMBER(CUpti_Profiler_Host_GetNumOfPasses_Params, configImageSize);
  MEMBER(CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage);
  MEMBER(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage);
  MEMBER(CUpti_Profiler_Host_EvaluateToGpuValues_Params, counterDataImageSize);
  MEMBER(CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
  MEMBER(CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
  MEMBER(CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics); MEMBER(CUpti_RangeProfiler_Enable_Params, ctx);
  MEMBER(CUpti_RangeProfiler_GetCounterDataSize_Params, pMetricNames);
  MEMBER(CUpti_RangeProfiler_GetCounterDataSize_Params, numMetrics);
  MEMBER(CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumOfRanges);
  MEMBER(CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumRangeTreeNodes);
  MEMBER(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, counterDataSize);
  MEMBER(CUpti_RangeProfiler_SetConfig_Params, configSize);
  MEMBER(CUpti_RangeProfiler_SetConfig_Params, pConfig);
  MEMBER(CUpti_RangeProfiler_SetConfig_Params, counterDataImageSize);
  MEMBER(CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage); MEMBER(CUpti_RangeProfiler_SetConfig_Params, range);
  MEMBER(CUpti_RangeProfiler_SetConfig_Params, replayMode);
  MEMBER(CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass);
  MEMBER(CUpti_RangeProfiler_SetConfig_Params, numNestingLevels);
  MEMBER(CUpti_RangeProfiler_SetConfig_Params, minNestingLevel);
  MEMBER(CUpti_RangeProfiler_SetConfig_Params, passIndex); MEMBER(CUpti_RangeProfiler_Stop_Params, passIndex);
}

/// Bytes of a function's result and of what it takes.
template <class Result, class... Parameters>
std::vector<std::size_t> sizes_of(Result (*)(Parameters...)) {
  return {sizeof(Result), sizeof(Parameters)...};
}

TEST(CuptiLayout, FunctionsTakeWhatOursDo) {
  using ours::CUcontext, ours::CuptiBufferCompleted, ours::CuptiBufferRequested, ours::CUptiResult;
#define SAME_SIZES(name, parameters)                                         \
  EXPECT_EQ(sizes_of(static_cast<ours::CUptiResult(*) parameters>(nullptr)), \
            sizes_of(static_cast<decltype(&::name)>(nullptr)))               \
      << #name;
  CRUCIBLE_CUPTI_FUNCTIONS(SAME_SIZES)
}

#else

TEST(CuptiLayout, ConstantsAreThoseOfItsHeaders) {
  GTEST_SKIP() << "no cupti.h: install NVIDIA's toolkit or nvidia-cuda-cupti to compare with it";
}

#endif

}  // namespace
