// NVML, the library that nvidia-smi asks: temperature, power, clocks, memory, errors. A device works without it.
#pragma once

#include <cstddef>
#include <string>

namespace crucible_nvidia {

using nvmlReturn_t = int;
using nvmlDevice_t = struct nvmlDevice_st*;
inline constexpr nvmlReturn_t NVML_SUCCESS = 0;
inline constexpr int NVML_TEMPERATURE_GPU = 0, NVML_CLOCK_SM = 1, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1, NVML_VOLATILE_ECC = 0;
struct nvmlMemory_t {
  unsigned long long total, free, used;
};

#define CRUCIBLE_NVML_FUNCTIONS(X)                                                                          \
  X(nvmlInit_v2, ())                                                                                        \
  X(nvmlDeviceGetHandleByUUID, (const char* uuid, nvmlDevice_t* device))                                    \
  X(nvmlDeviceGetHandleByPciBusId_v2, (const char* pci, nvmlDevice_t* device))                              \
  X(nvmlDeviceGetTemperature, (nvmlDevice_t device, int sensor, unsigned* celsius))                         \
  X(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned* milliwatt))                                    \
  X(nvmlDeviceGetClockInfo, (nvmlDevice_t device, int clock, unsigned* megahertz))                          \
  X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t* memory))                                   \
  X(nvmlDeviceGetTotalEccErrors, (nvmlDevice_t device, int type, int counter, unsigned long long* errors))  \
  X(nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t device, unsigned long long* reasons))

struct Nvml {
#define CRUCIBLE_NVML_MEMBER(name, parameters) nvmlReturn_t(*name) parameters = nullptr;
  CRUCIBLE_NVML_FUNCTIONS(CRUCIBLE_NVML_MEMBER)
#undef CRUCIBLE_NVML_MEMBER
};

/// The library of option `nvml`, started; functions that it lacks are null. Null when there is none: nvml_refusal() says why. Threads:
/// any.
const Nvml* nvml();

/// "" when nvml() has one; else a sentence that names what is missing and what to install. Threads: any.
std::string nvml_refusal();

}  // namespace crucible_nvidia
