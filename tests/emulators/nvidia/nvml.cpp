// libnvidia-ml.so.1, as far as a plugin asks for a device's health. Its values are invented and steady; rules at the site
// "query" with a function's name disturb them: fail and lost are the call's code, flip counts one error that ECC could not
// correct, slow is a device that is too hot. It knows the settings of the emulated driver, not its state.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "tests/emulators/core/faults.hpp"
#include "tests/emulators/core/settings.hpp"

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

using nvmlReturn_t = int;
using nvmlDevice_t = struct nvmlDevice_st*;
struct nvmlMemory_t {
  unsigned long long total, free, used;
};
struct nvmlUtilization_t {
  unsigned gpu, memory;
};

namespace {

using namespace crucible::emulator;

constexpr nvmlReturn_t kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotFound = 6, kInsufficientSize = 7, kGpuIsLost = 15,
                       kUnknown = 999;
constexpr unsigned kBusyCelsius = 61, kHotCelsius = 94;
constexpr unsigned long long kThermalSlowdown = 0x20;

bool initialized = false;

/// Handles are ordinals, one up.
nvmlDevice_t handle_of(std::uint64_t ordinal) { return reinterpret_cast<nvmlDevice_t>(ordinal + 1); }
bool is_device(nvmlDevice_t device) {
  const auto number = reinterpret_cast<std::uint64_t>(device);
  return number >= 1 && number <= settings().devices;
}

struct Answer {
  nvmlReturn_t code = kSuccess;
  bool hot = false, error = false;
};

/// Asks the faults first.
Answer ask(const char* function, nvmlDevice_t device, const void* out) {
  if (!initialized) return {kUninitialized};
  if (out == nullptr || !is_device(device)) return {kInvalidArgument};
  const std::optional<Rule> rule = faults().hit(Site::kQuery, function);
  if (!rule) return {};
  if (rule->action == Action::kLost) return {kGpuIsLost};
  if (rule->action == Action::kFail) return {kUnknown};
  return {kSuccess, rule->action == Action::kSlow, rule->action == Action::kFlip};
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
    at += std::snprintf(text + at, sizeof text - static_cast<std::size_t>(at), i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                        static_cast<unsigned char>(bytes[i]));
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
  if (pci == nullptr || device == nullptr || std::sscanf(pci, "%x:%x:%x", &domain, &bus, &slot) != 3) return kInvalidArgument;
  if (domain != 0 || slot != 0 || bus == 0 || bus > settings().devices) return kNotFound;
  *device = handle_of(bus - 1);
  return kSuccess;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned size) {
  const Answer answer = ask("nvmlDeviceGetName", device, name);
  if (answer.code != kSuccess) return answer.code;
  return write(name, size, ("NVIDIA " + settings().arch(index_of(device), "sm_90") + " (emulated, not a GPU)").c_str());
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned size) {
  const Answer answer = ask("nvmlDeviceGetUUID", device, uuid);
  if (answer.code != kSuccess) return answer.code;
  char own[64];
  uuid_of(index_of(device), own);
  return write(uuid, size, own);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int, unsigned* celsius) {
  const Answer answer = ask("nvmlDeviceGetTemperature", device, celsius);
  if (answer.code == kSuccess) *celsius = answer.hot ? kHotCelsius : kBusyCelsius;
  return answer.code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* milliwatt) {
  const Answer answer = ask("nvmlDeviceGetPowerUsage", device, milliwatt);
  if (answer.code == kSuccess) *milliwatt = 350000;
  return answer.code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int, unsigned* megahertz) {
  const Answer answer = ask("nvmlDeviceGetClockInfo", device, megahertz);
  if (answer.code == kSuccess) *megahertz = answer.hot ? 600 : 1800;
  return answer.code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  const Answer answer = ask("nvmlDeviceGetMemoryInfo", device, memory);
  if (answer.code == kSuccess) *memory = {settings().memory_mib << 20, settings().memory_mib << 20, 0};
  return answer.code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* rates) {
  const Answer answer = ask("nvmlDeviceGetUtilizationRates", device, rates);
  if (answer.code == kSuccess) *rates = {0, 0};
  return answer.code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int, int, unsigned long long* errors) {
  const Answer answer = ask("nvmlDeviceGetTotalEccErrors", device, errors);
  if (answer.code == kSuccess) *errors = answer.error ? 1 : 0;
  return answer.code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
  const Answer answer = ask("nvmlDeviceGetCurrentClocksThrottleReasons", device, reasons);
  if (answer.code == kSuccess) *reasons = answer.hot ? kThermalSlowdown : 0;
  return answer.code;
}
