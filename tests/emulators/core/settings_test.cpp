// The table of variables: what is read, what is refused and with which words.
#include "tests/emulators/core/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace crucible::emulator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::expected<Settings, std::string> parse(const std::map<std::string, std::string>& environment) {
  return parse_settings([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(EmulatorSettings, WithoutVariablesThereIsOneDevice) {
  const auto settings = parse({});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->devices, 1u);
  EXPECT_EQ(settings->memory_mib, 4096u);
  EXPECT_EQ(settings->order, Order::kForward);
  EXPECT_FALSE(settings->empty);
  EXPECT_EQ(settings->timing, Timing::kOff);
  EXPECT_EQ(settings->arch(3, "gfx90a"), "gfx90a");
}

TEST(EmulatorSettings, AreRead) {
  const auto settings = parse({{"CRUCIBLE_EMU_DEVICES", "3"},
                               {"CRUCIBLE_EMU_ARCH", "gfx90a,gfx1100"},
                               {"CRUCIBLE_EMU_WAVE", "32"},
                               {"CRUCIBLE_EMU_ORDER", "shuffled"},
                               {"CRUCIBLE_EMU_SEED", "18446744073709551615"},
                               {"CRUCIBLE_EMU_GUARD", "end"},
                               {"CRUCIBLE_EMU_KEEP", "1"},
                               {"CRUCIBLE_EMU_WITHOUT", "pools,virtual"},
                               {"CRUCIBLE_EMU_PITCH", "64"},
                               {"CRUCIBLE_EMU_EMPTY", "1"},
                               {"CRUCIBLE_EMU_RACES", "on"},
                               {"CRUCIBLE_EMU_CHECK_ARCH", "gfx942"}});
  ASSERT_TRUE(settings) << settings.error();
  EXPECT_EQ(settings->devices, 3u);
  EXPECT_EQ(settings->arch(0, ""), "gfx90a");
  EXPECT_EQ(settings->arch(1, ""), "gfx1100");
  EXPECT_EQ(settings->arch(2, ""), "gfx1100");
  EXPECT_EQ(settings->wave, 32u);
  EXPECT_EQ(settings->order, Order::kShuffled);
  EXPECT_EQ(settings->seed, ~0ull);
  EXPECT_TRUE(settings->guard_at_end);
  EXPECT_TRUE(settings->keep);
  EXPECT_EQ(settings->pitch, 64u);
  EXPECT_THAT(settings->without, ElementsAre("pools", "virtual"));
  EXPECT_TRUE(settings->empty);
  EXPECT_TRUE(settings->races);
  EXPECT_THAT(settings->check_archs, ElementsAre("gfx942"));
}

TEST(EmulatorSettings, AWrongWordIsNamedWithTheRightOnes) {
  const std::pair<const char*, const char*> wrong[] = {
      {"CRUCIBLE_EMU_DEVICES", "0"},      {"CRUCIBLE_EMU_DEVICES", "17"}, {"CRUCIBLE_EMU_DEVICES", "two"},
      {"CRUCIBLE_EMU_MEMORY_MIB", "4g"},  {"CRUCIBLE_EMU_WAVE", "48"},    {"CRUCIBLE_EMU_ORDER", "backwards"},
      {"CRUCIBLE_EMU_GUARD", "middle"},   {"CRUCIBLE_EMU_KEEP", "yes"},   {"CRUCIBLE_EMU_EMPTY", "2"},
      {"CRUCIBLE_EMU_ARCH", ","},         {"CRUCIBLE_EMU_THREADS", "-1"}, {"CRUCIBLE_EMU_SEED", "1 "},
      {"CRUCIBLE_EMU_WITHOUT", "graphs"}, {"CRUCIBLE_EMU_TIMING", "on"},  {"CRUCIBLE_EMU_RACES", "1"}};
  for (const auto& [name, word] : wrong) {
    const auto settings = parse({{name, word}});
    ASSERT_FALSE(settings) << name << " " << word;
    EXPECT_THAT(settings.error(), HasSubstr(std::string(name) + " is '" + word + "', it has to be ")) << name;
  }
  EXPECT_THAT(parse({{"CRUCIBLE_EMU_DEVICES", "0"}}).error(), HasSubstr("a number from 1 to 16"));
}

TEST(EmulatorSettings, TheModelOfTimesCountsKernelsThatRun) {
  EXPECT_EQ(parse({{"CRUCIBLE_EMU_TIMING", "roofline"}})->timing, Timing::kRoofline);
  EXPECT_EQ(parse({{"CRUCIBLE_EMU_TIMING", "off"}, {"CRUCIBLE_EMU_EMPTY", "1"}})->timing, Timing::kOff);
  EXPECT_THAT(parse({{"CRUCIBLE_EMU_TIMING", "roofline"}, {"CRUCIBLE_EMU_EMPTY", "1"}}).error(),
              HasSubstr("set one of the two"));
}

TEST(EmulatorSettings, WarpsAreCountedIntoAFile) {
  const auto settings =
      parse({{"CRUCIBLE_EMU_TIMING", "warps"}, {"CRUCIBLE_EMU_WARPS", "w.json"}, {"CRUCIBLE_EMU_EMPTY", "1"}});
  ASSERT_TRUE(settings) << settings.error();
  EXPECT_EQ(settings->timing, Timing::kWarps);
  EXPECT_EQ(settings->warps, "w.json");
  EXPECT_THAT(parse({{"CRUCIBLE_EMU_TIMING", "warps"}}).error(), HasSubstr("set both, or none"));
  EXPECT_THAT(parse({{"CRUCIBLE_EMU_WARPS", "w.json"}}).error(), HasSubstr("set both, or none"));
}

TEST(EmulatorSettingsDeathTest, AWrongWordEndsTheProcess) {
  EXPECT_DEATH(
      {
        setenv("CRUCIBLE_EMU_WAVE", "63", 1);
        reload_environment();
      },
      "crucible emulator: CRUCIBLE_EMU_WAVE is '63', it has to be 32 or 64");
}

}  // namespace
}  // namespace crucible::emulator
