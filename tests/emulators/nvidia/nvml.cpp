// libnvidia-ml.so.1, as far as a plugin asks for a device's health: the idle device of
// tests/emulators/core/telemetry.hpp, disturbed by rules at the site "query" with a function's name. It knows the
// settings of the emulated driver, not its state: no memory is in use, no process is there.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/core/telemetry.hpp"
#include "tests/emulators/core/timing.hpp"

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

using nvmlReturn_t = int;
using nvmlDevice_t = struct nvmlDevice_st*;
using nvmlEventSet_t = struct nvmlEventSet_st*;
struct nvmlMemory_t {
  unsigned long long total, free, used;
};
struct nvmlUtilization_t {
  unsigned gpu, memory;
};
struct nvmlEventData_t {
  nvmlDevice_t device;
  unsigned long long eventType, eventData;
  unsigned gpuInstanceId, computeInstanceId;
};
struct nvmlEventSet_st {
  nvmlDevice_t device = nullptr;
  unsigned long long types = 0;
};

namespace {

using namespace crucible::emulator;

constexpr nvmlReturn_t kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kNoPermission = 4,
                       kNotFound = 6, kInsufficientSize = 7, kTimeout = 10, kGpuIsLost = 15, kUnknown = 999;
constexpr unsigned long long kIdle = 0x1, kSoftwareThermalSlowdown = 0x20, kXidCriticalError = 0x8;

bool initialized = false;

/// Handles are ordinals, one up.
nvmlDevice_t handle_of(std::uint64_t ordinal) { return reinterpret_cast<nvmlDevice_t>(ordinal + 1); }
bool is_device(nvmlDevice_t device) {
  const auto number = reinterpret_cast<std::uint64_t>(device);
  return number >= 1 && number <= settings().devices;
}

struct Answer {
  nvmlReturn_t code = kSuccess;
  Telemetry telemetry = {};
};

/// Asks the faults first.
Answer answer_to(const char* function, nvmlDevice_t device, const void* out, Concern concern = Concern::kOther) {
  if (!initialized) return {kUninitialized};
  if (out == nullptr || !is_device(device)) return {kInvalidArgument};
  const Query query = ask(function, concern);
  if (!query.failure) return {kSuccess, query.telemetry};
  switch (query.failure->action) {
    case Action::kLost:
      return {kGpuIsLost};
    case Action::kDeny:
      return {kNoPermission};
    case Action::kMissing:
      return {kNotSupported};
    default:
      return {kUnknown};
  }
}

/// One number of the model.
template <class Number>
nvmlReturn_t tell(const char* function, nvmlDevice_t device, Number* out, Concern concern,
                  std::uint64_t Telemetry::* member) {
  const Answer answer = answer_to(function, device, out, concern);
  if (answer.code == kSuccess) *out = static_cast<Number>(answer.telemetry.*member);
  return answer.code;
}

nvmlReturn_t write(char* out, unsigned size, const char* text) {
  if (std::strlen(text) >= size) return kInsufficientSize;
  std::strcpy(out, text);
  return kSuccess;
}

/// The same as cuDeviceGetUuid, in NVML's spelling.
void uuid_of(unsigned index, char (&text)[64]) {
  char bytes[17] = {};
  std::snprintf(bytes, sizeof bytes, "crucible-emu-%03u", index);
  int at = std::snprintf(text, sizeof text, "GPU-");
  for (int i = 0; i < 16; ++i) {
    at += std::snprintf(text + at, sizeof text - static_cast<std::size_t>(at),
                        i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", static_cast<unsigned char>(bytes[i]));
  }
}

unsigned index_of(nvmlDevice_t device) { return static_cast<unsigned>(reinterpret_cast<std::uint64_t>(device) - 1); }

}  // namespace

NVML_EXPORT nvmlReturn_t nvmlInit_v2() {
  initialized = true;
  return kSuccess;
}
NVML_EXPORT nvmlReturn_t nvmlShutdown() {
  if (!initialized) return kUninitialized;
  initialized = false;
  return kSuccess;
}

NVML_EXPORT const char* nvmlErrorString(nvmlReturn_t code) {
  switch (code) {
    case kSuccess:
      return "Success";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNoPermission:
      return "Insufficient Permissions";
    case kTimeout:
      return "Timeout";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    case kGpuIsLost:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned size) {
  if (!initialized) return kUninitialized;
  return version == nullptr ? kInvalidArgument : write(version, size, "580.0 (emulated)");
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  if (!initialized) return kUninitialized;
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned>(settings().devices);
  return kSuccess;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  if (!initialized) return kUninitialized;
  if (device == nullptr || index >= settings().devices) return kInvalidArgument;
  *device = handle_of(index);
  return kSuccess;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  if (!initialized) return kUninitialized;
  if (uuid == nullptr || device == nullptr) return kInvalidArgument;
  for (unsigned i = 0; i < settings().devices; ++i) {
    char own[64];
    uuid_of(i, own);
    if (std::strcmp(uuid, own) != 0) continue;
    *device = handle_of(i);
    return kSuccess;
  }
  return kNotFound;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* pci, nvmlDevice_t* device) {
  if (!initialized) return kUninitialized;
  unsigned domain = 0, bus = 0, slot = 0;
  if (pci == nullptr || device == nullptr || std::sscanf(pci, "%x:%x:%x", &domain, &bus, &slot) != 3)
    return kInvalidArgument;
  if (domain != 0 || slot != 0 || bus == 0 || bus > settings().devices) return kNotFound;
  *device = handle_of(bus - 1);
  return kSuccess;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned size) {
  const Answer answer = answer_to("nvmlDeviceGetName", device, name);
  if (answer.code != kSuccess) return answer.code;
  return write(name, size,
               ("NVIDIA " + settings().arch(index_of(device), "sm_90") + " (" + emulated_words() + ")").c_str());
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned size) {
  const Answer answer = answer_to("nvmlDeviceGetUUID", device, uuid);
  if (answer.code != kSuccess) return answer.code;
  char own[64];
  uuid_of(index_of(device), own);
  return write(uuid, size, own);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int, unsigned* celsius) {
  return tell("nvmlDeviceGetTemperature", device, celsius, Concern::kTemperature, &Telemetry::celsius);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int threshold, unsigned* celsius) {
  if (threshold != 0 && threshold != 1) return kNotSupported;
  return tell("nvmlDeviceGetTemperatureThreshold", device, celsius, Concern::kOther,
              threshold == 0 ? &Telemetry::shutdown_celsius : &Telemetry::slowdown_celsius);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* milliwatt) {
  return tell("nvmlDeviceGetPowerUsage", device, milliwatt, Concern::kOther, &Telemetry::milliwatt);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned* milliwatt) {
  return tell("nvmlDeviceGetEnforcedPowerLimit", device, milliwatt, Concern::kOther, &Telemetry::limit_milliwatt);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long* millijoule) {
  const Answer answer = answer_to("nvmlDeviceGetTotalEnergyConsumption", device, millijoule);
  if (answer.code == kSuccess) *millijoule = answer.telemetry.energy_microjoule / 1000;
  return answer.code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int clock, unsigned* megahertz) {
  return tell("nvmlDeviceGetClockInfo", device, megahertz, Concern::kTemperature,
              clock == 2 ? &Telemetry::memory_megahertz : &Telemetry::megahertz);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int clock, unsigned* megahertz) {
  return tell("nvmlDeviceGetMaxClockInfo", device, megahertz, Concern::kOther,
              clock == 2 ? &Telemetry::memory_megahertz : &Telemetry::max_megahertz);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  const Answer answer = answer_to("nvmlDeviceGetMemoryInfo", device, memory);
  if (answer.code == kSuccess) *memory = {settings().memory_mib << 20, settings().memory_mib << 20, 0};
  return answer.code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* rates) {
  const Answer answer = answer_to("nvmlDeviceGetUtilizationRates", device, rates);
  if (answer.code == kSuccess) *rates = {0, 0};
  return answer.code;
}

/// Corrected are 0, uncorrected 1; since the start and in the device's life are the same.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int, unsigned long long* errors) {
  return tell("nvmlDeviceGetTotalEccErrors", device, errors, Concern::kErrors,
              type == 0 ? &Telemetry::corrected : &Telemetry::uncorrected);
}

/// A device that remaps rows (from Ampere on); those before retire pages.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned* corrected, unsigned* uncorrected,
                                                   unsigned* pending, unsigned* failed) {
  const Answer answer = answer_to("nvmlDeviceGetRemappedRows", device, failed, Concern::kErrors);
  if (answer.code != kSuccess) return answer.code;
  *corrected = static_cast<unsigned>(answer.telemetry.corrected);
  *uncorrected = static_cast<unsigned>(answer.telemetry.uncorrected);
  *pending = answer.telemetry.uncorrected != 0;
  *failed = 0;
  return kSuccess;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, int cause, unsigned* count,
                                                   unsigned long long* addresses) {
  const Answer answer = answer_to("nvmlDeviceGetRetiredPages", device, count, Concern::kErrors);
  if (answer.code != kSuccess) return answer.code;
  const auto pages = static_cast<unsigned>(cause == 0 ? answer.telemetry.corrected : answer.telemetry.uncorrected);
  const bool fits = pages <= *count;
  for (unsigned i = 0; fits && addresses != nullptr && i < pages; ++i) addresses[i] = i * 65536ull;
  *count = pages;
  return fits ? kSuccess : kInsufficientSize;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, int* pending) {
  const Answer answer = answer_to("nvmlDeviceGetRetiredPagesPendingStatus", device, pending);
  if (answer.code == kSuccess) *pending = 0;
  return answer.code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
  const Answer answer = answer_to("nvmlDeviceGetCurrentClocksThrottleReasons", device, reasons, Concern::kTemperature);
  if (answer.code == kSuccess) *reasons = answer.telemetry.is_hot ? kSoftwareThermalSlowdown : kIdle;
  return answer.code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count, void*) {
  const Answer answer = answer_to("nvmlDeviceGetComputeRunningProcesses_v3", device, count);
  if (answer.code == kSuccess) *count = 0;
  return answer.code;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  if (!initialized) return kUninitialized;
  if (set == nullptr) return kInvalidArgument;
  *set = new nvmlEventSet_st;
  return kSuccess;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  delete set;
  return kSuccess;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
  const Answer answer = answer_to("nvmlDeviceRegisterEvents", device, set);
  if (answer.code == kSuccess) *set = {device, set->types | types};
  return answer.code;
}

/// An event for each rule that fires, at once; else the time is over at once.
NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned) {
  if (set == nullptr || (set->types & kXidCriticalError) == 0) return initialized ? kTimeout : kUninitialized;
  const Answer answer = answer_to("nvmlEventSetWait_v2", set->device, data, Concern::kEvents);
  if (answer.code != kSuccess) return answer.code;
  if (answer.telemetry.event == 0) return kTimeout;
  *data = {set->device, kXidCriticalError, answer.telemetry.event, ~0u, ~0u};
  return kSuccess;
}
