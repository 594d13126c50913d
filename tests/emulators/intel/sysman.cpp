// Sysman: the idle device of tests/emulators/core/telemetry.hpp, disturbed by rules at the site "query" with a
// function's name. It does not know the driver's state: no memory is in use, no process is there.
#include "backends/intel/sysman_types.hpp"

#include <algorithm>
#include <cstring>

#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/core/telemetry.hpp"

using namespace crucible::emulator;
using namespace crucible_intel::zes;

namespace crucible_intel::zes {

struct SysmanDriverObject {};
struct SysmanDeviceObject {
  unsigned number = 0;
};

}  // namespace crucible_intel::zes

namespace {

SysmanDriverObject the_driver;
SysmanDeviceObject the_devices[16];
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
  Result code = Result::kSuccess;
  Telemetry telemetry = {};
};

Answer answer_to(const char* function, const void* object, const void* out, Concern concern = Concern::kOther) {
  if (!is_started) return {Result::kUninitialized};
  if (object == nullptr || out == nullptr) return {Result::kInvalidArgument};
  const Query query = ask(function, concern);
  if (!query.failure) return {Result::kSuccess, query.telemetry};
  switch (query.failure->action) {
    case Action::kLost:
      return {Result::kDeviceLost};
    case Action::kDeny:
      return {Result::kInsufficientPermissions};
    case Action::kMissing:
      return {Result::kUnsupportedFeature};
    default:
      return {Result::kNotReady};
  }
}

/// A list of these parts, as the specification hands lists out.
template <class Handle>
Result list(const char* function, Device device, std::uint32_t* count, Handle* handles,
            std::initializer_list<Part> parts) {
  const Answer answer = answer_to(function, device, count);
  if (answer.code != Result::kSuccess) return answer.code;
  const auto all = static_cast<std::uint32_t>(parts.size());
  if (handles == nullptr || *count == 0) {
    *count = all;
    return Result::kSuccess;
  }
  *count = std::min(*count, all);
  for (std::uint32_t i = 0; i < *count; ++i) handles[i] = handle_of<Handle>(parts.begin()[i]);
  return Result::kSuccess;
}

}  // namespace

extern "C" {

Result zesInit(std::uint32_t) {
  if (faults().hit(Site::kInit, "zesInit")) return Result::kDependencyUnavailable;
  is_started = true;
  return Result::kSuccess;
}

Result zesDriverGet(std::uint32_t* count, Driver* drivers) {
  if (!is_started) return Result::kUninitialized;
  if (drivers != nullptr && *count != 0) drivers[0] = &the_driver;
  *count = 1;
  return Result::kSuccess;
}

Result zesDeviceGet(Driver, std::uint32_t* count, Device* devices) {
  const auto all = static_cast<std::uint32_t>(settings().devices);
  if (devices != nullptr && *count != 0) {
    *count = std::min(*count, all);
    for (std::uint32_t i = 0; i < *count; ++i) {
      the_devices[i].number = i;
      devices[i] = &the_devices[i];
    }
    return Result::kSuccess;
  }
  *count = all;
  return Result::kSuccess;
}

/// The UUID is that of zeDeviceGetProperties.
Result zesDeviceGetProperties(Device device, DeviceProperties* properties) {
  if (properties->structure != Structure::kDeviceProperties) return Result::kInvalidArgument;
  std::memcpy(properties->core.uuid, "crucible-emu-xe0", 16);
  properties->core.uuid[15] = static_cast<std::uint8_t>('0' + device->number);
  std::strcpy(properties->vendor, "emulated");
  return Result::kSuccess;
}

Result zesDeviceGetState(Device device, DeviceState* state) {
  const Answer answer = answer_to("zesDeviceGetState", device, state);
  if (answer.code != Result::kSuccess) return answer.code;
  if (state->structure != Structure::kDeviceState) return Result::kInvalidArgument;
  state->reset = state->repaired = 0;
  return Result::kSuccess;
}

Result zesDeviceProcessesGetState(Device device, std::uint32_t* count, ProcessState*) {
  const Answer answer = answer_to("zesDeviceProcessesGetState", device, count);
  if (answer.code == Result::kSuccess) *count = 0;
  return answer.code;
}

Result zesDeviceEnumTemperatureSensors(Device device, std::uint32_t* count, Temperature* sensors) {
  return list("zesDeviceEnumTemperatureSensors", device, count, sensors, {kGpuPart, kMemoryPart});
}
Result zesTemperatureGetProperties(Temperature sensor, TemperatureProperties* properties) {
  const Answer answer = answer_to("zesTemperatureGetProperties", sensor, properties);
  if (answer.code != Result::kSuccess) return answer.code;
  if (properties->structure != Structure::kTemperatureProperties) return Result::kInvalidArgument;
  properties->type = is(sensor, kMemoryPart) ? kSensorMemory : kSensorGpu;
  properties->largest = static_cast<double>(answer.telemetry.slowdown_celsius);
  return Result::kSuccess;
}
Result zesTemperatureGetState(Temperature sensor, double* celsius) {
  const Answer answer = answer_to("zesTemperatureGetState", sensor, celsius, Concern::kTemperature);
  if (answer.code == Result::kSuccess) *celsius = static_cast<double>(answer.telemetry.celsius);
  return answer.code;
}

Result zesDeviceEnumPowerDomains(Device device, std::uint32_t* count, Power* domains) {
  return list("zesDeviceEnumPowerDomains", device, count, domains, {kGpuPart});
}
Result zesPowerGetProperties(Power domain, PowerProperties* properties) {
  const Answer answer = answer_to("zesPowerGetProperties", domain, properties);
  if (answer.code != Result::kSuccess) return answer.code;
  return properties->structure == Structure::kPowerProperties ? Result::kSuccess : Result::kInvalidArgument;
}
Result zesPowerGetEnergyCounter(Power domain, EnergyCounter* counter) {
  const Answer answer = answer_to("zesPowerGetEnergyCounter", domain, counter);
  if (answer.code != Result::kSuccess) return answer.code;
  counter->microjoules = answer.telemetry.energy_microjoule;
  counter->microseconds =
      answer.telemetry.milliwatt == 0 ? 0 : answer.telemetry.energy_microjoule / (answer.telemetry.milliwatt / 1000);
  return Result::kSuccess;
}
Result zesPowerGetLimits(Power domain, SustainedLimit* sustained, BurstLimit* burst, PeakLimit* peak) {
  const Answer answer = answer_to("zesPowerGetLimits", domain, domain);
  if (answer.code != Result::kSuccess) return answer.code;
  const auto limit = static_cast<std::int32_t>(answer.telemetry.limit_milliwatt);
  if (sustained != nullptr) *sustained = {1, limit, 1};
  if (burst != nullptr) *burst = {1, limit};
  if (peak != nullptr) *peak = {limit, limit};
  return Result::kSuccess;
}

Result zesDeviceEnumFrequencyDomains(Device device, std::uint32_t* count, Frequency* domains) {
  return list("zesDeviceEnumFrequencyDomains", device, count, domains, {kGpuPart, kMemoryPart});
}
Result zesFrequencyGetProperties(Frequency domain, FrequencyProperties* properties) {
  const Answer answer = answer_to("zesFrequencyGetProperties", domain, properties);
  if (answer.code != Result::kSuccess) return answer.code;
  if (properties->structure != Structure::kFrequencyProperties) return Result::kInvalidArgument;
  properties->type = is(domain, kMemoryPart) ? kDomainMemory : kDomainGpu;
  properties->max =
      static_cast<double>(is(domain, kMemoryPart) ? answer.telemetry.memory_megahertz : answer.telemetry.max_megahertz);
  return Result::kSuccess;
}
Result zesFrequencyGetState(Frequency domain, FrequencyState* state) {
  const Answer answer = answer_to("zesFrequencyGetState", domain, state, Concern::kTemperature);
  if (answer.code != Result::kSuccess) return answer.code;
  if (state->structure != Structure::kFrequencyState) return Result::kInvalidArgument;
  const Telemetry& t = answer.telemetry;
  state->actual = state->request = state->tdp = state->efficient =
      static_cast<double>(is(domain, kMemoryPart) ? t.memory_megahertz : t.megahertz);
  state->throttle_reasons = t.is_hot && is(domain, kGpuPart) ? kThermal : 0;
  return Result::kSuccess;
}

Result zesDeviceEnumMemoryModules(Device device, std::uint32_t* count, Memory* modules) {
  return list("zesDeviceEnumMemoryModules", device, count, modules, {kMemoryPart});
}
/// Its health follows from the errors that a rule counts.
Result zesMemoryGetState(Memory module, MemoryState* state) {
  const Answer answer = answer_to("zesMemoryGetState", module, state, Concern::kErrors);
  if (answer.code != Result::kSuccess) return answer.code;
  if (state->structure != Structure::kMemoryState) return Result::kInvalidArgument;
  const bool is_bad = answer.telemetry.uncorrected != 0, is_worn = answer.telemetry.corrected != 0;
  state->health = is_bad ? kHealthReplace : is_worn ? kHealthDegraded : kHealthOk;
  state->size = state->free = settings().memory_mib << 20;
  return Result::kSuccess;
}

Result zesDeviceEnumRasErrorSets(Device device, std::uint32_t* count, Ras* sets) {
  return list("zesDeviceEnumRasErrorSets", device, count, sets, {kCorrectablePart, kUncorrectablePart});
}
Result zesRasGetProperties(Ras set, RasProperties* properties) {
  const Answer answer = answer_to("zesRasGetProperties", set, properties);
  if (answer.code != Result::kSuccess) return answer.code;
  if (properties->structure != Structure::kRasProperties) return Result::kInvalidArgument;
  properties->type = is(set, kCorrectablePart) ? kCorrectable : kUncorrectable;
  return Result::kSuccess;
}
Result zesRasGetState(Ras set, std::uint8_t, RasState* state) {
  const Answer answer = answer_to("zesRasGetState", set, state, Concern::kErrors);
  if (answer.code != Result::kSuccess) return answer.code;
  if (state->structure != Structure::kRasState) return Result::kInvalidArgument;
  for (std::uint64_t& category : state->category) category = 0;
  state->category[kCache] = is(set, kCorrectablePart) ? answer.telemetry.corrected : answer.telemetry.uncorrected;
  return Result::kSuccess;
}

}  // extern "C"
