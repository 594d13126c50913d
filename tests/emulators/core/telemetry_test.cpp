// The idle device, and which rules disturb which query.
#include "tests/emulators/core/telemetry.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulator {
namespace {

class EmulatorTelemetry : public ::testing::Test {
 protected:
  void set(const char* name, const char* value) {
    setenv(name, value, 1);
    reload_environment();
  }
  void TearDown() override {
    for (const char* name : {"CRUCIBLE_EMU_FAULTS", "CRUCIBLE_EMU_CELSIUS", "CRUCIBLE_EMU_WATT"}) unsetenv(name);
    reload_environment();
  }
};

TEST_F(EmulatorTelemetry, OfAnIdleDeviceComesFromTheSettings) {
  set("CRUCIBLE_EMU_CELSIUS", "48");
  set("CRUCIBLE_EMU_WATT", "100");
  const Query first = ask("anything"), second = ask("anything");
  EXPECT_FALSE(first.failure);
  EXPECT_EQ(first.telemetry.celsius, 48u);
  EXPECT_EQ(first.telemetry.milliwatt, 100'000u);
  EXPECT_GT(first.telemetry.energy_microjoule, 0u);
  EXPECT_GE(second.telemetry.energy_microjoule, first.telemetry.energy_microjoule) << "energy only grows";
  EXPECT_EQ(first.telemetry.uncorrected, 0u);
}

TEST_F(EmulatorTelemetry, ARuleSeesOnlyWhatItCanDisturb) {
  set("CRUCIBLE_EMU_FAULTS", "hot@query;ecc:count=3,corrected=7@query;xid:number=48@query#2");
  EXPECT_EQ(ask("a", Concern::kOther).telemetry.celsius, 61u);
  EXPECT_EQ(ask("a", Concern::kTemperature).telemetry.celsius, 94u);
  EXPECT_TRUE(ask("a", Concern::kTemperature).telemetry.is_hot);
  EXPECT_EQ(ask("a", Concern::kErrors).telemetry.uncorrected, 3u) << "the first rule does not hide the second";
  EXPECT_EQ(ask("a", Concern::kErrors).telemetry.corrected, 7u);
  EXPECT_EQ(ask("a", Concern::kEvents).telemetry.event, 0u);
  EXPECT_EQ(ask("a", Concern::kEvents).telemetry.event, 48u) << "the second that waits for events, not the sixth query";
}

TEST_F(EmulatorTelemetry, FailuresAreTheVendorsToName) {
  set("CRUCIBLE_EMU_FAULTS", "deny@query(b*);missing@query(c)");
  EXPECT_FALSE(ask("a").failure);
  EXPECT_EQ(ask("bc").failure->action, Action::kDeny);
  EXPECT_EQ(ask("c", Concern::kErrors).failure->action, Action::kMissing);
}

}  // namespace
}  // namespace crucible::emulator
