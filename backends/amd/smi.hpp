// The libraries that measure AMD's devices: ROCm SMI, and AMD SMI where there is no ROCm SMI. A device works without
// them. Declared here is what their releases share; structs that changed are read by the library's version, or not
// asked for.
#pragma once

#include <cstdint>
#include <string>

namespace crucible_amd {

// rsmi_status_t and amdsmi_status_t
inline constexpr int RSMI_STATUS_SUCCESS = 0, RSMI_STATUS_NOT_SUPPORTED = 2, RSMI_STATUS_PERMISSION = 4,
                     RSMI_STATUS_NOT_YET_IMPLEMENTED = 9, RSMI_STATUS_INSUFFICIENT_SIZE = 11;
inline constexpr int AMDSMI_STATUS_NOT_YET_IMPLEMENTED = 3, AMDSMI_STATUS_NO_PERM = 10, AMDSMI_STATUS_NO_DATA = 40;
// Numbers that both libraries share.
inline constexpr std::uint32_t kTemperatureEdge = 0, kTemperatureJunction = 1, kTemperatureMemory = 2;
inline constexpr int kTemperatureNow = 0, kTemperatureCritical = 5, kTemperatureEmergency = 7;
inline constexpr int kClockSystem = 0, kClockMemory = 4, kMemoryVram = 0;

struct rsmi_version_t {
  std::uint32_t major, minor, patch;
  const char* build;
};
struct rsmi_frequencies_5 {  // up to ROCm 5
  std::uint32_t num_supported, current;
  std::uint64_t frequency[32];
};
struct rsmi_frequencies_6 {
  bool has_deep_sleep;
  std::uint32_t num_supported, current;
  std::uint64_t frequency[33];
};
union rsmi_frequencies {
  rsmi_frequencies_6 new_form;
  rsmi_frequencies_5 old_form;
};
struct smi_error_count {  // the first two are ROCm 5's
  std::uint64_t correctable_err, uncorrectable_err, deferred_err, reserved[5];
};
struct rsmi_process_info_t {
  std::uint32_t process_id, pasid;
  std::uint64_t vram_usage, sdma_usage;
  std::uint32_t cu_occupancy, reserved;
};

#define CRUCIBLE_ROCM_SMI_FUNCTIONS(X)                                                                              \
  X(rsmi_init, (std::uint64_t flags))                                                                               \
  X(rsmi_version_get, (rsmi_version_t * version))                                                                   \
  X(rsmi_num_monitor_devices, (std::uint32_t* count))                                                               \
  X(rsmi_dev_pci_id_get, (std::uint32_t device, std::uint64_t* id))                                                 \
  X(rsmi_dev_temp_metric_get, (std::uint32_t device, std::uint32_t sensor, int metric, std::int64_t* millidegrees)) \
  X(rsmi_dev_power_ave_get, (std::uint32_t device, std::uint32_t sensor, std::uint64_t* microwatt))                 \
  X(rsmi_dev_power_get, (std::uint32_t device, std::uint64_t* microwatt, int* type))                                \
  X(rsmi_dev_power_cap_get, (std::uint32_t device, std::uint32_t sensor, std::uint64_t* microwatt))                 \
  X(rsmi_dev_energy_count_get,                                                                                      \
    (std::uint32_t device, std::uint64_t* counts, float* microjoules, std::uint64_t* timestamp))                    \
  X(rsmi_dev_gpu_clk_freq_get, (std::uint32_t device, int clock, rsmi_frequencies* frequencies))                    \
  X(rsmi_dev_memory_total_get, (std::uint32_t device, int type, std::uint64_t* bytes))                              \
  X(rsmi_dev_memory_usage_get, (std::uint32_t device, int type, std::uint64_t* bytes))                              \
  X(rsmi_dev_busy_percent_get, (std::uint32_t device, std::uint32_t* percent))                                      \
  X(rsmi_dev_ecc_enabled_get, (std::uint32_t device, std::uint64_t* blocks))                                        \
  X(rsmi_dev_ecc_count_get, (std::uint32_t device, std::uint64_t block, smi_error_count* errors))                   \
  X(rsmi_dev_memory_reserved_pages_get, (std::uint32_t device, std::uint32_t* count, void* records))                \
  X(rsmi_dev_metrics_indep_throttle_status_get, (std::uint32_t device, std::uint64_t* status))                      \
  X(rsmi_compute_process_info_get, (rsmi_process_info_t * processes, std::uint32_t* count))                         \
  X(rsmi_compute_process_gpus_get, (std::uint32_t pid, std::uint32_t* devices, std::uint32_t* count))

#define CRUCIBLE_AMD_SMI_FUNCTIONS(X)                                                                             \
  X(amdsmi_init, (std::uint64_t flags))                                                                           \
  X(amdsmi_get_processor_handle_from_bdf, (std::uint64_t bdf, void** device))                                     \
  X(amdsmi_get_temp_metric, (void* device, std::uint32_t sensor, int metric, std::int64_t* degrees))              \
  X(amdsmi_get_energy_count, (void* device, std::uint64_t* counts, float* microjoules, std::uint64_t* timestamp)) \
  X(amdsmi_get_gpu_memory_total, (void* device, int type, std::uint64_t* bytes))                                  \
  X(amdsmi_get_gpu_memory_usage, (void* device, int type, std::uint64_t* bytes))                                  \
  X(amdsmi_get_gpu_total_ecc_count, (void* device, smi_error_count* errors))                                      \
  X(amdsmi_get_gpu_process_list, (void* device, std::uint32_t* count, void* processes))

struct Smi {
#define CRUCIBLE_SMI_MEMBER(name, parameters) int(*name) parameters = nullptr;
  CRUCIBLE_ROCM_SMI_FUNCTIONS(CRUCIBLE_SMI_MEMBER)
  CRUCIBLE_AMD_SMI_FUNCTIONS(CRUCIBLE_SMI_MEMBER)
#undef CRUCIBLE_SMI_MEMBER
  bool is_rocm = false;  // else AMD SMI; functions of the other, and those that it lacks, are null
  std::uint32_t major = 0;
  std::string file;
  const char* name() const { return is_rocm ? "ROCm SMI" : "AMD SMI"; }
};

/// The library of option `smi`, or the first of its names that is there, started. Null when there is none:
/// smi_refusal() says why. Threads: any.
const Smi* smi();

/// "" when smi() has one; else a sentence that names what is missing and what to install. Threads: any.
std::string smi_refusal();

}  // namespace crucible_amd
