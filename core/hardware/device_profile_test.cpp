#include "core/hardware/device_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace crucible::hardware {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DeviceProfile toy() {
  DeviceProfile profile{.name = "toy"};
  profile.figures["memory.size"] = {.value = 1000};
  profile.figures["level.dram.bandwidth"] = {.value = 5e9};
  profile.figures["peak.vector.f32"] = {.value = 1e9};
  profile.figures["cost.launch"] = {.value = 1e-6};
  return profile;
}

TEST(DeviceProfile, TheSchemaNamesEveryFigureOnce) {
  std::set<std::string_view> names;
  for (const FigureKey& key : figure_keys()) EXPECT_TRUE(names.insert(key.name).second) << key.name;
  EXPECT_EQ(find_figure_key("memory.size")->quantity, Quantity::kBytes);
  EXPECT_EQ(find_figure_key("memory.siz"), nullptr);
}

TEST(DeviceProfile, SaysWhatItLacks) {
  EXPECT_THAT(check(toy()), IsEmpty());
  EXPECT_EQ(check(DeviceProfile{}).size(), 4u);
  DeviceProfile odd = toy();
  odd.figures["memory.reserved"] = {.value = 1000};
  EXPECT_THAT(check(odd), ElementsAre(HasSubstr("keeps back 1000 of 1000 bytes")));
  odd = toy();
  odd.figures["level.l1.bandwidth"] = {.value = 1e9};
  odd.figures["level.l1.size"] = {.value = 4096};
  odd.figures["level.l2.size"] = {.value = 1024};
  // The first levels of many units together may hold more than the second.
  EXPECT_THAT(check(odd), ElementsAre(HasSubstr("level.dram.bandwidth is larger than level.l1.bandwidth")));
}

TEST(DeviceProfile, IsFoundByItsWholeName) {
  const std::vector<DeviceProfile> profiles = {toy()};
  EXPECT_NE(find_profile(profiles, "toy"), nullptr);
  EXPECT_EQ(find_profile(profiles, "to"), nullptr);
  EXPECT_EQ(find_profile({}, "toy"), nullptr);
}

TEST(DeviceProfile, OfADeviceThatIsHereTheLatestCalibration) {
  std::vector<DeviceProfile> profiles(4, toy());
  for (DeviceProfile& profile : profiles) profile.devices = {"Card"};
  profiles[0].name = "named";
  profiles[1].date = "2026-01-02", profiles[1].backend = "acme", profiles[1].name = "old";
  profiles[2].date = "2026-02-01", profiles[2].backend = "acme", profiles[2].name = "new";
  profiles[3].date = "2026-03-01", profiles[3].backend = "acme", profiles[3].name = "four", profiles[3].threads = 4;
  EXPECT_EQ(find_for_device(profiles, "acme", "Card", 2)->name, "new");
  EXPECT_EQ(find_for_device(profiles, "acme", "Card", 4)->name, "four");
  EXPECT_EQ(find_for_device(profiles, "other", "Card", 0)->name, "named");
  EXPECT_EQ(find_for_device(profiles, "acme", "Card", 0)->name, "four");
  EXPECT_EQ(find_for_device(profiles, "acme", "Other card", 0), nullptr);
}

TEST(DeviceProfile, NothingIsUsableWhereAllIsKeptBack) {
  DeviceProfile profile = toy();
  profile.figures["memory.reserved"] = {.value = 2000};
  EXPECT_EQ(profile.usable_bytes(), 0u);
  EXPECT_EQ(toy().usable_bytes(), 1000u);
}

TEST(DeviceProfile, FiguresAreWrittenWithUnits) {
  EXPECT_EQ(format_figure(Quantity::kBytes, 0x1p30 * 80), "80 GiB");
  EXPECT_EQ(format_figure(Quantity::kBytes, 1000), "1000 B");
  EXPECT_EQ(format_figure(Quantity::kBytesPerSecond, 2039e9), "2039 GB/s");
  EXPECT_EQ(format_figure(Quantity::kFlopsPerSecond, 19.5e12), "19.5 TFLOP/s");
  EXPECT_EQ(format_figure(Quantity::kSeconds, 7.5e-9), "7.5 ns");
  EXPECT_EQ(format_figure(Quantity::kSeconds, 0.1e-9), "0.1 ns");
  EXPECT_EQ(format_figure(Quantity::kHertz, 1.41e9), "1.41 GHz");
  EXPECT_EQ(format_figure(Quantity::kCount, 108), "108");
}

}  // namespace
}  // namespace crucible::hardware
