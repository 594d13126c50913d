// Asking Sysman value by value: see sysman.hpp.
#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "backends/intel/sysman.hpp"

namespace crucible_intel {
namespace {

using namespace crucible;

// Power limits and ranges are how a device works; the others somebody should look at.
struct Reason {
  std::uint32_t bit;
  bool is_throttle;
  const char* name;
};
constexpr Reason kReasons[] = {{ZES_FREQ_THROTTLE_REASON_FLAG_AVE_PWR_CAP, false, "power limit"},
                               {ZES_FREQ_THROTTLE_REASON_FLAG_BURST_PWR_CAP, false, "power limit of bursts"},
                               {ZES_FREQ_THROTTLE_REASON_FLAG_CURRENT_LIMIT, true, "current limit"},
                               {ZES_FREQ_THROTTLE_REASON_FLAG_THERMAL_LIMIT, true, "too hot"},
                               {ZES_FREQ_THROTTLE_REASON_FLAG_PSU_ALERT, true, "power supply alert"},
                               {ZES_FREQ_THROTTLE_REASON_FLAG_SW_RANGE, false, "clocks that were set"},
                               {ZES_FREQ_THROTTLE_REASON_FLAG_HW_RANGE, false, "another part is slower"}};

/// The last reading of each device's counter: power is what it grew by.
struct EnergyReadings {
  std::mutex mutex;
  std::map<std::string, zes_power_energy_counter_t> last;  // by UUID
};
EnergyReadings& energy_readings() {
  static EnergyReadings& all = *new EnergyReadings;
  return all;
}

class Reader {
 public:
  Reader(const SysmanFunctions& functions, zes_device_handle_t device, std::string uuid)
      : zes_(functions), device_(device), uuid_(std::move(uuid)) {}

  void read() {
    temperatures();
    power();
    frequencies();
    memory();
    errors();
    processes();
    state();
  }

  SysmanSample sample;

 private:
  const SysmanFunctions& zes_;
  zes_device_handle_t device_;
  std::string uuid_;

  void tell_absent(const char* key, const char* name, bool is_there, ze_result_t code) {
    if (code == ZE_RESULT_ERROR_DEVICE_LOST) sample.is_lost = true;
    if (code == ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET) sample.needs_reset = true;
    std::string reason = std::string(name) + ": " + error_name(code);
    if (code == ZE_RESULT_ERROR_UNSUPPORTED_FEATURE) reason = "the device does not tell it";
    if (code == ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS)
      reason = std::string(name) + " is not permitted: ask as root, or have the administrator allow it";
    if (!is_there) reason = zes_.file + " has no " + name + ": another release of the loader has it";
    sample.report.absent(key, reason);
  }

  /// True when the function is there and succeeds; else `key` is an absent value.
  template <class... Parameters, class... Arguments>
  bool ask(const char* key, const char* name, ze_result_t (*function)(Parameters...), Arguments... arguments) {
    const ze_result_t code = function == nullptr ? ZE_RESULT_SUCCESS : function(arguments...);
    if (function != nullptr && code == ZE_RESULT_SUCCESS) return true;
    tell_absent(key, name, function != nullptr, code);
    return false;
  }

  /// The device's sensors or domains of one kind; without any, `key` is an absent value.
  template <class Handle>
  std::vector<Handle> all_of(const char* key, const char* name,
                             ze_result_t (*function)(zes_device_handle_t, std::uint32_t*, Handle*)) {
    std::uint32_t count = 0;
    if (!ask(key, name, function, device_, &count, static_cast<Handle*>(nullptr))) return {};
    std::vector<Handle> handles(count);
    if (count == 0) sample.report.absent(key, "the device does not tell it");
    if (count != 0 && !ask(key, name, function, device_, &count, handles.data())) return {};
    handles.resize(std::min<std::size_t>(count, handles.size()));
    return handles;
  }

  void temperatures() {
    constexpr const char* kKey = "temperature_celsius";
    std::optional<double> hottest, memory, largest;
    for (zes_temp_handle_t const sensor :
         all_of(kKey, "zesDeviceEnumTemperatureSensors", zes_.zesDeviceEnumTemperatureSensors)) {
      auto properties = typed<zes_temp_properties_t>(ZES_STRUCTURE_TYPE_TEMP_PROPERTIES);
      double celsius = 0;
      if (!ask(kKey, "zesTemperatureGetProperties", zes_.zesTemperatureGetProperties, sensor, &properties)) continue;
      const bool is_memory = properties.type == ZES_TEMP_SENSORS_MEMORY;
      if (!is_memory && properties.type != ZES_TEMP_SENSORS_GLOBAL && properties.type != ZES_TEMP_SENSORS_GPU) continue;
      if (!ask(is_memory ? "temperature_memory_celsius" : kKey, "zesTemperatureGetState", zes_.zesTemperatureGetState,
               sensor, &celsius))
        continue;
      std::optional<double>& most = is_memory ? memory : hottest;
      most = std::max(most.value_or(celsius), celsius);
      if (!is_memory && properties.maxTemperature > 0)
        largest = std::min(largest.value_or(properties.maxTemperature), properties.maxTemperature);
    }
    number(kKey, hottest, 1);
    number("temperature_memory_celsius", memory, 1);
    number("temperature_slowdown_celsius", largest, 1);
  }

  /// What is not there, or below 0, is not told.
  void number(const char* key, std::optional<double> value, double factor) {
    if (value && *value >= 0 && *value * factor < 1.8e19)
      sample.report.number(key, static_cast<std::uint64_t>(*value * factor));
  }

  /// That of the whole card; of a device that tells only parts, their sum.
  std::optional<zes_power_energy_counter_t> energy(const std::vector<zes_pwr_handle_t>& domains) {
    zes_power_energy_counter_t sum = {};
    bool is_known = false;
    for (zes_pwr_handle_t const domain : domains) {
      zes_power_energy_counter_t counter = {};
      if (!ask("energy_microjoule", "zesPowerGetEnergyCounter", zes_.zesPowerGetEnergyCounter, domain, &counter))
        return std::nullopt;
      sum.energy += counter.energy;
      sum.timestamp = counter.timestamp;
      is_known = true;
    }
    if (!is_known) return std::nullopt;
    return sum;
  }

  void power() {
    std::vector<zes_pwr_handle_t> domains =
        all_of("energy_microjoule", "zesDeviceEnumPowerDomains", zes_.zesDeviceEnumPowerDomains);
    for (zes_pwr_handle_t const domain : domains) {
      auto properties = typed<zes_power_properties_t>(ZES_STRUCTURE_TYPE_POWER_PROPERTIES);
      if (zes_.zesPowerGetProperties == nullptr || zes_.zesPowerGetProperties(domain, &properties) != ZE_RESULT_SUCCESS)
        continue;
      if (properties.onSubdevice != 0) continue;
      domains = {domain};
      break;
    }
    if (domains.empty()) return;
    zes_power_sustained_limit_t limit = {};
    if (ask("power_limit_milliwatt", "zesPowerGetLimits", zes_.zesPowerGetLimits, domains.front(), &limit,
            static_cast<zes_power_burst_limit_t*>(nullptr), static_cast<zes_power_peak_limit_t*>(nullptr)) &&
        limit.enabled != 0)
      number("power_limit_milliwatt", limit.power, 1);
    std::optional<zes_power_energy_counter_t> now = energy(domains);
    if (!now) return;
    EnergyReadings& readings = energy_readings();
    const std::lock_guard lock(readings.mutex);
    const auto [last, is_first] = readings.last.try_emplace(uuid_, *now);
    if (is_first) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      now = energy(domains);
      if (!now) return;
    }
    sample.report.number("energy_microjoule", now->energy);
    // The counters' own clock; microjoules in a microsecond are watts.
    if (now->timestamp > last->second.timestamp && now->energy >= last->second.energy) {
      const auto grown = static_cast<double>(now->energy - last->second.energy);
      number("power_milliwatt", grown / static_cast<double>(now->timestamp - last->second.timestamp), 1000);
      last->second = *now;
    } else {
      sample.report.absent("power_milliwatt", "the energy counter did not move since the last sample");
      if (now->energy < last->second.energy) last->second = *now;
    }
  }

  void frequencies() {
    std::string throttle, limit;
    constexpr double kPerMegahertz = 1e6;
    for (zes_freq_handle_t const domain :
         all_of("clock_hz", "zesDeviceEnumFrequencyDomains", zes_.zesDeviceEnumFrequencyDomains)) {
      auto properties = typed<zes_freq_properties_t>(ZES_STRUCTURE_TYPE_FREQ_PROPERTIES);
      auto state = typed<zes_freq_state_t>(ZES_STRUCTURE_TYPE_FREQ_STATE);
      if (!ask("clock_hz", "zesFrequencyGetProperties", zes_.zesFrequencyGetProperties, domain, &properties)) continue;
      const bool is_memory = properties.type == ZES_FREQ_DOMAIN_MEMORY;
      const char* const key = is_memory ? "clock_memory_hz" : "clock_hz";
      if ((!is_memory && properties.type != ZES_FREQ_DOMAIN_GPU) || sample.report.has(key))
        continue;  // of several parts the first
      if (!ask(key, "zesFrequencyGetState", zes_.zesFrequencyGetState, domain, &state)) continue;
      number(key, state.actual, kPerMegahertz);
      if (is_memory) continue;
      number("clock_max_hz", properties.max, kPerMegahertz);
      for (const Reason& reason : kReasons) {
        if ((state.throttleReasons & reason.bit) != 0)
          sdk::add_to_list(reason.is_throttle ? throttle : limit, reason.name);
      }
    }
    sample.report.text("throttle_reason", throttle);
    sample.report.text("clock_limit", limit);
  }

  void memory() {
    std::uint64_t free = 0, size = 0;
    std::uint32_t worst = 0;
    for (zes_mem_handle_t const module :
         all_of("memory_used_bytes", "zesDeviceEnumMemoryModules", zes_.zesDeviceEnumMemoryModules)) {
      auto state = typed<zes_mem_state_t>(ZES_STRUCTURE_TYPE_MEM_STATE);
      if (!ask("memory_used_bytes", "zesMemoryGetState", zes_.zesMemoryGetState, module, &state)) return;
      free += state.free;
      size += state.size;
      worst = std::max<std::uint32_t>(worst, state.health);
    }
    if (size == 0) return;
    sample.report.number("memory_used_bytes", size - std::min(free, size));
    sample.report.number("memory_total_bytes", size);
    constexpr const char* kWords[] = {"", "ok", "degraded", "critical", "replace"};
    sample.report.text("memory_health", worst < std::size(kWords) ? kWords[worst] : "");
  }

  /// Caches count as memory. Resets and programming errors are mostly a program's; what the rest counts is the device's
  /// own.
  void errors() {
    bool is_counted = false;
    std::uint64_t corrected = 0, memory = 0, device = 0, program = 0;
    for (zes_ras_handle_t const set :
         all_of("ecc_errors", "zesDeviceEnumRasErrorSets", zes_.zesDeviceEnumRasErrorSets)) {
      auto properties = typed<zes_ras_properties_t>(ZES_STRUCTURE_TYPE_RAS_PROPERTIES);
      auto state = typed<zes_ras_state_t>(ZES_STRUCTURE_TYPE_RAS_STATE);
      if (!ask("ecc_errors", "zesRasGetProperties", zes_.zesRasGetProperties, set, &properties) ||
          !ask("ecc_errors", "zesRasGetState", zes_.zesRasGetState, set, ze_bool_t{0}, &state))
        return;
      is_counted = true;
      if (properties.type == ZES_RAS_ERROR_TYPE_CORRECTABLE) {
        for (const std::uint64_t count : state.category) corrected += count;
        continue;
      }
      memory += state.category[ZES_RAS_ERROR_CAT_CACHE_ERRORS];
      program += state.category[ZES_RAS_ERROR_CAT_RESET] + state.category[ZES_RAS_ERROR_CAT_PROGRAMMING_ERRORS];
      for (const int category : {ZES_RAS_ERROR_CAT_DRIVER_ERRORS, ZES_RAS_ERROR_CAT_COMPUTE_ERRORS,
                                 ZES_RAS_ERROR_CAT_NON_COMPUTE_ERRORS, ZES_RAS_ERROR_CAT_DISPLAY_ERRORS})
        device += state.category[category];
    }
    if (!is_counted) return;
    sample.report.number("ecc_errors", memory);
    sample.report.number("ecc_corrected", corrected);
    sample.report.number("device_errors", device);
    sample.report.number("program_errors", program);
  }

  void processes() {
    std::uint32_t count = 0;
    const auto function = zes_.zesDeviceProcessesGetState;
    if (!ask("processes", "zesDeviceProcessesGetState", function, device_, &count,
             static_cast<zes_process_state_t*>(nullptr)))
      return;
    std::vector<zes_process_state_t> all(count, typed<zes_process_state_t>(ZES_STRUCTURE_TYPE_PROCESS_STATE));
    if (count != 0 && !ask("processes", "zesDeviceProcessesGetState", function, device_, &count, all.data())) return;
    sample.report.number("processes", count);
    std::string list;
    for (std::uint32_t i = 0; i < count && i < all.size(); ++i)
      sdk::add_to_list(list, std::to_string(all[i].processId));
    sample.report.text("process_ids", list);
  }

  void state() {
    auto state = typed<zes_device_state_t>(ZES_STRUCTURE_TYPE_DEVICE_STATE);
    if (zes_.zesDeviceGetState == nullptr) return;
    const ze_result_t code = zes_.zesDeviceGetState(device_, &state);
    sample.is_lost |= code == ZE_RESULT_ERROR_DEVICE_LOST;
    if (code == ZE_RESULT_SUCCESS && (state.reset & ZES_RESET_REASON_FLAG_WEDGED) != 0) sample.needs_reset = true;
    if (code == ZE_RESULT_SUCCESS)
      sample.report.number("repair_pending", (state.reset & ZES_RESET_REASON_FLAG_REPAIR) != 0 ? 1 : 0);
  }
};

zes_device_handle_t find(const SysmanFunctions& functions, const DeviceFacts& facts) {
  std::uint32_t driver_count = 0;
  if (functions.zesDriverGet(&driver_count, nullptr) != ZE_RESULT_SUCCESS) return nullptr;
  std::vector<zes_driver_handle_t> drivers(driver_count);
  if (driver_count != 0 && functions.zesDriverGet(&driver_count, drivers.data()) != ZE_RESULT_SUCCESS) return nullptr;
  for (zes_driver_handle_t const driver : drivers) {
    std::uint32_t count = 0;
    if (functions.zesDeviceGet(driver, &count, nullptr) != ZE_RESULT_SUCCESS) continue;
    std::vector<zes_device_handle_t> devices(count);
    if (count != 0 && functions.zesDeviceGet(driver, &count, devices.data()) != ZE_RESULT_SUCCESS) continue;
    for (zes_device_handle_t const device : devices) {
      auto properties = typed<zes_device_properties_t>(ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES);
      properties.core.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
      if (functions.zesDeviceGetProperties(device, &properties) == ZE_RESULT_SUCCESS &&
          uuid_text(properties.core.uuid.id) == facts.uuid)
        return device;
    }
  }
  return nullptr;
}

}  // namespace

SysmanSample sample_sysman(const SysmanFunctions& functions, const DeviceFacts& facts) {
  if (zes_device_handle_t const device = find(functions, facts)) {
    Reader reader(functions, device, facts.uuid);
    reader.read();
    return std::move(reader.sample);
  }
  SysmanSample nothing;
  nothing.report.text("note",
                      "health is not measured: Sysman (" + functions.file + ") does not know the device " + facts.uuid);
  return nothing;
}

}  // namespace crucible_intel
