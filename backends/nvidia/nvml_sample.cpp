// Asking NVML value by value: see nvml_sample.hpp.
#include "backends/nvidia/nvml_sample.hpp"

#include <cstdint>
#include <vector>

#include "backends/nvidia/xid_events.hpp"

namespace crucible_nvidia {
namespace {

using namespace crucible;

// Why clocks are not at their highest. What somebody should look at is a throttle reason; the others are how a device
// works.
struct Reason {
  unsigned long long bit;
  bool is_throttle;
  const char* name;
};
constexpr Reason kReasons[] = {{0x1, false, "idle"},
                               {0x2, false, "clocks that were set"},
                               {0x4, false, "power limit"},
                               {0x8, true, "hardware slowdown"},
                               {0x10, false, "synchronised with other devices"},
                               {0x20, true, "too hot (software)"},
                               {0x40, true, "too hot (hardware)"},
                               {0x80, true, "power brake"},
                               {0x100, false, "clocks of the display"}};

class Reader {
 public:
  Reader(const Nvml& nvml, nvmlDevice_t device) : nvml_(nvml), device_(device) {}

  /// True when the function is there and succeeds; else `key` is an absent value.
  template <class... Parameters, class... Arguments>
  bool ask(const char* key, const char* name, nvmlReturn_t (*function)(nvmlDevice_t, Parameters...),
           Arguments... arguments) {
    const nvmlReturn_t code = function == nullptr ? NVML_SUCCESS : function(device_, arguments...);
    if (function != nullptr && code == NVML_SUCCESS) return true;
    tell_absent(key, name, function != nullptr, code);
    return false;
  }

  void tell_absent(const char* key, const char* name, bool is_there, nvmlReturn_t code) {
    if (code == NVML_ERROR_GPU_IS_LOST) sample.is_lost = true;
    if (code == NVML_ERROR_RESET_REQUIRED) sample.needs_reset = true;
    std::string reason = std::string(name) + ": NVML error " + std::to_string(code);
    if (!is_there) reason = "NVML (" + nvml_.file + ") has no " + name + ": another release of the driver has it";
    if (code == NVML_ERROR_NOT_SUPPORTED) reason = "the device does not tell it";
    if (code == NVML_ERROR_NO_PERMISSION)
      reason = std::string(name) + " is not permitted: ask as root, or have the administrator allow it";
    if (code == NVML_ERROR_GPU_IS_LOST) reason = "the device is lost";
    sample.report.absent(key, reason);
  }

  void temperature() {
    unsigned celsius = 0;
    if (ask("temperature_celsius", "nvmlDeviceGetTemperature", nvml_.nvmlDeviceGetTemperature, NVML_TEMPERATURE_GPU,
            &celsius))
      sample.report.number("temperature_celsius", celsius);
    if (ask("temperature_slowdown_celsius", "nvmlDeviceGetTemperatureThreshold",
            nvml_.nvmlDeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, &celsius))
      sample.report.number("temperature_slowdown_celsius", celsius);
    if (ask("temperature_shutdown_celsius", "nvmlDeviceGetTemperatureThreshold",
            nvml_.nvmlDeviceGetTemperatureThreshold, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN, &celsius))
      sample.report.number("temperature_shutdown_celsius", celsius);
  }

  void power() {
    unsigned milliwatt = 0;
    unsigned long long millijoule = 0;
    if (ask("power_milliwatt", "nvmlDeviceGetPowerUsage", nvml_.nvmlDeviceGetPowerUsage, &milliwatt))
      sample.report.number("power_milliwatt", milliwatt);
    if (ask("power_limit_milliwatt", "nvmlDeviceGetEnforcedPowerLimit", nvml_.nvmlDeviceGetEnforcedPowerLimit,
            &milliwatt))
      sample.report.number("power_limit_milliwatt", milliwatt);
    if (ask("energy_microjoule", "nvmlDeviceGetTotalEnergyConsumption", nvml_.nvmlDeviceGetTotalEnergyConsumption,
            &millijoule))
      sample.report.number("energy_microjoule", millijoule * 1000);
  }

  void clocks() {
    clock("clock_hz", "nvmlDeviceGetClockInfo", nvml_.nvmlDeviceGetClockInfo, NVML_CLOCK_SM);
    clock("clock_max_hz", "nvmlDeviceGetMaxClockInfo", nvml_.nvmlDeviceGetMaxClockInfo, NVML_CLOCK_SM);
    clock("clock_memory_hz", "nvmlDeviceGetClockInfo", nvml_.nvmlDeviceGetClockInfo, NVML_CLOCK_MEM);
    // The newer name, of drivers from release 535 on, means the same.
    const bool is_new = nvml_.nvmlDeviceGetCurrentClocksEventReasons != nullptr;
    unsigned long long bits = 0;
    if (!ask("throttle_reason",
             is_new ? "nvmlDeviceGetCurrentClocksEventReasons" : "nvmlDeviceGetCurrentClocksThrottleReasons",
             is_new ? nvml_.nvmlDeviceGetCurrentClocksEventReasons : nvml_.nvmlDeviceGetCurrentClocksThrottleReasons,
             &bits))
      return;
    std::string throttle, limit;
    for (const Reason& reason : kReasons) {
      if ((bits & reason.bit) != 0) sdk::add_to_list(reason.is_throttle ? throttle : limit, reason.name);
    }
    sample.report.text("throttle_reason", throttle);
    sample.report.text("clock_limit", limit);
  }

  void memory() {
    nvmlMemory_t memory = {};
    if (ask("memory_used_bytes", "nvmlDeviceGetMemoryInfo", nvml_.nvmlDeviceGetMemoryInfo, &memory)) {
      sample.report.number("memory_used_bytes", memory.used);
      sample.report.number("memory_total_bytes", memory.total);
    }
    nvmlUtilization_t rates = {};
    if (ask("utilization_percent", "nvmlDeviceGetUtilizationRates", nvml_.nvmlDeviceGetUtilizationRates, &rates))
      sample.report.number("utilization_percent", rates.gpu);
  }

  void errors() {
    ecc("ecc_errors", NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC);
    ecc("ecc_corrected", NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC);
    ecc("ecc_errors_lifetime", NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC);
    ecc("ecc_corrected_lifetime", NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC);
    const XidEvents events = xid_events(nvml_, device_);
    if (!events.refusal.empty()) return sample.report.absent("device_errors", events.refusal);
    sample.report.number("device_errors", events.blamed_on(XidBlame::kDevice));
    sample.report.number("program_errors", events.blamed_on(XidBlame::kProgram));
    sample.report.text("driver_events", events.words());
    sample.is_lost |= events.is_lost();
  }

  /// Devices from Ampere on remap rows, older ones retire pages: the other answers that it is not supported, which is
  /// not told.
  void repairs() {
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    const nvmlReturn_t rows =
        nvml_.nvmlDeviceGetRemappedRows == nullptr
            ? NVML_ERROR_NOT_SUPPORTED
            : nvml_.nvmlDeviceGetRemappedRows(device_, &corrected, &uncorrected, &pending, &failed);
    if (rows == NVML_SUCCESS) {
      sample.report.number("remapped_rows", std::uint64_t{corrected} + uncorrected);
      sample.report.number("repair_pending", pending != 0 ? 1 : 0);
      sample.report.number("repair_failed", failed != 0 ? 1 : 0);
      return;
    }
    if (rows != NVML_ERROR_NOT_SUPPORTED) return tell_absent("remapped_rows", "nvmlDeviceGetRemappedRows", true, rows);
    std::uint64_t pages = 0;
    for (const int cause :
         {NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS, NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR}) {
      unsigned count = 0;
      const auto function = nvml_.nvmlDeviceGetRetiredPages;
      const nvmlReturn_t code = function == nullptr ? NVML_SUCCESS : function(device_, cause, &count, nullptr);
      if (function == nullptr || (code != NVML_SUCCESS && code != NVML_ERROR_INSUFFICIENT_SIZE))
        return tell_absent("retired_pages", "nvmlDeviceGetRetiredPages", function != nullptr, code);
      pages += count;
    }
    sample.report.number("retired_pages", pages);
    int is_pending = 0;
    if (ask("repair_pending", "nvmlDeviceGetRetiredPagesPendingStatus", nvml_.nvmlDeviceGetRetiredPagesPendingStatus,
            &is_pending))
      sample.report.number("repair_pending", is_pending != 0 ? 1 : 0);
  }

  void processes() {
    const bool is_new = nvml_.nvmlDeviceGetComputeRunningProcesses_v3 != nullptr;
    const auto function =
        is_new ? nvml_.nvmlDeviceGetComputeRunningProcesses_v3 : nvml_.nvmlDeviceGetComputeRunningProcesses_v2;
    const char* const name =
        is_new ? "nvmlDeviceGetComputeRunningProcesses_v3" : "nvmlDeviceGetComputeRunningProcesses_v2";
    std::vector<nvmlProcessInfo_t> all(256);
    auto count = static_cast<unsigned>(all.size());
    nvmlReturn_t code = function == nullptr ? NVML_SUCCESS : function(device_, &count, all.data());
    if (code == NVML_ERROR_INSUFFICIENT_SIZE) {
      all.resize(count + 64);  // some may start meanwhile
      count = static_cast<unsigned>(all.size());
      code = function(device_, &count, all.data());
    }
    if (function == nullptr || code != NVML_SUCCESS) return tell_absent("processes", name, function != nullptr, code);
    sample.report.number("processes", count);
    std::string list;
    for (unsigned i = 0; i < count && i < all.size(); ++i) sdk::add_to_list(list, std::to_string(all[i].pid));
    sample.report.text("process_ids", list);
  }

  NvmlSample sample;

 private:
  void clock(const char* key, const char* name, nvmlReturn_t (*function)(nvmlDevice_t, int, unsigned*), int which) {
    unsigned megahertz = 0;
    if (ask(key, name, function, which, &megahertz)) sample.report.number(key, std::uint64_t{megahertz} * 1'000'000);
  }
  void ecc(const char* key, int type, int counter) {
    unsigned long long errors = 0;
    if (ask(key, "nvmlDeviceGetTotalEccErrors", nvml_.nvmlDeviceGetTotalEccErrors, type, counter, &errors))
      sample.report.number(key, errors);
  }
  const Nvml& nvml_;
  nvmlDevice_t device_;
};

}  // namespace

NvmlSample sample_nvml(const Nvml& nvml, nvmlDevice_t device) {
  Reader reader(nvml, device);
  reader.temperature();
  reader.power();
  reader.clocks();
  reader.memory();
  reader.errors();
  reader.repairs();
  reader.processes();
  return std::move(reader.sample);
}

}  // namespace crucible_nvidia
