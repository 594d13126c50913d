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
constexpr Reason kReasons[] = {{zes::kAveragePower, false, "power limit"},
                               {zes::kBurstPower, false, "power limit of bursts"},
                               {zes::kCurrent, true, "current limit"},
                               {zes::kThermal, true, "too hot"},
                               {zes::kPowerSupply, true, "power supply alert"},
                               {zes::kSoftwareRange, false, "clocks that were set"},
                               {zes::kHardwareRange, false, "another part is slower"}};

/// The last reading of each device's counter: power is what it grew by.
struct EnergyReadings {
  std::mutex mutex;
  std::map<std::string, zes::EnergyCounter> last;  // by UUID
};
EnergyReadings& energy_readings() {
  static EnergyReadings& all = *new EnergyReadings;
  return all;
}

class Reader {
 public:
  Reader(const zes::Functions& functions, zes::Device device, std::string uuid)
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
  const zes::Functions& zes_;
  zes::Device device_;
  std::string uuid_;

  void tell_absent(const char* key, const char* name, bool is_there, ze::Result code) {
    if (code == ze::Result::kDeviceLost) sample.is_lost = true;
    if (code == ze::Result::kDeviceRequiresReset) sample.needs_reset = true;
    std::string reason = std::string(name) + ": " + error_name(code);
    if (code == ze::Result::kUnsupportedFeature) reason = "the device does not tell it";
    if (code == ze::Result::kInsufficientPermissions)
      reason = std::string(name) + " is not permitted: ask as root, or have the administrator allow it";
    if (!is_there) reason = zes_.file + " has no " + name + ": another release of the loader has it";
    sample.report.absent(key, reason);
  }

  /// True when the function is there and succeeds; else `key` is an absent value.
  template <class... Parameters, class... Arguments>
  bool ask(const char* key, const char* name, ze::Result (*function)(Parameters...), Arguments... arguments) {
    const ze::Result code = function == nullptr ? ze::Result::kSuccess : function(arguments...);
    if (function != nullptr && code == ze::Result::kSuccess) return true;
    tell_absent(key, name, function != nullptr, code);
    return false;
  }

  /// The device's sensors or domains of one kind; without any, `key` is an absent value.
  template <class Handle>
  std::vector<Handle> all_of(const char* key, const char* name,
                             ze::Result (*function)(zes::Device, std::uint32_t*, Handle*)) {
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
    for (zes::Temperature const sensor :
         all_of(kKey, "zesDeviceEnumTemperatureSensors", zes_.zesDeviceEnumTemperatureSensors)) {
      zes::TemperatureProperties properties;
      double celsius = 0;
      if (!ask(kKey, "zesTemperatureGetProperties", zes_.zesTemperatureGetProperties, sensor, &properties)) continue;
      const bool is_memory = properties.type == zes::kSensorMemory;
      if (!is_memory && properties.type != zes::kSensorGlobal && properties.type != zes::kSensorGpu) continue;
      if (!ask(is_memory ? "temperature_memory_celsius" : kKey, "zesTemperatureGetState", zes_.zesTemperatureGetState,
               sensor, &celsius))
        continue;
      std::optional<double>& most = is_memory ? memory : hottest;
      most = std::max(most.value_or(celsius), celsius);
      if (!is_memory && properties.largest > 0)
        largest = std::min(largest.value_or(properties.largest), properties.largest);
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
  std::optional<zes::EnergyCounter> energy(const std::vector<zes::Power>& domains) {
    zes::EnergyCounter sum;
    bool is_known = false;
    for (zes::Power const domain : domains) {
      zes::EnergyCounter counter;
      if (!ask("energy_microjoule", "zesPowerGetEnergyCounter", zes_.zesPowerGetEnergyCounter, domain, &counter))
        return std::nullopt;
      sum.microjoules += counter.microjoules;
      sum.microseconds = counter.microseconds;
      is_known = true;
    }
    if (!is_known) return std::nullopt;
    return sum;
  }

  void power() {
    std::vector<zes::Power> domains =
        all_of("energy_microjoule", "zesDeviceEnumPowerDomains", zes_.zesDeviceEnumPowerDomains);
    for (zes::Power const domain : domains) {
      zes::PowerProperties properties;
      if (zes_.zesPowerGetProperties == nullptr ||
          zes_.zesPowerGetProperties(domain, &properties) != ze::Result::kSuccess)
        continue;
      if (properties.on_subdevice != 0) continue;
      domains = {domain};
      break;
    }
    if (domains.empty()) return;
    zes::SustainedLimit limit;
    if (ask("power_limit_milliwatt", "zesPowerGetLimits", zes_.zesPowerGetLimits, domains.front(), &limit,
            static_cast<zes::BurstLimit*>(nullptr), static_cast<zes::PeakLimit*>(nullptr)) &&
        limit.enabled != 0)
      number("power_limit_milliwatt", limit.milliwatts, 1);
    std::optional<zes::EnergyCounter> now = energy(domains);
    if (!now) return;
    EnergyReadings& readings = energy_readings();
    const std::lock_guard lock(readings.mutex);
    const auto [last, is_first] = readings.last.try_emplace(uuid_, *now);
    if (is_first) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      now = energy(domains);
      if (!now) return;
    }
    sample.report.number("energy_microjoule", now->microjoules);
    // The counters' own clock; microjoules in a microsecond are watts.
    if (now->microseconds > last->second.microseconds && now->microjoules >= last->second.microjoules) {
      const auto grown = static_cast<double>(now->microjoules - last->second.microjoules);
      number("power_milliwatt", grown / static_cast<double>(now->microseconds - last->second.microseconds), 1000);
      last->second = *now;
    } else {
      sample.report.absent("power_milliwatt", "the energy counter did not move since the last sample");
      if (now->microjoules < last->second.microjoules) last->second = *now;
    }
  }

  void frequencies() {
    std::string throttle, limit;
    constexpr double kPerMegahertz = 1e6;
    for (zes::Frequency const domain :
         all_of("clock_hz", "zesDeviceEnumFrequencyDomains", zes_.zesDeviceEnumFrequencyDomains)) {
      zes::FrequencyProperties properties;
      zes::FrequencyState state;
      if (!ask("clock_hz", "zesFrequencyGetProperties", zes_.zesFrequencyGetProperties, domain, &properties)) continue;
      const bool is_memory = properties.type == zes::kDomainMemory;
      const char* const key = is_memory ? "clock_memory_hz" : "clock_hz";
      if ((!is_memory && properties.type != zes::kDomainGpu) || sample.report.has(key))
        continue;  // of several parts the first
      if (!ask(key, "zesFrequencyGetState", zes_.zesFrequencyGetState, domain, &state)) continue;
      number(key, state.actual, kPerMegahertz);
      if (is_memory) continue;
      number("clock_max_hz", properties.max, kPerMegahertz);
      for (const Reason& reason : kReasons) {
        if ((state.throttle_reasons & reason.bit) != 0)
          sdk::add_to_list(reason.is_throttle ? throttle : limit, reason.name);
      }
    }
    sample.report.text("throttle_reason", throttle);
    sample.report.text("clock_limit", limit);
  }

  void memory() {
    std::uint64_t free = 0, size = 0;
    std::uint32_t worst = 0;
    for (zes::Memory const module :
         all_of("memory_used_bytes", "zesDeviceEnumMemoryModules", zes_.zesDeviceEnumMemoryModules)) {
      zes::MemoryState state;
      if (!ask("memory_used_bytes", "zesMemoryGetState", zes_.zesMemoryGetState, module, &state)) return;
      free += state.free;
      size += state.size;
      worst = std::max(worst, state.health);
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
    for (zes::Ras const set : all_of("ecc_errors", "zesDeviceEnumRasErrorSets", zes_.zesDeviceEnumRasErrorSets)) {
      zes::RasProperties properties;
      zes::RasState state;
      if (!ask("ecc_errors", "zesRasGetProperties", zes_.zesRasGetProperties, set, &properties) ||
          !ask("ecc_errors", "zesRasGetState", zes_.zesRasGetState, set, std::uint8_t{0}, &state))
        return;
      is_counted = true;
      if (properties.type == zes::kCorrectable) {
        for (const std::uint64_t count : state.category) corrected += count;
        continue;
      }
      memory += state.category[zes::kCache];
      program += state.category[zes::kReset] + state.category[zes::kProgramming];
      for (const int category : {zes::kDriverErrors, zes::kCompute, zes::kNonCompute, zes::kDisplay})
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
             static_cast<zes::ProcessState*>(nullptr)))
      return;
    std::vector<zes::ProcessState> all(count);
    if (count != 0 && !ask("processes", "zesDeviceProcessesGetState", function, device_, &count, all.data())) return;
    sample.report.number("processes", count);
    std::string list;
    for (std::uint32_t i = 0; i < count && i < all.size(); ++i) sdk::add_to_list(list, std::to_string(all[i].process));
    sample.report.text("process_ids", list);
  }

  void state() {
    zes::DeviceState state;
    if (zes_.zesDeviceGetState == nullptr) return;
    const ze::Result code = zes_.zesDeviceGetState(device_, &state);
    sample.is_lost |= code == ze::Result::kDeviceLost;
    if (code == ze::Result::kSuccess && (state.reset & zes::kWedged) != 0) sample.needs_reset = true;
    if (code == ze::Result::kSuccess) sample.report.number("repair_pending", (state.reset & zes::kRepair) != 0 ? 1 : 0);
  }
};

zes::Device find(const zes::Functions& functions, const DeviceFacts& facts) {
  std::uint32_t driver_count = 0;
  if (functions.zesDriverGet(&driver_count, nullptr) != ze::Result::kSuccess) return nullptr;
  std::vector<zes::Driver> drivers(driver_count);
  if (driver_count != 0 && functions.zesDriverGet(&driver_count, drivers.data()) != ze::Result::kSuccess)
    return nullptr;
  for (zes::Driver const driver : drivers) {
    std::uint32_t count = 0;
    if (functions.zesDeviceGet(driver, &count, nullptr) != ze::Result::kSuccess) continue;
    std::vector<zes::Device> devices(count);
    if (count != 0 && functions.zesDeviceGet(driver, &count, devices.data()) != ze::Result::kSuccess) continue;
    for (zes::Device const device : devices) {
      zes::DeviceProperties properties;
      if (functions.zesDeviceGetProperties(device, &properties) == ze::Result::kSuccess &&
          uuid_text(properties.core.uuid) == facts.uuid)
        return device;
    }
  }
  return nullptr;
}

}  // namespace

SysmanSample sample_sysman(const zes::Functions& functions, const DeviceFacts& facts) {
  if (zes::Device const device = find(functions, facts)) {
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
