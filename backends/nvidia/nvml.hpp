// NVML, the library that nvidia-smi asks: temperature, power, clocks, memory, errors. A device works without it.
#pragma once

#include <cstddef>
#include <string>

namespace crucible_nvidia {

using nvmlReturn_t = int;
using nvmlDevice_t = struct nvmlDevice_st*;
using nvmlEventSet_t = struct nvmlEventSet_st*;
inline constexpr nvmlReturn_t NVML_SUCCESS = 0, NVML_ERROR_NOT_SUPPORTED = 3, NVML_ERROR_NO_PERMISSION = 4,
                              NVML_ERROR_INSUFFICIENT_SIZE = 7, NVML_ERROR_TIMEOUT = 10, NVML_ERROR_GPU_IS_LOST = 15,
                              NVML_ERROR_RESET_REQUIRED = 16;
inline constexpr int NVML_TEMPERATURE_GPU = 0, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0,
                     NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1;
inline constexpr int NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2;
inline constexpr int NVML_MEMORY_ERROR_TYPE_CORRECTED = 0, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
                     NVML_VOLATILE_ECC = 0, NVML_AGGREGATE_ECC = 1;
inline constexpr int NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS = 0,
                     NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 1;
inline constexpr unsigned long long nvmlEventTypeXidCriticalError = 8;
struct nvmlMemory_t {
  unsigned long long total, free, used;
};
struct nvmlUtilization_t {
  unsigned gpu, memory;
};
struct nvmlProcessInfo_t {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId, computeInstanceId;
};
struct nvmlEventData_t {
  nvmlDevice_t device;
  unsigned long long eventType, eventData;
  unsigned gpuInstanceId, computeInstanceId;
};

#define CRUCIBLE_NVML_FUNCTIONS(X)                                                                                 \
  X(nvmlInit_v2, ())                                                                                               \
  X(nvmlDeviceGetHandleByUUID, (const char* uuid, nvmlDevice_t* device))                                           \
  X(nvmlDeviceGetHandleByPciBusId_v2, (const char* pci, nvmlDevice_t* device))                                     \
  X(nvmlDeviceGetTemperature, (nvmlDevice_t device, int sensor, unsigned* celsius))                                \
  X(nvmlDeviceGetTemperatureThreshold, (nvmlDevice_t device, int threshold, unsigned* celsius))                    \
  X(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned* milliwatt))                                           \
  X(nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t device, unsigned* milliwatt))                                   \
  X(nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t device, unsigned long long* millijoule))                    \
  X(nvmlDeviceGetClockInfo, (nvmlDevice_t device, int clock, unsigned* megahertz))                                 \
  X(nvmlDeviceGetMaxClockInfo, (nvmlDevice_t device, int clock, unsigned* megahertz))                              \
  X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t * memory))                                         \
  X(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t * rates))                               \
  X(nvmlDeviceGetTotalEccErrors, (nvmlDevice_t device, int type, int counter, unsigned long long* errors))         \
  X(nvmlDeviceGetRetiredPages, (nvmlDevice_t device, int cause, unsigned* count, unsigned long long* addresses))   \
  X(nvmlDeviceGetRetiredPagesPendingStatus, (nvmlDevice_t device, int* pending))                                   \
  X(nvmlDeviceGetRemappedRows,                                                                                     \
    (nvmlDevice_t device, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed))        \
  X(nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t device, unsigned long long* reasons))                 \
  X(nvmlDeviceGetCurrentClocksEventReasons, (nvmlDevice_t device, unsigned long long* reasons))                    \
  X(nvmlDeviceGetComputeRunningProcesses_v2, (nvmlDevice_t device, unsigned* count, nvmlProcessInfo_t* processes)) \
  X(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t device, unsigned* count, nvmlProcessInfo_t* processes)) \
  X(nvmlEventSetCreate, (nvmlEventSet_t * set))                                                                    \
  X(nvmlDeviceRegisterEvents, (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set))                 \
  X(nvmlEventSetWait_v2, (nvmlEventSet_t set, nvmlEventData_t * data, unsigned timeout_ms))                        \
  X(nvmlEventSetFree, (nvmlEventSet_t set))

struct Nvml {
#define CRUCIBLE_NVML_MEMBER(name, parameters) nvmlReturn_t(*name) parameters = nullptr;
  CRUCIBLE_NVML_FUNCTIONS(CRUCIBLE_NVML_MEMBER)
#undef CRUCIBLE_NVML_MEMBER
  std::string file;  // of the library
};

/// The library of option `nvml`, started; functions that it lacks are null. Null when there is none: nvml_refusal()
/// says why. Threads: any.
const Nvml* nvml();

/// "" when nvml() has one; else a sentence that names what is missing and what to install. Threads: any.
std::string nvml_refusal();

}  // namespace crucible_nvidia
