// Asking ROCm SMI or AMD SMI value by value: see smi_sample.hpp.
#include "backends/amd/smi_sample.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

namespace crucible_amd {
namespace {

using namespace crucible;

// Bits of the throttle status that all chips share (amdgpu's SMU_THROTTLER_*). Power limits are how a device works; the
// others somebody should see.
struct Reason {
  unsigned first, last;
  bool is_throttle;
  const char* name;
};
constexpr Reason kReasons[] = {
    {0, 7, false, "power limit"},        {16, 22, true, "current limit"},
    {23, 23, true, "voltage droop"},     {32, 33, true, "too hot"},
    {34, 34, true, "memory too hot"},    {35, 36, true, "too hot"},
    {37, 37, true, "too hot"},           {38, 41, true, "voltage regulator too hot"},
    {42, 43, true, "liquid too hot"},    {44, 45, true, "voltage regulator too hot"},
    {46, 47, true, "too hot (outside)"}, {56, 57, true, "power or reliability limit of the package"}};

bool are_set(std::uint64_t status, unsigned first, unsigned last) {
  for (unsigned bit = first; bit <= last; ++bit) {
    if ((status >> bit & 1) != 0) return true;
  }
  return false;
}

struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
};

class Reader {
 public:
  explicit Reader(const Smi& smi) : smi_(smi) {}

  /// True when the function is there and succeeds; else `key` is an absent value (null: nothing is told).
  template <class... Parameters, class... Arguments>
  bool ask(const char* key, const char* name, int (*function)(Parameters...), Arguments... arguments) {
    const int code = function == nullptr ? RSMI_STATUS_SUCCESS : function(arguments...);
    if (function != nullptr && code == RSMI_STATUS_SUCCESS) return true;
    if (key != nullptr) tell_absent(key, name, function != nullptr, code);
    return false;
  }

  void tell_absent(const char* key, const char* name, bool is_there, int code) {
    std::string reason = std::string(name) + ": " + smi_.name() + " error " + std::to_string(code);
    const bool is_untold = code == RSMI_STATUS_NOT_SUPPORTED ||
                           code == (smi_.is_rocm ? RSMI_STATUS_NOT_YET_IMPLEMENTED : AMDSMI_STATUS_NOT_YET_IMPLEMENTED);
    if (!is_there)
      reason = std::string(smi_.name()) + " (" + smi_.file + ") has no " + name + ": another release has it";
    if (is_there && is_untold) reason = "the device does not tell it";
    if (is_there && code == (smi_.is_rocm ? RSMI_STATUS_PERMISSION : AMDSMI_STATUS_NO_PERM))
      reason = std::string(name) + " is not permitted: ask as root, or have the administrator allow it";
    report.absent(key, reason);
  }

  sdk::HealthReport report;

 protected:
  const Smi& smi_;

  /// Degrees below 0 are none that an integer without sign can tell: 0.
  void temperature(const char* key, std::int64_t value, std::int64_t per_degree) {
    report.number(key, static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0) / per_degree));
  }
  void energy(std::uint64_t counts, float microjoules) {
    report.number("energy_microjoule",
                  static_cast<std::uint64_t>(static_cast<double>(counts) * static_cast<double>(microjoules)));
  }
};

class RocmReader : public Reader {
 public:
  RocmReader(const Smi& smi, std::uint32_t device) : Reader(smi), device_(device) {}

  void read() {
    temperatures();
    power();
    clock("clock_hz", "clock_max_hz", kClockSystem);
    clock("clock_memory_hz", nullptr, kClockMemory);
    throttle();
    memory();
    errors();
    processes();
  }

 private:
  std::uint32_t device_;

  void temperatures() {
    std::int64_t now = 0, edge = 0;
    // The hottest spot; chips without that sensor have the edge.
    const char* const name = "rsmi_dev_temp_metric_get";
    std::uint32_t sensor = kTemperatureJunction;
    const auto function = smi_.rsmi_dev_temp_metric_get;
    if (function != nullptr && function(device_, sensor, kTemperatureNow, &now) == RSMI_STATUS_NOT_SUPPORTED &&
        function(device_, kTemperatureEdge, kTemperatureNow, &edge) == RSMI_STATUS_SUCCESS)
      sensor = kTemperatureEdge;
    if (ask("temperature_celsius", name, function, device_, sensor, kTemperatureNow, &now))
      temperature("temperature_celsius", now, 1000);
    if (ask("temperature_memory_celsius", name, function, device_, kTemperatureMemory, kTemperatureNow, &now))
      temperature("temperature_memory_celsius", now, 1000);
    if (ask("temperature_slowdown_celsius", name, function, device_, sensor, kTemperatureCritical, &now))
      temperature("temperature_slowdown_celsius", now, 1000);
    if (ask("temperature_shutdown_celsius", name, function, device_, sensor, kTemperatureEmergency, &now))
      temperature("temperature_shutdown_celsius", now, 1000);
  }

  void power() {
    std::uint64_t microwatt = 0, counts = 0, timestamp = 0;
    int type = 0;
    float resolution = 0;
    // rsmi_dev_power_get is of ROCm 6; before it there is the average.
    const bool is_new = smi_.rsmi_dev_power_get != nullptr;
    if (is_new ? ask("power_milliwatt", "rsmi_dev_power_get", smi_.rsmi_dev_power_get, device_, &microwatt, &type)
               : ask("power_milliwatt", "rsmi_dev_power_ave_get", smi_.rsmi_dev_power_ave_get, device_, 0u, &microwatt))
      report.number("power_milliwatt", microwatt / 1000);
    if (ask("power_limit_milliwatt", "rsmi_dev_power_cap_get", smi_.rsmi_dev_power_cap_get, device_, 0u, &microwatt))
      report.number("power_limit_milliwatt", microwatt / 1000);
    if (ask("energy_microjoule", "rsmi_dev_energy_count_get", smi_.rsmi_dev_energy_count_get, device_, &counts,
            &resolution, &timestamp))
      energy(counts, resolution);
  }

  void clock(const char* key, const char* largest_key, int clock) {
    rsmi_frequencies told = {};
    if (!ask(key, "rsmi_dev_gpu_clk_freq_get", smi_.rsmi_dev_gpu_clk_freq_get, device_, clock, &told)) return;
    const bool is_new = smi_.major >= 6;
    const std::uint64_t* const all = is_new ? told.new_form.frequency : told.old_form.frequency;
    const std::uint32_t most = is_new ? 33 : 32;
    const std::uint32_t count = std::min(is_new ? told.new_form.num_supported : told.old_form.num_supported, most);
    const std::uint32_t current = is_new ? told.new_form.current : told.old_form.current;
    if (current >= count)
      return report.absent(key,
                           "the device told frequency " + std::to_string(current) + " of " + std::to_string(count));
    report.number(key, all[current]);
    if (largest_key != nullptr) report.number(largest_key, *std::max_element(all, all + count));
  }

  void throttle() {
    std::uint64_t status = 0;
    if (!ask("throttle_reason", "rsmi_dev_metrics_indep_throttle_status_get",
             smi_.rsmi_dev_metrics_indep_throttle_status_get, device_, &status))
      return;
    if (status == ~std::uint64_t{0}) return report.absent("throttle_reason", "the device does not tell it");
    std::string slow, limit;
    for (const Reason& reason : kReasons) {
      std::string& list = reason.is_throttle ? slow : limit;
      if (are_set(status, reason.first, reason.last) && list.find(reason.name) == std::string::npos)
        sdk::add_to_list(list, reason.name);
    }
    report.text("throttle_reason", slow);
    report.text("clock_limit", limit);
  }

  void memory() {
    std::uint64_t bytes = 0;
    std::uint32_t percent = 0;
    if (ask("memory_used_bytes", "rsmi_dev_memory_usage_get", smi_.rsmi_dev_memory_usage_get, device_, kMemoryVram,
            &bytes))
      report.number("memory_used_bytes", bytes);
    if (ask("memory_total_bytes", "rsmi_dev_memory_total_get", smi_.rsmi_dev_memory_total_get, device_, kMemoryVram,
            &bytes))
      report.number("memory_total_bytes", bytes);
    if (ask("utilization_percent", "rsmi_dev_busy_percent_get", smi_.rsmi_dev_busy_percent_get, device_, &percent))
      report.number("utilization_percent", percent);
  }

  /// Counts of all blocks that have them; one block that refuses does not hide the others.
  void errors() {
    std::uint64_t blocks = 0, corrected = 0, uncorrected = 0;
    std::uint32_t pages = 0;
    if (ask("ecc_errors", "rsmi_dev_ecc_enabled_get", smi_.rsmi_dev_ecc_enabled_get, device_, &blocks)) {
      bool is_counted = false;
      for (std::uint64_t block = 1; block != 0 && block <= blocks; block <<= 1) {
        smi_error_count count = {};
        if ((blocks & block) == 0 ||
            !ask(nullptr, "rsmi_dev_ecc_count_get", smi_.rsmi_dev_ecc_count_get, device_, block, &count))
          continue;
        is_counted = true;
        corrected += count.correctable_err;
        uncorrected += count.uncorrectable_err;
      }
      if (is_counted) {
        report.number("ecc_errors", uncorrected);
        report.number("ecc_corrected", corrected);
      } else {
        report.absent("ecc_errors",
                      blocks == 0 ? "the device corrects no errors" : "no block of the device tells its errors");
      }
    }
    const auto function = smi_.rsmi_dev_memory_reserved_pages_get;
    if (ask("retired_pages", "rsmi_dev_memory_reserved_pages_get", function, device_, &pages,
            static_cast<void*>(nullptr)))
      report.number("retired_pages", pages);
  }

  void processes() {
    std::uint32_t count = 0;
    if (!ask("processes", "rsmi_compute_process_info_get", smi_.rsmi_compute_process_info_get,
             static_cast<rsmi_process_info_t*>(nullptr), &count))
      return;
    std::vector<rsmi_process_info_t> all(count + 64);  // some may start meanwhile
    count = static_cast<std::uint32_t>(all.size());
    if (!ask("processes", "rsmi_compute_process_info_get", smi_.rsmi_compute_process_info_get, all.data(), &count))
      return;
    std::uint64_t here = 0;
    std::string list;
    for (std::uint32_t i = 0; i < count && i < all.size(); ++i) {
      if (!is_here(all[i].process_id)) continue;
      ++here;
      sdk::add_to_list(list, std::to_string(all[i].process_id));
    }
    report.number("processes", here);
    report.text("process_ids", list);
  }

  /// Whether the process uses this device. One that ended meanwhile, or tells nothing, does not.
  bool is_here(std::uint32_t pid) const {
    if (smi_.rsmi_compute_process_gpus_get == nullptr) return false;
    std::vector<std::uint32_t> devices(256);
    auto count = static_cast<std::uint32_t>(devices.size());
    if (smi_.rsmi_compute_process_gpus_get(pid, devices.data(), &count) != RSMI_STATUS_SUCCESS) return false;
    const auto end = devices.begin() + std::min<std::ptrdiff_t>(count, static_cast<std::ptrdiff_t>(devices.size()));
    return std::find(devices.begin(), end, device_) != end;
  }
};

class AmdSmiReader : public Reader {
 public:
  AmdSmiReader(const Smi& smi, void* device) : Reader(smi), device_(device) {}

  void read() {
    std::int64_t degrees = 0;
    const char* const name = "amdsmi_get_temp_metric";
    const auto temperature_of = [&](const char* key, std::uint32_t sensor, int metric) {
      if (ask(key, name, smi_.amdsmi_get_temp_metric, device_, sensor, metric, &degrees)) temperature(key, degrees, 1);
    };
    temperature_of("temperature_celsius", kTemperatureJunction, kTemperatureNow);
    temperature_of("temperature_memory_celsius", kTemperatureMemory, kTemperatureNow);
    temperature_of("temperature_slowdown_celsius", kTemperatureJunction, kTemperatureCritical);
    temperature_of("temperature_shutdown_celsius", kTemperatureJunction, kTemperatureEmergency);
    std::uint64_t number = 0, timestamp = 0;
    float resolution = 0;
    if (ask("energy_microjoule", "amdsmi_get_energy_count", smi_.amdsmi_get_energy_count, device_, &number, &resolution,
            &timestamp))
      energy(number, resolution);
    if (ask("memory_used_bytes", "amdsmi_get_gpu_memory_usage", smi_.amdsmi_get_gpu_memory_usage, device_, kMemoryVram,
            &number))
      report.number("memory_used_bytes", number);
    if (ask("memory_total_bytes", "amdsmi_get_gpu_memory_total", smi_.amdsmi_get_gpu_memory_total, device_, kMemoryVram,
            &number))
      report.number("memory_total_bytes", number);
    smi_error_count errors = {};
    if (ask("ecc_errors", "amdsmi_get_gpu_total_ecc_count", smi_.amdsmi_get_gpu_total_ecc_count, device_, &errors)) {
      report.number("ecc_errors", errors.uncorrectable_err);
      report.number("ecc_corrected", errors.correctable_err);
    }
    std::uint32_t count = 0;
    if (ask("processes", "amdsmi_get_gpu_process_list", smi_.amdsmi_get_gpu_process_list, device_, &count,
            static_cast<void*>(nullptr)))
      report.number("processes", count);
    for (const char* key : {"power_milliwatt", "clock_hz", "throttle_reason"})
      report.absent(key, "AMD SMI's struct for it differs between releases, and is not read; ROCm SMI tells it");
  }

 private:
  void* device_;
};

std::optional<std::uint32_t> find_in_rocm(const Smi& smi, const PciAddress& pci) {
  std::uint32_t count = 0;
  if (smi.rsmi_num_monitor_devices == nullptr || smi.rsmi_dev_pci_id_get == nullptr ||
      smi.rsmi_num_monitor_devices(&count) != RSMI_STATUS_SUCCESS)
    return std::nullopt;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t id = 0;
    if (smi.rsmi_dev_pci_id_get(i, &id) != RSMI_STATUS_SUCCESS) continue;
    if (id >> 32 == pci.domain && (id >> 8 & 0xff) == pci.bus && (id >> 3 & 0x1f) == pci.device &&
        (id & 7) == pci.function)
      return i;
  }
  return std::nullopt;
}

}  // namespace

sdk::HealthReport sample_smi(const Smi& smi, const std::string& text) {
  PciAddress pci;
  const bool is_pci = std::sscanf(text.c_str(), "%x:%x:%x.%x", &pci.domain, &pci.bus, &pci.device, &pci.function) == 4;
  if (is_pci && smi.is_rocm) {
    if (const auto device = find_in_rocm(smi, pci)) {
      RocmReader reader(smi, *device);
      reader.read();
      return std::move(reader.report);
    }
  }
  void* device = nullptr;
  const std::uint64_t bdf = pci.function | pci.device << 3 | pci.bus << 8 | std::uint64_t{pci.domain} << 16;
  if (is_pci && smi.amdsmi_get_processor_handle_from_bdf != nullptr &&
      smi.amdsmi_get_processor_handle_from_bdf(bdf, &device) == RSMI_STATUS_SUCCESS) {
    AmdSmiReader reader(smi, device);
    reader.read();
    return std::move(reader.report);
  }
  sdk::HealthReport nothing;
  nothing.text("note", std::string("health is not measured: ") + smi.name() + " (" + smi.file +
                           ") does not know the device at '" + text + "': compare its release with the driver's");
  return nothing;
}

}  // namespace crucible_amd
