// AMD's devices as ROCm SMI and AMD SMI tell of them: emulated ones of two releases under rules, and none at all. Each
// case is a process of its own, because an emulator reads its rules once.
#include <gmock/gmock.h>

#include <filesystem>

#include "plugins/sdk/testing/device_plugin.hpp"
#include "plugins/sdk/testing/told_health.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kFolder = CRUCIBLE_TEST_HIP_FOLDER;

class AmdHealth : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder / "librocm_smi64.so.7"))
      GTEST_SKIP() << "no emulated ROCm SMI was built (crucible_emulated_rocm_smi)";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  static ToldHealth ask(const char* rules, const std::string& library) {
    setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
    return told_health(
        *take(Backend::load(take(find_backend("amd")), {{"library", kFolder / "libamdhip64.so.6"}, {"smi", library}})),
        "amd:0");
  }
};

#define EXPECT_TOLD(rules, library, ...)                                  \
  EXPECT_EXIT(                                                            \
      {                                                                   \
        const auto told = ask(rules, library);                            \
        const auto check = [&] { __VA_ARGS__ };                           \
        check();                                                          \
        end_child();                                                      \
      },                                                                  \
      ::testing::ExitedWithCode(0), "")

TEST_F(AmdHealth, EveryValueIsTold) {
  EXPECT_TOLD("", kFolder / "librocm_smi64.so.7", {
    EXPECT_EQ(told.numbers.at("temperature_celsius"), 61u);
    EXPECT_EQ(told.numbers.at("temperature_memory_celsius"), 61u);
    EXPECT_EQ(told.numbers.at("temperature_slowdown_celsius"), 92u);
    EXPECT_EQ(told.numbers.at("temperature_shutdown_celsius"), 97u);
    EXPECT_EQ(told.numbers.at("power_milliwatt"), 350'000u);
    EXPECT_EQ(told.numbers.at("power_limit_milliwatt"), 700'000u);
    EXPECT_GT(told.numbers.at("energy_microjoule"), 0u);
    EXPECT_EQ(told.numbers.at("clock_hz"), 1'800'000'000u);
    EXPECT_EQ(told.numbers.at("clock_max_hz"), 1'980'000'000u);
    EXPECT_EQ(told.numbers.at("clock_memory_hz"), 2'600'000'000u);
    EXPECT_EQ(told.numbers.at("memory_total_bytes"), std::uint64_t{4096} << 20);
    EXPECT_EQ(told.numbers.at("processes"), 0u);
    EXPECT_TRUE(told.absent.empty()) << told.absent.begin()->first << ": " << told.absent.begin()->second;
    EXPECT_EQ(told.state, CRUCIBLE_STATE_OK);
  });
}

TEST_F(AmdHealth, ErrorsAndHeatDegradeIt) {
  EXPECT_TOLD("ecc:count=2,corrected=7@query(rsmi_dev_ecc_count_get); hot@query", kFolder / "librocm_smi64.so.7", {
    EXPECT_EQ(told.numbers.at("ecc_errors"), 2u) << "of the blocks that count";
    EXPECT_EQ(told.numbers.at("ecc_corrected"), 7u);
    EXPECT_EQ(told.texts.at("throttle_reason"), "too hot");
    EXPECT_EQ(told.numbers.at("clock_hz"), 600'000'000u);
    EXPECT_EQ(told.state, CRUCIBLE_STATE_DEGRADED);
    EXPECT_EQ(told.reason, "2 uncorrected errors, clocks are slow: too hot");
  });
}

TEST_F(AmdHealth, WhatIsRefusedIsAbsentAndTheRestIsTold) {
  EXPECT_TOLD(
      "deny@query(rsmi_dev_energy_count_get); missing@query(rsmi_dev_power_cap_get); "
      "fail@query(rsmi_dev_busy_percent_get); missing@query(rsmi_dev_ecc_count_get)",
      kFolder / "librocm_smi64.so.7", {
        EXPECT_THAT(told.absent.at("energy_microjoule"),
                    HasSubstr("rsmi_dev_energy_count_get is not permitted: ask as root"));
        EXPECT_EQ(told.absent.at("power_limit_milliwatt"), "the device does not tell it");
        EXPECT_EQ(told.absent.at("utilization_percent"), "rsmi_dev_busy_percent_get: ROCm SMI error 3");
        EXPECT_EQ(told.absent.at("ecc_errors"), "no block of the device tells its errors");
        EXPECT_EQ(told.absent.size(), 4u);
      });
}

TEST_F(AmdHealth, AnOlderReleaseHasItsOwnFormOfClocksAndFewerFunctions) {
  EXPECT_TOLD("", kFolder / "rocm5/librocm_smi64.so.5", {
    EXPECT_EQ(told.numbers.at("clock_hz"), 1'800'000'000u);
    EXPECT_EQ(told.numbers.at("clock_max_hz"), 1'980'000'000u);
    EXPECT_EQ(told.numbers.at("power_milliwatt"), 350'000u) << "by rsmi_dev_power_ave_get";
    EXPECT_THAT(told.absent.at("energy_microjoule"),
                HasSubstr("has no rsmi_dev_energy_count_get: another release has it"));
    EXPECT_EQ(told.state, CRUCIBLE_STATE_OK);
  });
}

TEST_F(AmdHealth, AmdSmiTellsWhatItsReleasesShare) {
  EXPECT_TOLD("ecc:corrected=4,count=0@query; deny@query(amdsmi_get_gpu_memory_usage)", kFolder / "libamd_smi.so.26", {
    EXPECT_EQ(told.numbers.at("temperature_celsius"), 61u);
    EXPECT_EQ(told.numbers.at("ecc_corrected"), 4u);
    EXPECT_GT(told.numbers.at("energy_microjoule"), 0u);
    EXPECT_THAT(told.absent.at("memory_used_bytes"), HasSubstr("is not permitted"));
    EXPECT_THAT(told.absent.at("power_milliwatt"), HasSubstr("differs between releases"));
    EXPECT_EQ(told.state, CRUCIBLE_STATE_OK);
  });
}

TEST_F(AmdHealth, WithoutALibraryNothingIsMeasuredAndThatIsSaid) {
  EXPECT_TOLD("", "/nowhere/librocm_smi64.so.7", {
    EXPECT_TRUE(told.numbers.empty());
    EXPECT_THAT(told.texts.at("note"), HasSubstr("ROCm SMI /nowhere/librocm_smi64.so.7 cannot be loaded"));
    EXPECT_THAT(told.texts.at("note"), HasSubstr("install rocm-smi-lib or amd-smi-lib"));
    EXPECT_THAT(told.reason, HasSubstr("the runtime answers; health is not measured"));
    EXPECT_EQ(told.state, CRUCIBLE_STATE_OK);
  });
  EXPECT_TOLD("", "libz.so.1", {
    EXPECT_THAT(told.texts.at("note"),
                HasSubstr("is neither ROCm SMI nor AMD SMI: it lacks rsmi_init and amdsmi_init"));
  });
  EXPECT_TOLD("fail@query(rsmi_dev_pci_id_get)", kFolder / "librocm_smi64.so.7",
              { EXPECT_THAT(told.texts.at("note"), HasSubstr("does not know the device at '0000:01:00.0'")); });
}

}  // namespace
}  // namespace crucible::backend
