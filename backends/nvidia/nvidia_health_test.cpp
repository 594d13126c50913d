// NVIDIA's devices as NVML tells of them: the emulated one under rules, one that lacks functions, none at all. Each
// case is a process of its own, because an emulator reads its rules once.
#include <gmock/gmock.h>

#include <filesystem>

#include "plugins/sdk/testing/device_plugin.hpp"
#include "plugins/sdk/testing/told_health.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kDriver = CRUCIBLE_TEST_CUDA;

class NvidiaHealth : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kDriver.parent_path() / "libnvidia-ml.so.1"))
      GTEST_SKIP() << "no emulated NVML was built (crucible_emulated_nvml)";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  static ToldHealth ask(const char* rules, const std::string& nvml = kDriver.parent_path() / "libnvidia-ml.so.1") {
    setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
    return told_health(*take(Backend::load(take(find_backend("nvidia")), {{"library", kDriver}, {"nvml", nvml}})),
                       "nvidia:0");
  }
};

/// `holds` sees `told`, in a process whose rules are `rules`.
#define EXPECT_TOLD(rules, ...)                                                                       \
  EXPECT_EXIT(                                                                                        \
      {                                                                                               \
        const auto told = ask(rules);                                                                 \
        const auto check = [&] { __VA_ARGS__ };                                                       \
        check();                                                                                      \
        end_child();                                                                                  \
      },                                                                                              \
      ::testing::ExitedWithCode(0), "")

TEST_F(NvidiaHealth, EveryValueIsTold) {
  EXPECT_TOLD("", {
    EXPECT_EQ(told.numbers.at("temperature_celsius"), 61u);
    EXPECT_EQ(told.numbers.at("temperature_slowdown_celsius"), 92u);
    EXPECT_EQ(told.numbers.at("temperature_shutdown_celsius"), 97u);
    EXPECT_EQ(told.numbers.at("power_limit_milliwatt"), 700'000u);
    EXPECT_EQ(told.numbers.at("clock_max_hz"), 1'980'000'000u);
    EXPECT_EQ(told.numbers.at("clock_memory_hz"), 2'600'000'000u);
    EXPECT_EQ(told.numbers.at("energy_microjoule") % 1000, 0u) << "NVML counts millijoules";
    EXPECT_GT(told.numbers.at("energy_microjoule"), 0u);
    EXPECT_EQ(told.numbers.at("memory_total_bytes"), std::uint64_t{4096} << 20);
    EXPECT_EQ(told.numbers.at("remapped_rows"), 0u);
    EXPECT_EQ(told.texts.at("clock_limit"), "idle");
    EXPECT_TRUE(told.absent.empty()) << told.absent.begin()->first;
    EXPECT_EQ(told.state, CRUCIBLE_STATE_OK);
  });
}

TEST_F(NvidiaHealth, ErrorsAndHeatDegradeIt) {
  EXPECT_TOLD("ecc:count=2,corrected=7@query(nvmlDeviceGetTotalEccErrors)", {
    EXPECT_EQ(told.numbers.at("ecc_errors"), 2u);
    EXPECT_EQ(told.numbers.at("ecc_corrected_lifetime"), 7u);
    EXPECT_EQ(told.state, CRUCIBLE_STATE_DEGRADED);
    EXPECT_EQ(told.reason, "2 uncorrected errors of the memory");
  });
  EXPECT_TOLD("hot@query", {
    EXPECT_EQ(told.texts.at("throttle_reason"), "too hot (software)");
    EXPECT_EQ(told.reason, "clocks are slow: too hot (software)");
  });
}

TEST_F(NvidiaHealth, XidErrorsAreBlamedAndRemembered) {
  EXPECT_TOLD("xid:number=79@query#1", {
    EXPECT_EQ(told.numbers.at("device_errors"), 1u);
    EXPECT_EQ(told.texts.at("driver_events"), "Xid 79 (fallen off the bus)");
    EXPECT_EQ(told.state, CRUCIBLE_STATE_LOST) << "state is asked after the event was taken";
  });
  EXPECT_TOLD("xid:number=31@query#1; xid:number=13@query#1; xid:number=12345@query#1", {
    EXPECT_EQ(told.numbers.at("program_errors"), 1u);
    EXPECT_EQ(told.state, CRUCIBLE_STATE_OK);
  });
  EXPECT_TOLD("xid:number=12345@query#1", {
    EXPECT_EQ(told.numbers.at("device_errors"), 1u) << "a number that is not known is the device's";
    EXPECT_EQ(told.texts.at("driver_events"), "Xid 12345");
  });
  EXPECT_TOLD("xid:number=63@query", {
    EXPECT_EQ(told.numbers.at("device_errors"), 0u) << "and a driver without end of events keeps nobody";
  });
  EXPECT_TOLD("missing@query(nvmlDeviceRegisterEvents)",
              { EXPECT_EQ(told.absent.at("device_errors"), "the driver tells no events of this device"); });
}

TEST_F(NvidiaHealth, ADeviceWithoutRowRemappingRetiresPages) {
  EXPECT_TOLD("missing@query(nvmlDeviceGetRemappedRows); ecc:count=3,corrected=20@query(nvmlDeviceGetRetiredPages)", {
    EXPECT_EQ(told.numbers.at("retired_pages"), 23u) << "of both causes";
    EXPECT_EQ(told.numbers.at("repair_pending"), 0u);
    EXPECT_EQ(told.numbers.count("remapped_rows"), 0u);
  });
}

TEST_F(NvidiaHealth, WhatIsRefusedIsAbsentAndTheRestIsTold) {
  EXPECT_TOLD(
      "deny@query(nvmlDeviceGetComputeRunningProcesses_v3); missing@query(nvmlDeviceGetUtilizationRates); "
      "fail@query(nvmlDeviceGetPowerUsage)",
      {
        EXPECT_THAT(told.absent.at("processes"),
                    HasSubstr("nvmlDeviceGetComputeRunningProcesses_v3 is not permitted: ask as root"));
        EXPECT_EQ(told.absent.at("utilization_percent"), "the device does not tell it");
        EXPECT_EQ(told.absent.at("power_milliwatt"), "nvmlDeviceGetPowerUsage: NVML error 999");
        EXPECT_EQ(told.absent.size(), 3u);
        EXPECT_EQ(told.state, CRUCIBLE_STATE_OK);
      });
}

TEST_F(NvidiaHealth, ALibraryThatLacksFunctionsTellsWhatItHas) {
  EXPECT_EXIT(
      {
        const ToldHealth told = ask("", kDriver.parent_path() / "old/libnvidia-ml.so");
        EXPECT_EQ(told.numbers.at("temperature_celsius"), 61u);
        EXPECT_EQ(told.numbers.at("retired_pages"), 0u);
        EXPECT_THAT(told.absent.at("energy_microjoule"),
                    HasSubstr("has no nvmlDeviceGetTotalEnergyConsumption: another release of the driver has it"));
        EXPECT_THAT(told.absent.at("device_errors"), HasSubstr("has no event sets"));
        EXPECT_THAT(told.absent.at("repair_pending"), HasSubstr("has no nvmlDeviceGetRetiredPagesPendingStatus"));
        EXPECT_EQ(told.state, CRUCIBLE_STATE_OK);
        end_child();
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(NvidiaHealth, ADeviceThatIsGoneIsLost) {
  EXPECT_TOLD("lost@query(nvml*)", {
    EXPECT_EQ(told.state, CRUCIBLE_STATE_LOST);
    EXPECT_EQ(told.absent.at("temperature_celsius"), "the device is lost");
  });
}

TEST_F(NvidiaHealth, AnotherLibraryIsNoNvml) {
  EXPECT_EXIT(
      {
        const ToldHealth told = ask("", "libz.so.1");
        EXPECT_THAT(told.texts.at("note"), HasSubstr("health is not measured: NVML"));
        EXPECT_THAT(told.texts.at("note"), HasSubstr("does not start"));
        end_child();
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace crucible::backend
