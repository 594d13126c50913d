// libamd_smi.so.26, as far as a plugin asks for a device's health: as rocm_smi.cpp, by the other library's names.
// Temperatures are whole degrees.
#include <cstdint>

#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/core/telemetry.hpp"

using namespace crucible::emulator;

namespace {

constexpr int kSuccess = 0, kInvalid = 1, kNotSupported = 2, kApiFailed = 7, kNoPermission = 10, kNotFound = 31,
              kNotInitialized = 32;

bool is_started = false;

struct Answer {
  int code = kSuccess;
  Telemetry telemetry = {};
};

Answer answer_to(const char* function, const void* device, const void* out, Concern concern = Concern::kOther) {
  if (!is_started) return {kNotInitialized};
  if (device == nullptr || out == nullptr) return {kInvalid};
  const Query query = ask(function, concern);
  if (!query.failure) return {kSuccess, query.telemetry};
  if (query.failure->action == Action::kDeny) return {kNoPermission};
  return {query.failure->action == Action::kMissing ? kNotSupported : kApiFailed};
}

struct ErrorCount {
  std::uint64_t corrected, uncorrected, deferred, reserved[5];
};

}  // namespace

extern "C" {

int amdsmi_init(std::uint64_t) {
  is_started = true;
  return kSuccess;
}

/// Function, device, bus and domain in bits 0, 3, 8 and 16, as hipDeviceGetPCIBusId of the emulated runtime has them.
/// Handles are ordinals, one up.
int amdsmi_get_processor_handle_from_bdf(std::uint64_t bdf, void** device) {
  const std::uint64_t bus = bdf >> 8;
  if (!is_started) return kNotInitialized;
  if ((bdf & 0xff) != 0 || bus == 0 || bus > settings().devices) return kNotFound;
  *device = reinterpret_cast<void*>(bus);
  return kSuccess;
}

int amdsmi_get_temp_metric(void* device, std::uint32_t, int metric, std::int64_t* degrees) {
  const Answer answer =
      answer_to("amdsmi_get_temp_metric", device, degrees, metric == 0 ? Concern::kTemperature : Concern::kOther);
  if (answer.code != kSuccess) return answer.code;
  const Telemetry& t = answer.telemetry;
  *degrees = static_cast<std::int64_t>(metric == 0 ? t.celsius : metric == 5 ? t.slowdown_celsius : t.shutdown_celsius);
  return kSuccess;
}

int amdsmi_get_energy_count(void* device, std::uint64_t* counts, float* resolution, std::uint64_t*) {
  const Answer answer = answer_to("amdsmi_get_energy_count", device, counts);
  if (answer.code != kSuccess) return answer.code;
  *resolution = 16;
  *counts = answer.telemetry.energy_microjoule / 16;
  return kSuccess;
}

int amdsmi_get_gpu_memory_total(void* device, int, std::uint64_t* bytes) {
  const Answer answer = answer_to("amdsmi_get_gpu_memory_total", device, bytes);
  if (answer.code == kSuccess) *bytes = settings().memory_mib << 20;
  return answer.code;
}

int amdsmi_get_gpu_memory_usage(void* device, int, std::uint64_t* bytes) {
  const Answer answer = answer_to("amdsmi_get_gpu_memory_usage", device, bytes);
  if (answer.code == kSuccess) *bytes = 0;
  return answer.code;
}

int amdsmi_get_gpu_total_ecc_count(void* device, ErrorCount* errors) {
  const Answer answer = answer_to("amdsmi_get_gpu_total_ecc_count", device, errors, Concern::kErrors);
  if (answer.code == kSuccess) *errors = {answer.telemetry.corrected, answer.telemetry.uncorrected, 0, {}};
  return answer.code;
}

int amdsmi_get_gpu_process_list(void* device, std::uint32_t* count, void*) {
  const Answer answer = answer_to("amdsmi_get_gpu_process_list", device, count);
  if (answer.code == kSuccess) *count = 0;
  return answer.code;
}

}  // extern "C"
