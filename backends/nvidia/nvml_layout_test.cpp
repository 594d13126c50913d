// Our declarations of NVML are those of nvml.h, where a toolkit is installed; skipped elsewhere.
#include <gtest/gtest.h>

#include "backends/nvidia/nvml.hpp"

// A macro there, so that ours has to be read before.
static constexpr unsigned long long kXidCriticalError = crucible_nvidia::nvmlEventTypeXidCriticalError;

#if __has_include(<nvml.h>)
#define CRUCIBLE_HAS_NVML_H
#include <nvml.h>
#endif

namespace {

#ifdef CRUCIBLE_HAS_NVML_H

namespace ours = crucible_nvidia;

TEST(NvmlLayout, StructsAreThoseOfNvmlH) {
#define SAME_SIZE(type) static_assert(sizeof(ours::type) == sizeof(::type))
#define SAME_MEMBER(type, member)                                       \
  static_assert(offsetof(ours::type, member) == offsetof(::type, member)); \
  static_assert(sizeof(ours::type{}.member) == sizeof(::type{}.member))
  SAME_SIZE(nvmlMemory_t);
  SAME_MEMBER(nvmlMemory_t, total);
  SAME_MEMBER(nvmlMemory_t, used);
  SAME_SIZE(nvmlUtilization_t);
  SAME_MEMBER(nvmlUtilization_t, gpu);
  SAME_SIZE(nvmlProcessInfo_t);
  SAME_MEMBER(nvmlProcessInfo_t, pid);
  SAME_SIZE(nvmlEventData_t);
  SAME_MEMBER(nvmlEventData_t, device);
  SAME_MEMBER(nvmlEventData_t, eventType);
  SAME_MEMBER(nvmlEventData_t, eventData);
}

TEST(NvmlLayout, ConstantsAreThoseOfNvmlH) {
#define SAME(name) EXPECT_EQ(static_cast<long>(ours::name), static_cast<long>(::name)) << #name
  SAME(NVML_SUCCESS);
  SAME(NVML_ERROR_NOT_SUPPORTED);
  SAME(NVML_ERROR_NO_PERMISSION);
  SAME(NVML_ERROR_INSUFFICIENT_SIZE);
  SAME(NVML_ERROR_TIMEOUT);
  SAME(NVML_ERROR_GPU_IS_LOST);
  SAME(NVML_ERROR_RESET_REQUIRED);
  SAME(NVML_TEMPERATURE_GPU);
  SAME(NVML_TEMPERATURE_THRESHOLD_SHUTDOWN);
  SAME(NVML_TEMPERATURE_THRESHOLD_SLOWDOWN);
  SAME(NVML_CLOCK_SM);
  SAME(NVML_CLOCK_MEM);
  SAME(NVML_MEMORY_ERROR_TYPE_CORRECTED);
  SAME(NVML_MEMORY_ERROR_TYPE_UNCORRECTED); SAME(NVML_VOLATILE_ECC); SAME(NVML_AGGREGATE_ECC);
  SAME(NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS);
  SAME(NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR);
  EXPECT_EQ(kXidCriticalError, static_cast<unsigned long long>(nvmlEventTypeXidCriticalError));
}

#else

TEST(NvmlLayout, StructsAreThoseOfNvmlH) {
  EXPECT_EQ(kXidCriticalError, 8u);
  GTEST_SKIP() << "nvml.h is not here: install NVIDIA's toolkit to compare";
}

#endif

}  // namespace
