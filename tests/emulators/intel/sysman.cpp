// Sysman: the idle device of tests/emulators/core/telemetry.hpp, disturbed by rules at the site "query" with a
// function's name. It does not know the driver's state: no memory is in use, no process is there.
#include <algorithm>
#include <cstring>

#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/core/telemetry.hpp"
#include "tests/emulators/intel/machine.hpp"

using namespace crucible::emulator;

namespace {

_ze_driver_handle_t the_driver;
_ze_device_handle_t the_devices[16];
bool is_started = false;

// Handles of sensors and domains: what they are, and nothing of the device, because all devices are alike.
enum Part : std::uintptr_t { kGpuPart = 1, kMemoryPart = 2, kCorrectablePart = 3, kUncorrectablePart = 4 };
template <class Handle>
Handle handle_of(Part part) {
  return reinterpret_cast<Handle>(part);
}
template <class Handle>
bool is(Handle handle, Part part) {
  return reinterpret_cast<std::uintptr_t>(handle) == part;
}

struct Answer {
  ze_result_t code = ZE_RESULT_SUCCESS;
  Telemetry telemetry = {};
};

Answer answer_to(const char* function, const void* object, const void* out, Concern concern = Concern::kOther) {
  if (!is_started) return {ZE_RESULT_ERROR_UNINITIALIZED};
  if (object == nullptr || out == nullptr) return {ZE_RESULT_ERROR_INVALID_ARGUMENT};
  const Query query = ask(function, concern);
  if (!query.failure) return {ZE_RESULT_SUCCESS, query.telemetry};
  switch (query.failure->action) {
    case Action::kLost:
      return {ZE_RESULT_ERROR_DEVICE_LOST};
    case Action::kDeny:
      return {ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS};
    case Action::kMissing:
      return {ZE_RESULT_ERROR_UNSUPPORTED_FEATURE};
    default:
      return {ZE_RESULT_NOT_READY};
  }
}

/// A list of these parts, as the specification hands lists out.
template <class Handle>
ze_result_t list(const char* function, zes_device_handle_t device, std::uint32_t* count, Handle* handles,
                 std::initializer_list<Part> parts) {
  const Answer answer = answer_to(function, device, count);
  if (answer.code != ZE_RESULT_SUCCESS) return answer.code;
  const auto all = static_cast<std::uint32_t>(parts.size());
  if (handles == nullptr || *count == 0) {
    *count = all;
    return ZE_RESULT_SUCCESS;
  }
  *count = std::min(*count, all);
  for (std::uint32_t i = 0; i < *count; ++i) handles[i] = handle_of<Handle>(parts.begin()[i]);
  return ZE_RESULT_SUCCESS;
}

}  // namespace

extern "C" {

ze_result_t zesInit(std::uint32_t) {
  if (faults().hit(Site::kInit, "zesInit")) return ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE;
  is_started = true;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zesDriverGet(std::uint32_t* count, zes_driver_handle_t* drivers) {
  if (!is_started) return ZE_RESULT_ERROR_UNINITIALIZED;
  if (drivers != nullptr && *count != 0) drivers[0] = &the_driver;
  *count = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zesDeviceGet(zes_driver_handle_t, std::uint32_t* count, zes_device_handle_t* devices) {
  const auto all = static_cast<std::uint32_t>(settings().devices);
  if (devices != nullptr && *count != 0) {
    *count = std::min(*count, all);
    for (std::uint32_t i = 0; i < *count; ++i) {
      the_devices[i].number = i;
      devices[i] = &the_devices[i];
    }
    return ZE_RESULT_SUCCESS;
  }
  *count = all;
  return ZE_RESULT_SUCCESS;
}

/// The UUID is that of zeDeviceGetProperties.
ze_result_t zesDeviceGetProperties(zes_device_handle_t device, zes_device_properties_t* properties) {
  if (properties->stype != ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  std::memcpy(properties->core.uuid.id, "crucible-emu-xe0", 16);
  properties->core.uuid.id[15] = static_cast<std::uint8_t>('0' + device->number);
  std::strcpy(properties->vendorName, "emulated");
  return ZE_RESULT_SUCCESS;
}

ze_result_t zesDeviceGetState(zes_device_handle_t device, zes_device_state_t* state) {
  const Answer answer = answer_to("zesDeviceGetState", device, state);
  if (answer.code != ZE_RESULT_SUCCESS) return answer.code;
  if (state->stype != ZES_STRUCTURE_TYPE_DEVICE_STATE) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  state->reset = 0;
  state->repaired = ZES_REPAIR_STATUS_UNSUPPORTED;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zesDeviceProcessesGetState(zes_device_handle_t device, std::uint32_t* count, zes_process_state_t*) {
  const Answer answer = answer_to("zesDeviceProcessesGetState", device, count);
  if (answer.code == ZE_RESULT_SUCCESS) *count = 0;
  return answer.code;
}

ze_result_t zesDeviceEnumTemperatureSensors(zes_device_handle_t device, std::uint32_t* count,
                                            zes_temp_handle_t* sensors) {
  return list("zesDeviceEnumTemperatureSensors", device, count, sensors, {kGpuPart, kMemoryPart});
}
ze_result_t zesTemperatureGetProperties(zes_temp_handle_t sensor, zes_temp_properties_t* properties) {
  const Answer answer = answer_to("zesTemperatureGetProperties", sensor, properties);
  if (answer.code != ZE_RESULT_SUCCESS) return answer.code;
  if (properties->stype != ZES_STRUCTURE_TYPE_TEMP_PROPERTIES) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  properties->type = is(sensor, kMemoryPart) ? ZES_TEMP_SENSORS_MEMORY : ZES_TEMP_SENSORS_GPU;
  properties->maxTemperature = static_cast<double>(answer.telemetry.slowdown_celsius);
  return ZE_RESULT_SUCCESS;
}
ze_result_t zesTemperatureGetState(zes_temp_handle_t sensor, double* celsius) {
  const Answer answer = answer_to("zesTemperatureGetState", sensor, celsius, Concern::kTemperature);
  if (answer.code == ZE_RESULT_SUCCESS) *celsius = static_cast<double>(answer.telemetry.celsius);
  return answer.code;
}

ze_result_t zesDeviceEnumPowerDomains(zes_device_handle_t device, std::uint32_t* count, zes_pwr_handle_t* domains) {
  return list("zesDeviceEnumPowerDomains", device, count, domains, {kGpuPart});
}
ze_result_t zesPowerGetProperties(zes_pwr_handle_t domain, zes_power_properties_t* properties) {
  const Answer answer = answer_to("zesPowerGetProperties", domain, properties);
  if (answer.code != ZE_RESULT_SUCCESS) return answer.code;
  return properties->stype == ZES_STRUCTURE_TYPE_POWER_PROPERTIES ? ZE_RESULT_SUCCESS
                                                                  : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}
ze_result_t zesPowerGetEnergyCounter(zes_pwr_handle_t domain, zes_power_energy_counter_t* counter) {
  const Answer answer = answer_to("zesPowerGetEnergyCounter", domain, counter);
  if (answer.code != ZE_RESULT_SUCCESS) return answer.code;
  counter->energy = answer.telemetry.energy_microjoule;
  counter->timestamp =
      answer.telemetry.milliwatt == 0 ? 0 : answer.telemetry.energy_microjoule / (answer.telemetry.milliwatt / 1000);
  return ZE_RESULT_SUCCESS;
}
ze_result_t zesPowerGetLimits(zes_pwr_handle_t domain, zes_power_sustained_limit_t* sustained,
                              zes_power_burst_limit_t* burst, zes_power_peak_limit_t* peak) {
  const Answer answer = answer_to("zesPowerGetLimits", domain, domain);
  if (answer.code != ZE_RESULT_SUCCESS) return answer.code;
  const auto limit = static_cast<std::int32_t>(answer.telemetry.limit_milliwatt);
  if (sustained != nullptr) *sustained = {1, limit, 1};
  if (burst != nullptr) *burst = {1, limit};
  if (peak != nullptr) *peak = {limit, limit};
  return ZE_RESULT_SUCCESS;
}

ze_result_t zesDeviceEnumFrequencyDomains(zes_device_handle_t device, std::uint32_t* count,
                                          zes_freq_handle_t* domains) {
  return list("zesDeviceEnumFrequencyDomains", device, count, domains, {kGpuPart, kMemoryPart});
}
ze_result_t zesFrequencyGetProperties(zes_freq_handle_t domain, zes_freq_properties_t* properties) {
  const Answer answer = answer_to("zesFrequencyGetProperties", domain, properties);
  if (answer.code != ZE_RESULT_SUCCESS) return answer.code;
  if (properties->stype != ZES_STRUCTURE_TYPE_FREQ_PROPERTIES) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  properties->type = is(domain, kMemoryPart) ? ZES_FREQ_DOMAIN_MEMORY : ZES_FREQ_DOMAIN_GPU;
  properties->max =
      static_cast<double>(is(domain, kMemoryPart) ? answer.telemetry.memory_megahertz : answer.telemetry.max_megahertz);
  return ZE_RESULT_SUCCESS;
}
ze_result_t zesFrequencyGetState(zes_freq_handle_t domain, zes_freq_state_t* state) {
  const Answer answer = answer_to("zesFrequencyGetState", domain, state, Concern::kTemperature);
  if (answer.code != ZE_RESULT_SUCCESS) return answer.code;
  if (state->stype != ZES_STRUCTURE_TYPE_FREQ_STATE) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const Telemetry& t = answer.telemetry;
  state->actual = state->request = state->tdp = state->efficient =
      static_cast<double>(is(domain, kMemoryPart) ? t.memory_megahertz : t.megahertz);
  state->throttleReasons = t.is_hot && is(domain, kGpuPart) ? ZES_FREQ_THROTTLE_REASON_FLAG_THERMAL_LIMIT : 0;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zesDeviceEnumMemoryModules(zes_device_handle_t device, std::uint32_t* count, zes_mem_handle_t* modules) {
  return list("zesDeviceEnumMemoryModules", device, count, modules, {kMemoryPart});
}
/// Its health follows from the errors that a rule counts.
ze_result_t zesMemoryGetState(zes_mem_handle_t module, zes_mem_state_t* state) {
  const Answer answer = answer_to("zesMemoryGetState", module, state, Concern::kErrors);
  if (answer.code != ZE_RESULT_SUCCESS) return answer.code;
  if (state->stype != ZES_STRUCTURE_TYPE_MEM_STATE) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  const bool is_bad = answer.telemetry.uncorrected != 0, is_worn = answer.telemetry.corrected != 0;
  state->health = is_bad ? ZES_MEM_HEALTH_REPLACE : is_worn ? ZES_MEM_HEALTH_DEGRADED : ZES_MEM_HEALTH_OK;
  state->size = state->free = settings().memory_mib << 20;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zesDeviceEnumRasErrorSets(zes_device_handle_t device, std::uint32_t* count, zes_ras_handle_t* sets) {
  return list("zesDeviceEnumRasErrorSets", device, count, sets, {kCorrectablePart, kUncorrectablePart});
}
ze_result_t zesRasGetProperties(zes_ras_handle_t set, zes_ras_properties_t* properties) {
  const Answer answer = answer_to("zesRasGetProperties", set, properties);
  if (answer.code != ZE_RESULT_SUCCESS) return answer.code;
  if (properties->stype != ZES_STRUCTURE_TYPE_RAS_PROPERTIES) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  properties->type = is(set, kCorrectablePart) ? ZES_RAS_ERROR_TYPE_CORRECTABLE : ZES_RAS_ERROR_TYPE_UNCORRECTABLE;
  return ZE_RESULT_SUCCESS;
}
ze_result_t zesRasGetState(zes_ras_handle_t set, ze_bool_t, zes_ras_state_t* state) {
  const Answer answer = answer_to("zesRasGetState", set, state, Concern::kErrors);
  if (answer.code != ZE_RESULT_SUCCESS) return answer.code;
  if (state->stype != ZES_STRUCTURE_TYPE_RAS_STATE) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  for (std::uint64_t& category : state->category) category = 0;
  state->category[ZES_RAS_ERROR_CAT_CACHE_ERRORS] =
      is(set, kCorrectablePart) ? answer.telemetry.corrected : answer.telemetry.uncorrected;
  return ZE_RESULT_SUCCESS;
}

}  // extern "C"
