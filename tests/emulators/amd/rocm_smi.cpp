// librocm_smi64.so.7, as far as a plugin asks for a device's health: the idle device of
// tests/emulators/core/telemetry.hpp, disturbed by rules at the site "query" with a function's name. Signatures are
// those of rocm_smi.h of ROCm 6. Devices are those of the emulated runtime, in the machine's order: HIP_VISIBLE_DEVICES
// does not change it. It does not know the runtime's state: no memory is in use, no process is there.
#include <cstdint>

#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/core/telemetry.hpp"

using namespace crucible::emulator;

namespace {

constexpr int kSuccess = 0, kInvalidArgs = 1, kNotSupported = 2, kFileError = 3, kPermission = 4, kInitError = 8;
constexpr std::uint64_t kMemoryController = 1, kGraphics = 4;  // blocks that count errors
constexpr std::uint64_t kTooHotBit = std::uint64_t{1}
                                     << 36;  // the hottest spot, of the throttle status that all chips share

bool is_started = false;

struct Answer {
  int code = kSuccess;
  Telemetry telemetry = {};
};

Answer answer_to(const char* function, std::uint32_t device, const void* out, Concern concern = Concern::kOther) {
  if (!is_started) return {kInitError};
  if (device >= settings().devices || out == nullptr) return {kInvalidArgs};
  const Query query = ask(function, concern);
  if (!query.failure) return {kSuccess, query.telemetry};
  if (query.failure->action == Action::kDeny) return {kPermission};
  return {query.failure->action == Action::kMissing ? kNotSupported : kFileError};
}

template <class Number>
int tell(const char* function, std::uint32_t device, Number* out, Concern concern, std::uint64_t Telemetry::* member,
         std::uint64_t factor) {
  const Answer answer = answer_to(function, device, out, concern);
  if (answer.code == kSuccess) *out = static_cast<Number>(answer.telemetry.*member * factor);
  return answer.code;
}

struct Frequencies {
#ifndef CRUCIBLE_EMULATED_ROCM_5
  bool has_deep_sleep;
#endif
  std::uint32_t count, current;
#ifndef CRUCIBLE_EMULATED_ROCM_5
  std::uint64_t hertz[33];
#else
  std::uint64_t hertz[32];
#endif
};
struct ErrorCount {
  std::uint64_t corrected, uncorrected, deferred, reserved[5];
};
struct Version {
  std::uint32_t major, minor, patch;
  const char* build;
};

}  // namespace

extern "C" {

int rsmi_init(std::uint64_t) {
  is_started = true;
  return kSuccess;
}
int rsmi_shut_down() {
  is_started = false;
  return kSuccess;
}
int rsmi_version_get(Version* version) {
#ifndef CRUCIBLE_EMULATED_ROCM_5
  *version = {7, 0, 0, "emulated"};
#else
  *version = {5, 0, 0, "emulated"};
#endif
  return kSuccess;
}
int rsmi_num_monitor_devices(std::uint32_t* count) {
  if (!is_started) return kInitError;
  *count = static_cast<std::uint32_t>(settings().devices);
  return kSuccess;
}

/// Bus, device and function in bits 8, 3 and 0, as hipDeviceGetPCIBusId of the emulated runtime has them.
int rsmi_dev_pci_id_get(std::uint32_t device, std::uint64_t* id) {
  const Answer answer = answer_to("rsmi_dev_pci_id_get", device, id);
  if (answer.code == kSuccess) *id = std::uint64_t{device + 1} << 8;
  return answer.code;
}

/// Sensors: 0 edge, 1 junction, 2 memory. Metrics: 0 now, 5 critical, 7 emergency; in thousandths of a degree.
int rsmi_dev_temp_metric_get(std::uint32_t device, std::uint32_t sensor, int metric, std::int64_t* temperature) {
  if (sensor > 2 || (metric != 0 && metric != 5 && metric != 7)) return kNotSupported;
  const auto member = metric == 0   ? &Telemetry::celsius
                      : metric == 5 ? &Telemetry::slowdown_celsius
                                    : &Telemetry::shutdown_celsius;
  return tell("rsmi_dev_temp_metric_get", device, temperature, metric == 0 ? Concern::kTemperature : Concern::kOther,
              member, 1000);
}

/// Microwatts.
int rsmi_dev_power_get(std::uint32_t device, std::uint64_t* power, int* type) {
  if (type != nullptr) *type = 1;
  return tell("rsmi_dev_power_get", device, power, Concern::kOther, &Telemetry::milliwatt, 1000);
}
int rsmi_dev_power_cap_get(std::uint32_t device, std::uint32_t, std::uint64_t* power) {
  return tell("rsmi_dev_power_cap_get", device, power, Concern::kOther, &Telemetry::limit_milliwatt, 1000);
}

int rsmi_dev_power_ave_get(std::uint32_t device, std::uint32_t, std::uint64_t* power) {
  return tell("rsmi_dev_power_ave_get", device, power, Concern::kOther, &Telemetry::milliwatt, 1000);
}

/// In counts of 15.259 uJ, as the chips have it.
int rsmi_dev_energy_count_get(std::uint32_t device, std::uint64_t* counts, float* resolution,
                              std::uint64_t* timestamp) {
  constexpr float kMicrojoules = 15.259F;
  const Answer answer = answer_to("rsmi_dev_energy_count_get", device, counts);
  if (answer.code != kSuccess) return answer.code;
  *counts = static_cast<std::uint64_t>(static_cast<double>(answer.telemetry.energy_microjoule) /
                                       static_cast<double>(kMicrojoules));
  if (resolution != nullptr) *resolution = kMicrojoules;
  if (timestamp != nullptr) *timestamp = 0;
  return kSuccess;
}

/// Clocks: 0 of the processor, 4 of the memory.
int rsmi_dev_gpu_clk_freq_get(std::uint32_t device, int clock, Frequencies* frequencies) {
  const Answer answer = answer_to("rsmi_dev_gpu_clk_freq_get", device, frequencies, Concern::kTemperature);
  if (answer.code != kSuccess) return answer.code;
  if (clock != 0 && clock != 4) return kNotSupported;
  const Telemetry& t = answer.telemetry;
  *frequencies = {};
  frequencies->count = 2;
  frequencies->hertz[0] = (clock == 4 ? t.memory_megahertz : t.megahertz) * 1'000'000;
  frequencies->hertz[1] = (clock == 4 ? t.memory_megahertz : t.max_megahertz) * 1'000'000;
  return kSuccess;
}

int rsmi_dev_memory_total_get(std::uint32_t device, int, std::uint64_t* bytes) {
  const Answer answer = answer_to("rsmi_dev_memory_total_get", device, bytes);
  if (answer.code == kSuccess) *bytes = settings().memory_mib << 20;
  return answer.code;
}
int rsmi_dev_memory_usage_get(std::uint32_t device, int, std::uint64_t* bytes) {
  const Answer answer = answer_to("rsmi_dev_memory_usage_get", device, bytes);
  if (answer.code == kSuccess) *bytes = 0;
  return answer.code;
}
int rsmi_dev_busy_percent_get(std::uint32_t device, std::uint32_t* percent) {
  const Answer answer = answer_to("rsmi_dev_busy_percent_get", device, percent);
  if (answer.code == kSuccess) *percent = 0;
  return answer.code;
}

int rsmi_dev_ecc_enabled_get(std::uint32_t device, std::uint64_t* blocks) {
  const Answer answer = answer_to("rsmi_dev_ecc_enabled_get", device, blocks);
  if (answer.code == kSuccess) *blocks = kMemoryController | kGraphics;
  return answer.code;
}
int rsmi_dev_ecc_count_get(std::uint32_t device, std::uint64_t block, ErrorCount* errors) {
  const Answer answer = answer_to("rsmi_dev_ecc_count_get", device, errors,
                                  block == kMemoryController ? Concern::kErrors : Concern::kOther);
  if (answer.code != kSuccess) return answer.code;
  if (block != kMemoryController && block != kGraphics) return kNotSupported;
  *errors = {answer.telemetry.corrected, answer.telemetry.uncorrected, 0, {}};
  return kSuccess;
}
int rsmi_dev_memory_reserved_pages_get(std::uint32_t device, std::uint32_t* count, void*) {
  const Answer answer = answer_to("rsmi_dev_memory_reserved_pages_get", device, count, Concern::kErrors);
  if (answer.code == kSuccess) *count = static_cast<std::uint32_t>(answer.telemetry.uncorrected);
  return answer.code;
}

int rsmi_dev_metrics_indep_throttle_status_get(std::uint32_t device, std::uint64_t* status) {
  const Answer answer = answer_to("rsmi_dev_metrics_indep_throttle_status_get", device, status, Concern::kTemperature);
  if (answer.code == kSuccess) *status = answer.telemetry.is_hot ? kTooHotBit : 0;
  return answer.code;
}

int rsmi_compute_process_info_get(void*, std::uint32_t* count) {
  const Answer answer = answer_to("rsmi_compute_process_info_get", 0, count);
  if (answer.code == kSuccess) *count = 0;
  return answer.code;
}
int rsmi_compute_process_gpus_get(std::uint32_t, std::uint32_t*, std::uint32_t*) { return kInvalidArgs; }

}  // extern "C"
