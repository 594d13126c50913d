#include "core/hardware/health_policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace crucible::hardware {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A device with nothing wrong.
HealthSample well() {
  HealthSample sample;
  sample.set_number("temperature_celsius", 61);
  sample.set_number("temperature_slowdown_celsius", 92);
  sample.set_number("temperature_shutdown_celsius", 97);
  sample.set_number("ecc_errors", 0);
  sample.set_number("memory_used_bytes", 1 << 20);
  sample.set_number("memory_total_bytes", 1 << 30);
  return sample;
}

HealthSample with(std::string_view key, std::uint64_t value) {
  HealthSample sample = well();
  sample.set_number(key, value);
  return sample;
}

HealthSample with_text(std::string_view key, std::string_view text) {
  HealthSample sample = well();
  sample.set_text(key, text);
  return sample;
}

std::vector<std::string> reasons(const HealthJudgement& judgement) {
  std::vector<std::string> all;
  for (const HealthFinding& finding : judgement.findings) {
    EXPECT_FALSE(finding.next_step.empty()) << finding.reason;
    all.push_back(std::string(name(finding.verdict)) + ": " + finding.reason);
  }
  return all;
}

std::vector<std::string> reasons(const HealthSample& sample) { return reasons(judge(sample, {})); }

TEST(HealthSample, TheTableNamesEveryKeyOnce) {
  std::set<std::string_view> names;
  for (const HealthKey& key : health_keys()) EXPECT_TRUE(names.insert(key.name).second) << key.name;
  EXPECT_EQ(find_health_key("temperature"), nullptr);
}

TEST(HealthSample, ANumberThatCannotBeIsAbsentWithThatReason) {
  HealthSample sample;
  sample.set_number("temperature_celsius", 4294967295u);
  sample.set_number("temperature_memory_celsius", 200);
  sample.set_number("repair_failed", 2);
  sample.set_number("of_a_newer_plugin", ~0ull);
  EXPECT_EQ(sample.number("temperature_celsius"), std::nullopt);
  EXPECT_EQ(sample.number("temperature_memory_celsius"), 200u);
  EXPECT_EQ(sample.number("of_a_newer_plugin"), ~0ull);
  EXPECT_THAT(sample.absent(),
              ElementsAre(AbsentValue{"temperature_celsius", "the driver told 4294967295, which cannot be"},
                          AbsentValue{"repair_failed", "the driver told 2, which cannot be"}));
}

TEST(HealthPolicy, NothingMeasuredIsNoVerdict) {
  HealthSample sample;
  sample.set_text("note", "health is not measured");
  sample.set_number("of_a_newer_plugin", 3);
  EXPECT_EQ(judge(sample, {}).verdict, HealthVerdict::kUnknown);
  EXPECT_EQ(judge(well(), {}).verdict, HealthVerdict::kGood);
  EXPECT_THAT(judge(well(), {}).findings, IsEmpty());
}

TEST(HealthPolicy, TemperatureByTheDevicesOwnThresholds) {
  EXPECT_THAT(reasons(with("temperature_celsius", 86)), IsEmpty());
  EXPECT_THAT(reasons(with("temperature_celsius", 87)),
              ElementsAre("warn: 87 C, from 87 C on that is a warning, and the device slows down at 92 C"));
  EXPECT_THAT(reasons(with("temperature_celsius", 93)), ElementsAre(HasSubstr("warn: 93 C")));
  EXPECT_THAT(reasons(with("temperature_celsius", 94)),
              ElementsAre("sick: 94 C, 94 C is too hot, and the device slows down at 92 C"));
}

TEST(HealthPolicy, TemperatureByDefaultsAndByTheProfile) {
  HealthSample untold;
  untold.set_number("temperature_celsius", 84);
  EXPECT_EQ(judge(untold, {}).verdict, HealthVerdict::kGood);
  untold.set_number("temperature_celsius", 85);
  EXPECT_EQ(judge(untold, {}).verdict, HealthVerdict::kWarn);
  untold.set_number("temperature_celsius", 95);
  EXPECT_EQ(judge(untold, {}).verdict, HealthVerdict::kSick);
  DeviceProfile profile;
  profile.figures["health.sick_celsius"] = {.value = 70};
  untold.set_number("temperature_celsius", 71);
  EXPECT_EQ(judge(untold, limits_of(&profile)).verdict, HealthVerdict::kSick);
  EXPECT_EQ(judge(untold, limits_of(nullptr)).verdict, HealthVerdict::kGood);
  HealthSample no_shutdown;
  no_shutdown.set_number("temperature_slowdown_celsius", 90);
  EXPECT_EQ(temperature_limits(no_shutdown, {}).warn, 85u);
  EXPECT_EQ(temperature_limits(no_shutdown, {}).sick, 95u);
}

TEST(HealthPolicy, ErrorsOfTheMemory) {
  EXPECT_THAT(reasons(with("ecc_errors", 2)), ElementsAre("sick: 2 errors of the memory that were not corrected"));
  EXPECT_THAT(reasons(with("ecc_errors_lifetime", 1)),
              ElementsAre(HasSubstr("warn: 1 errors of the memory in its life")));
  EXPECT_THAT(reasons(with("ecc_corrected", 999)), IsEmpty());
  EXPECT_THAT(reasons(with("ecc_corrected", 1000)), ElementsAre(HasSubstr("warn: 1000 corrected errors")));
  EXPECT_THAT(reasons(with("retired_pages", 14)), IsEmpty());
  EXPECT_THAT(reasons(with("retired_pages", 15)), ElementsAre(HasSubstr("warn: 15 retired pages")));
  EXPECT_THAT(reasons(with("retired_pages", 60)), ElementsAre(HasSubstr("sick: 60 retired pages")));
  EXPECT_THAT(reasons(with("repair_pending", 1)),
              ElementsAre(HasSubstr("warn: its memory is repaired at the next reset")));
  EXPECT_THAT(reasons(with("repair_failed", 1)), ElementsAre(HasSubstr("sick: its memory could not be repaired")));
  EXPECT_THAT(reasons(with_text("memory_health", "degraded")), ElementsAre(HasSubstr("warn: ")));
  EXPECT_THAT(reasons(with_text("memory_health", "replace")), ElementsAre(HasSubstr("sick: ")));
  EXPECT_THAT(reasons(with_text("memory_health", "ok")), IsEmpty());
}

TEST(HealthPolicy, WhatTheDriverAndThePluginComplainOf) {
  HealthSample sample = with("device_errors", 1);
  sample.set_text("driver_events", "79, fallen off the bus");
  sample.set_number("program_errors", 2);
  EXPECT_THAT(reasons(sample), ElementsAre("sick: the driver blames 1 errors on the device (79, fallen off the bus)",
                                           HasSubstr("warn: the driver blames 2")));
  EXPECT_THAT(reasons(with_text("throttle_reason", "too hot")),
              ElementsAre("warn: the device slows itself down: too hot"));
  EXPECT_THAT(reasons(with("memory_used_bytes", (std::uint64_t{1} << 30) - 1)),
              ElementsAre("warn: 99 % of its memory is in use"));
  HealthSample lost = well();
  lost.set_state(DeviceState::kLost, "it fell off");
  EXPECT_THAT(reasons(lost), ElementsAre("sick: the device is lost: it fell off"));
  HealthSample odd = well();
  odd.set_state(DeviceState::kDegraded, "something new");
  EXPECT_THAT(reasons(odd), ElementsAre("warn: something new"));
}

TEST(HealthPolicy, CountersBetweenTwoSamples) {
  const HealthSample before = with("throttle_events", 5), same = with("throttle_events", 5),
                     more = with("throttle_events", 8), less = with("throttle_events", 1);
  EXPECT_THAT(reasons(judge(same, {}, &before)), IsEmpty());
  EXPECT_THAT(reasons(judge(more, {}, &before)), ElementsAre("warn: it was slowed down 3 times since the last sample"));
  EXPECT_THAT(reasons(judge(less, {}, &before)), ElementsAre(HasSubstr("throttle_events went back from 5 to 1")));
  EXPECT_THAT(reasons(judge(more, {})), IsEmpty()) << "a lifetime's count alone is no complaint";
}

TEST(HealthPolicy, AProfileThatContradictsItselfIsTold) {
  DeviceProfile profile;
  profile.figures["health.warn_celsius"] = {.value = 90};
  profile.figures["health.sick_celsius"] = {.value = 80};
  EXPECT_THAT(check(profile), ::testing::Contains("health.warn_celsius is larger than health.sick_celsius"));
}

}  // namespace
}  // namespace crucible::hardware
