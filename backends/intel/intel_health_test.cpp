// Intel's devices as Sysman tells of them: the emulated one under rules, a loader without Sysman. Each case is a
// process of its own, because an emulator reads its rules once.
#include <gmock/gmock.h>

#include "plugins/sdk/testing/told_health.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

class IntelHealth : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CRUCIBLE_INTEL_OPENCL") == nullptr)
      GTEST_SKIP() << "CRUCIBLE_INTEL_OPENCL does not name Intel's OpenCL driver (ci/test sets it)";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  static ToldHealth ask(const char* rules, const char* library = CRUCIBLE_EMULATED_LEVEL_ZERO) {
    setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
    const auto path = find_backend("intel");
    const auto backend =
        path ? Backend::load(*path, {{"library", library}}) : Result<std::shared_ptr<Backend>>(path.error());
    if (!backend) std::abort();
    return told_health(**backend, "intel:0");
  }
};

#define EXPECT_TOLD(rules, ...)                                           \
  EXPECT_EXIT(                                                            \
      {                                                                   \
        const auto told = ask(rules);                                     \
        const auto check = [&] { __VA_ARGS__ };                           \
        check();                                                          \
        end_child();                                                      \
      },                                                                  \
      ::testing::ExitedWithCode(0), "")

TEST_F(IntelHealth, EveryValueIsTold) {
  EXPECT_TOLD("", {
    EXPECT_EQ(told.numbers.at("temperature_celsius"), 61u);
    EXPECT_EQ(told.numbers.at("temperature_memory_celsius"), 61u);
    EXPECT_EQ(told.numbers.at("temperature_slowdown_celsius"), 92u);
    EXPECT_GT(told.numbers.at("energy_microjoule"), 0u);
    EXPECT_NEAR(static_cast<double>(told.numbers.at("power_milliwatt")), 350'000, 2) << "of two readings";
    EXPECT_EQ(told.numbers.at("power_limit_milliwatt"), 700'000u);
    EXPECT_EQ(told.numbers.at("clock_hz"), 1'800'000'000u);
    EXPECT_EQ(told.numbers.at("clock_max_hz"), 1'980'000'000u);
    EXPECT_EQ(told.numbers.at("clock_memory_hz"), 2'600'000'000u);
    EXPECT_EQ(told.numbers.at("memory_total_bytes"), std::uint64_t{4096} << 20);
    EXPECT_EQ(told.numbers.at("ecc_errors"), 0u);
    EXPECT_EQ(told.numbers.at("repair_pending"), 0u);
    EXPECT_EQ(told.texts.at("memory_health"), "ok");
    EXPECT_TRUE(told.absent.empty()) << told.absent.begin()->first << ": " << told.absent.begin()->second;
    EXPECT_EQ(told.state, CRUCIBLE_STATE_OK);
  });
}

TEST_F(IntelHealth, ErrorsAndHeatDegradeIt) {
  EXPECT_TOLD("ecc:count=2,corrected=7@query; hot@query", {
    EXPECT_EQ(told.numbers.at("ecc_errors"), 2u);
    EXPECT_EQ(told.numbers.at("ecc_corrected"), 7u);
    EXPECT_EQ(told.texts.at("memory_health"), "replace");
    EXPECT_EQ(told.texts.at("throttle_reason"), "too hot");
    EXPECT_EQ(told.state, CRUCIBLE_STATE_DEGRADED);
    EXPECT_EQ(told.reason, "2 uncorrected errors");
  });
}

TEST_F(IntelHealth, WhatIsRefusedIsAbsentAndTheRestIsTold) {
  EXPECT_TOLD(
      "deny@query(zesPowerGetEnergyCounter); missing@query(zesDeviceEnumRasErrorSets); "
      "fail@query(zesDeviceProcessesGetState)",
      {
        EXPECT_THAT(told.absent.at("energy_microjoule"),
                    HasSubstr("zesPowerGetEnergyCounter is not permitted: ask as root"));
        EXPECT_EQ(told.absent.at("ecc_errors"), "the device does not tell it");
        EXPECT_THAT(told.absent.at("processes"), HasSubstr("zesDeviceProcessesGetState: ZE_RESULT_NOT_READY"));
        EXPECT_EQ(told.absent.size(), 3u);
        EXPECT_EQ(told.numbers.at("temperature_celsius"), 61u);
      });
}

TEST_F(IntelHealth, ADeviceThatIsGoneIsLost) {
  EXPECT_TOLD("lost@query(zes*)", { EXPECT_EQ(told.state, CRUCIBLE_STATE_LOST); });
}

TEST_F(IntelHealth, WithoutSysmanNothingIsMeasuredAndThatIsSaid) {
  EXPECT_TOLD("fail@init(zesInit)", {
    EXPECT_TRUE(told.numbers.empty());
    EXPECT_THAT(told.texts.at("note"),
                HasSubstr("Sysman does not start (zesInit: ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE"));
    EXPECT_EQ(told.state, CRUCIBLE_STATE_OK);
  });
  EXPECT_EXIT(
      {
        const ToldHealth told = ask("", CRUCIBLE_EMULATED_LEVEL_ZERO_OLD);
        EXPECT_THAT(told.texts.at("note"), HasSubstr("has no zesInit: a loader of Level Zero 1.5 or newer has Sysman"));
        end_child();
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace crucible::backend
