// The own declarations of Sysman beside the vendor's header, where that is installed (Debian: libze-dev): sizes,
// offsets, numbers.
#include <gtest/gtest.h>
#include <level_zero/zes_api.h>

#include <cstddef>

#include "backends/intel/sysman_types.hpp"

namespace crucible_intel::zes {
namespace {

#define EXPECT_SAME_PLACE(ours, our_member, theirs, their_member)        \
  EXPECT_EQ(offsetof(ours, our_member), offsetof(theirs, their_member)); \
  EXPECT_EQ(sizeof(ours::our_member), sizeof(theirs::their_member)) << #theirs "." #their_member

TEST(SysmanLayout, StructsAreTheVendors) {
  EXPECT_EQ(sizeof(DeviceProperties), sizeof(zes_device_properties_t));
  EXPECT_EQ(offsetof(DeviceProperties, core) + offsetof(ze::DeviceProperties, uuid),
            offsetof(zes_device_properties_t, core) + offsetof(ze_device_properties_t, uuid));
  EXPECT_SAME_PLACE(DeviceProperties, driver_version, zes_device_properties_t, driverVersion);
  EXPECT_EQ(sizeof(DeviceState), sizeof(zes_device_state_t));
  EXPECT_SAME_PLACE(DeviceState, reset, zes_device_state_t, reset);
  EXPECT_EQ(sizeof(TemperatureProperties), sizeof(zes_temp_properties_t));
  EXPECT_SAME_PLACE(TemperatureProperties, type, zes_temp_properties_t, type);
  EXPECT_SAME_PLACE(TemperatureProperties, largest, zes_temp_properties_t, maxTemperature);
  EXPECT_EQ(sizeof(PowerProperties), sizeof(zes_power_properties_t));
  EXPECT_SAME_PLACE(PowerProperties, on_subdevice, zes_power_properties_t, onSubdevice);
  EXPECT_SAME_PLACE(PowerProperties, max_limit, zes_power_properties_t, maxLimit);
  EXPECT_EQ(sizeof(EnergyCounter), sizeof(zes_power_energy_counter_t));
  EXPECT_SAME_PLACE(EnergyCounter, microseconds, zes_power_energy_counter_t, timestamp);
  EXPECT_EQ(sizeof(SustainedLimit), sizeof(zes_power_sustained_limit_t));
  EXPECT_SAME_PLACE(SustainedLimit, milliwatts, zes_power_sustained_limit_t, power);
  EXPECT_EQ(sizeof(BurstLimit), sizeof(zes_power_burst_limit_t));
  EXPECT_EQ(sizeof(PeakLimit), sizeof(zes_power_peak_limit_t));
  EXPECT_EQ(sizeof(FrequencyProperties), sizeof(zes_freq_properties_t));
  EXPECT_SAME_PLACE(FrequencyProperties, type, zes_freq_properties_t, type);
  EXPECT_SAME_PLACE(FrequencyProperties, max, zes_freq_properties_t, max);
  EXPECT_EQ(sizeof(FrequencyState), sizeof(zes_freq_state_t));
  EXPECT_SAME_PLACE(FrequencyState, actual, zes_freq_state_t, actual);
  EXPECT_SAME_PLACE(FrequencyState, throttle_reasons, zes_freq_state_t, throttleReasons);
  EXPECT_EQ(sizeof(MemoryState), sizeof(zes_mem_state_t));
  EXPECT_SAME_PLACE(MemoryState, health, zes_mem_state_t, health);
  EXPECT_SAME_PLACE(MemoryState, free, zes_mem_state_t, free);
  EXPECT_SAME_PLACE(MemoryState, size, zes_mem_state_t, size);
  EXPECT_EQ(sizeof(RasProperties), sizeof(zes_ras_properties_t));
  EXPECT_SAME_PLACE(RasProperties, type, zes_ras_properties_t, type);
  EXPECT_EQ(sizeof(RasState), sizeof(zes_ras_state_t));
  EXPECT_SAME_PLACE(RasState, category, zes_ras_state_t, category);
  EXPECT_EQ(sizeof(ProcessState), sizeof(zes_process_state_t));
  EXPECT_SAME_PLACE(ProcessState, process, zes_process_state_t, processId);
}

#define EXPECT_NUMBER(ours, theirs) \
  EXPECT_EQ(static_cast<std::uint32_t>(ours), static_cast<std::uint32_t>(theirs)) << #theirs

TEST(SysmanLayout, NumbersAreTheVendors) {
  EXPECT_NUMBER(Structure::kDeviceProperties, ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES);
  EXPECT_NUMBER(Structure::kFrequencyProperties, ZES_STRUCTURE_TYPE_FREQ_PROPERTIES);
  EXPECT_NUMBER(Structure::kPowerProperties, ZES_STRUCTURE_TYPE_POWER_PROPERTIES);
  EXPECT_NUMBER(Structure::kRasProperties, ZES_STRUCTURE_TYPE_RAS_PROPERTIES);
  EXPECT_NUMBER(Structure::kTemperatureProperties, ZES_STRUCTURE_TYPE_TEMP_PROPERTIES);
  EXPECT_NUMBER(Structure::kDeviceState, ZES_STRUCTURE_TYPE_DEVICE_STATE);
  EXPECT_NUMBER(Structure::kProcessState, ZES_STRUCTURE_TYPE_PROCESS_STATE);
  EXPECT_NUMBER(Structure::kFrequencyState, ZES_STRUCTURE_TYPE_FREQ_STATE);
  EXPECT_NUMBER(Structure::kMemoryState, ZES_STRUCTURE_TYPE_MEM_STATE);
  EXPECT_NUMBER(Structure::kRasState, ZES_STRUCTURE_TYPE_RAS_STATE);
  EXPECT_NUMBER(kSensorMemory, ZES_TEMP_SENSORS_MEMORY);
  EXPECT_NUMBER(kDomainMemory, ZES_FREQ_DOMAIN_MEMORY);
  EXPECT_NUMBER(kAveragePower, ZES_FREQ_THROTTLE_REASON_FLAG_AVE_PWR_CAP);
  EXPECT_NUMBER(kThermal, ZES_FREQ_THROTTLE_REASON_FLAG_THERMAL_LIMIT);
  EXPECT_NUMBER(kHardwareRange, ZES_FREQ_THROTTLE_REASON_FLAG_HW_RANGE);
  EXPECT_NUMBER(kHealthReplace, ZES_MEM_HEALTH_REPLACE);
  EXPECT_NUMBER(kUncorrectable, ZES_RAS_ERROR_TYPE_UNCORRECTABLE);
  EXPECT_NUMBER(kCache, ZES_RAS_ERROR_CAT_CACHE_ERRORS);
  EXPECT_NUMBER(kCategories, ZES_MAX_RAS_ERROR_CATEGORY_COUNT);
  EXPECT_NUMBER(kWedged, ZES_RESET_REASON_FLAG_WEDGED);
  EXPECT_NUMBER(kRepair, ZES_RESET_REASON_FLAG_REPAIR);
}

}  // namespace
}  // namespace crucible_intel::zes
