// Sysman, the part of Level Zero that measures: its functions, and one sample of a device. A device works without it.
#pragma once

#include <string>

#include "backends/intel/device.hpp"
#include "plugins/sdk/health_report.hpp"

namespace crucible_intel {

#define CRUCIBLE_SYSMAN_FUNCTIONS(X)                                                                     \
  X(zesInit) X(zesDriverGet)                                                                             \
  X(zesDeviceGet) X(zesDeviceGetProperties) X(zesDeviceGetState) X(zesDeviceProcessesGetState)           \
  X(zesDeviceEnumTemperatureSensors) X(zesTemperatureGetProperties) X(zesTemperatureGetState)            \
  X(zesDeviceEnumPowerDomains) X(zesPowerGetProperties) X(zesPowerGetEnergyCounter) X(zesPowerGetLimits) \
  X(zesDeviceEnumFrequencyDomains) X(zesFrequencyGetProperties) X(zesFrequencyGetState)                  \
  X(zesDeviceEnumMemoryModules) X(zesMemoryGetState) X(zesDeviceEnumRasErrorSets)                        \
  X(zesRasGetProperties) X(zesRasGetState)

struct SysmanFunctions {
#define CRUCIBLE_SYSMAN_MEMBER(name) decltype(&::name) name = nullptr;
  CRUCIBLE_SYSMAN_FUNCTIONS(CRUCIBLE_SYSMAN_MEMBER)
#undef CRUCIBLE_SYSMAN_MEMBER
  std::string file;
};

/// Sysman of the library that level_zero() opened, started; functions that it lacks are null. Null when there is none:
/// sysman_refusal() says why. Threads: any.
const SysmanFunctions* sysman();
/// "" when sysman() has one; else a sentence that names what is missing and what to install. Threads: any.
std::string sysman_refusal();

struct SysmanSample {
  crucible::sdk::HealthReport report;
  bool is_lost = false, needs_reset = false;
};

/// The device of that UUID. Threads: any. Never fails: what cannot be asked is an absent value, and a device that
/// Sysman does not know gives a note alone. Power is the energy between two samples; the first of a device waits 20 ms
/// for a second reading.
SysmanSample sample_sysman(const SysmanFunctions& functions, const DeviceFacts& facts);

}  // namespace crucible_intel
