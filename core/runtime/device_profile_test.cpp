#include "core/runtime/device_profile.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace crucible::runtime {
namespace {

TEST(DeviceProfile, TheTableIsSortedAndWhole) {
  const std::span<const DeviceProfile> profiles = built_in_profiles();
  EXPECT_GE(profiles.size(), 15u);
  EXPECT_TRUE(std::ranges::is_sorted(profiles, std::ranges::less_equal(), &DeviceProfile::name));  // no name twice
  for (const DeviceProfile& profile : profiles) {
    EXPECT_EQ(profile.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos)
        << profile.name;
    EXPECT_FALSE(profile.source.empty()) << profile.name;
    EXPECT_GE(profile.memory_bytes, std::uint64_t{4} << 30) << profile.name;
    EXPECT_LT(profile.usable_bytes(), profile.memory_bytes) << profile.name;
    // Units slip by a thousand, not by less.
    EXPECT_GT(profile.memory_bytes_per_second, 50'000'000'000u) << profile.name;
    EXPECT_LT(profile.memory_bytes_per_second, 10'000'000'000'000u) << profile.name;
    EXPECT_GT(profile.f32_flops_per_second, 1'000'000'000'000u) << profile.name;
    EXPECT_LT(profile.f32_flops_per_second, 300'000'000'000'000u) << profile.name;
    EXPECT_LE(profile.host_link_bytes_per_second, profile.memory_bytes_per_second) << profile.name;
  }
}

TEST(DeviceProfile, IsFoundByItsWholeName) {
  ASSERT_NE(find_profile(built_in_profiles(), "a100-80g"), nullptr);
  EXPECT_EQ(find_profile(built_in_profiles(), "a100-80g")->memory_bytes, std::uint64_t{80} << 30);
  EXPECT_EQ(find_profile(built_in_profiles(), "a100"), nullptr);
  EXPECT_EQ(find_profile({}, "a100-80g"), nullptr);
}

TEST(DeviceProfile, NothingIsUsableWhereAllIsKeptBack) {
  EXPECT_EQ((DeviceProfile{.name = "x", .memory_bytes = 5, .reserved_bytes = 9}).usable_bytes(), 0u);
}

}  // namespace
}  // namespace crucible::runtime
