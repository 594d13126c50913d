// The part of Level Zero's Sysman that this plugin uses, laid out as the specification has it
// (https://oneapi-src.github.io/level-zero-spec): structs, numbers and the types of functions. The vendor's headers are
// not needed to build; where they are installed, a test compares.
#pragma once

#include <cstdint>

#include "backends/intel/level_zero_types.hpp"

namespace crucible_intel::zes {

using ze::Result;
using Driver = struct SysmanDriverObject*;
using Device = struct SysmanDeviceObject*;
using Temperature = struct SysmanTemperatureObject*;
using Power = struct SysmanPowerObject*;
using Frequency = struct SysmanFrequencyObject*;
using Memory = struct SysmanMemoryObject*;
using Ras = struct SysmanRasObject*;

enum class Structure : std::uint32_t {
  kDeviceProperties = 0x1,
  kFrequencyProperties = 0x9,
  kPowerProperties = 0xd,
  kRasProperties = 0xf,
  kTemperatureProperties = 0x14,
  kDeviceState = 0x15,
  kProcessState = 0x16,
  kFrequencyState = 0x1b,
  kMemoryState = 0x1e,
  kRasState = 0x22,
};

inline constexpr std::uint32_t kSensorGlobal = 0, kSensorGpu = 1, kSensorMemory = 2;  // TemperatureProperties::type
inline constexpr std::uint32_t kDomainGpu = 0, kDomainMemory = 1;                     // FrequencyProperties::type
inline constexpr std::uint32_t kAveragePower = 1, kBurstPower = 2, kCurrent = 4, kThermal = 8, kPowerSupply = 16,
                               kSoftwareRange = 32,
                               kHardwareRange = 64;  // FrequencyState::throttle_reasons
inline constexpr std::uint32_t kHealthOk = 1, kHealthDegraded = 2, kHealthCritical = 3,
                               kHealthReplace = 4;                                    // MemoryState::health
inline constexpr std::uint32_t kCorrectable = 0, kUncorrectable = 1;                  // RasProperties::type
inline constexpr int kReset = 0, kProgramming = 1, kDriverErrors = 2, kCompute = 3, kNonCompute = 4, kCache = 5,
                     kDisplay = 6, kCategories = 7;
inline constexpr std::uint32_t kWedged = 1, kRepair = 2;                              // DeviceState::reset

struct DeviceProperties {
  Structure structure = Structure::kDeviceProperties;
  void* next = nullptr;
  ze::DeviceProperties core;
  std::uint32_t subdevices = 0;
  char serial_number[64] = {}, board_number[64] = {}, brand[64] = {}, model[64] = {}, vendor[64] = {},
       driver_version[64] = {};
};
struct DeviceState {
  Structure structure = Structure::kDeviceState;
  const void* next = nullptr;
  std::uint32_t reset = 0, repaired = 0;
};
struct TemperatureProperties {
  Structure structure = Structure::kTemperatureProperties;
  void* next = nullptr;
  std::uint32_t type = 0;
  std::uint8_t on_subdevice = 0;
  std::uint32_t subdevice = 0;
  double largest = 0;
  std::uint8_t has_critical = 0, has_threshold1 = 0, has_threshold2 = 0;
};
struct PowerProperties {
  Structure structure = Structure::kPowerProperties;
  void* next = nullptr;
  std::uint8_t on_subdevice = 0;
  std::uint32_t subdevice = 0;
  std::uint8_t can_control = 0, has_energy_threshold = 0;
  std::int32_t default_limit = 0, min_limit = 0, max_limit = 0;  // milliwatts
};
struct EnergyCounter {
  std::uint64_t microjoules = 0, microseconds = 0;
};
struct SustainedLimit {
  std::uint8_t enabled = 0;
  std::int32_t milliwatts = 0, interval = 0;
};
struct BurstLimit {
  std::uint8_t enabled = 0;
  std::int32_t milliwatts = 0;
};
struct PeakLimit {
  std::int32_t milliwatts_ac = 0, milliwatts_dc = 0;
};
struct FrequencyProperties {
  Structure structure = Structure::kFrequencyProperties;
  void* next = nullptr;
  std::uint32_t type = 0;
  std::uint8_t on_subdevice = 0;
  std::uint32_t subdevice = 0;
  std::uint8_t can_control = 0, has_throttle_event = 0;
  double min = 0, max = 0;  // MHz
};
struct FrequencyState {
  Structure structure = Structure::kFrequencyState;
  const void* next = nullptr;
  double voltage = 0, request = 0, tdp = 0, efficient = 0, actual = 0;  // MHz; below 0: not known
  std::uint32_t throttle_reasons = 0;
};
struct MemoryState {
  Structure structure = Structure::kMemoryState;
  const void* next = nullptr;
  std::uint32_t health = 0;
  std::uint64_t free = 0, size = 0;
};
struct RasProperties {
  Structure structure = Structure::kRasProperties;
  void* next = nullptr;
  std::uint32_t type = 0;
  std::uint8_t on_subdevice = 0;
  std::uint32_t subdevice = 0;
};
struct RasState {
  Structure structure = Structure::kRasState;
  const void* next = nullptr;
  std::uint64_t category[kCategories] = {};
};
struct ProcessState {
  Structure structure = Structure::kProcessState;
  const void* next = nullptr;
  std::uint32_t process = 0;
  std::uint64_t memory_bytes = 0, shared_bytes = 0;
  std::uint32_t engines = 0;
};

#define CRUCIBLE_SYSMAN_FUNCTIONS(X)                                                     \
  X(zesInit, std::uint32_t)                                                              \
  X(zesDriverGet, std::uint32_t*, Driver*)                                               \
  X(zesDeviceGet, Driver, std::uint32_t*, Device*)                                       \
  X(zesDeviceGetProperties, Device, DeviceProperties*)                                   \
  X(zesDeviceGetState, Device, DeviceState*)                                             \
  X(zesDeviceProcessesGetState, Device, std::uint32_t*, ProcessState*)                   \
  X(zesDeviceEnumTemperatureSensors, Device, std::uint32_t*, Temperature*)               \
  X(zesTemperatureGetProperties, Temperature, TemperatureProperties*)                    \
  X(zesTemperatureGetState, Temperature, double*)                                        \
  X(zesDeviceEnumPowerDomains, Device, std::uint32_t*, Power*)                           \
  X(zesPowerGetProperties, Power, PowerProperties*)                                      \
  X(zesPowerGetEnergyCounter, Power, EnergyCounter*)                                     \
  X(zesPowerGetLimits, Power, SustainedLimit*, BurstLimit*, PeakLimit*)                  \
  X(zesDeviceEnumFrequencyDomains, Device, std::uint32_t*, Frequency*)                   \
  X(zesFrequencyGetProperties, Frequency, FrequencyProperties*)                          \
  X(zesFrequencyGetState, Frequency, FrequencyState*)                                    \
  X(zesDeviceEnumMemoryModules, Device, std::uint32_t*, Memory*)                         \
  X(zesMemoryGetState, Memory, MemoryState*)                                             \
  X(zesDeviceEnumRasErrorSets, Device, std::uint32_t*, Ras*)                             \
  X(zesRasGetProperties, Ras, RasProperties*)                                            \
  X(zesRasGetState, Ras, std::uint8_t, RasState*)

}  // namespace crucible_intel::zes
