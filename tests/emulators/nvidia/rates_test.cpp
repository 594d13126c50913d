// The rates of the model of times are those of the device profiles that they name, as far as these have them.
#include "tests/emulators/nvidia/rates.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "frontends/config/profile_file.hpp"

namespace crucible::emulators::nvidia {
namespace {

using emulator::Unit;

constexpr std::pair<Unit, std::string_view> kPeaks[] = {
    {Unit::kF64, "peak.vector.f64"},       {Unit::kF32, "peak.vector.f32"},
    {Unit::kF16, "peak.vector.f16"},       {Unit::kBF16, "peak.vector.bf16"},
    {Unit::kMatrixF64, "peak.matrix.f64"}, {Unit::kMatrixTF32, "peak.matrix.tf32"},
    {Unit::kMatrixF16, "peak.matrix.f16"}, {Unit::kMatrixBF16, "peak.matrix.bf16"}};

TEST(EmulatedCudaRates, AreThoseOfTheDeviceProfiles) {
  const auto profiles = config::shipped_profiles();
  ASSERT_TRUE(profiles);
  for (const GenerationRates& generation : all_rates()) {
    const auto profile = std::ranges::find(*profiles, generation.profile, &hardware::DeviceProfile::name);
    ASSERT_NE(profile, profiles->end()) << generation.profile;
    std::size_t compared = 0;
    const auto compare = [&](std::string_view figure, double rate, double unit) {
      const auto found = profile->figures.find(figure);
      if (found == profile->figures.end()) return;
      EXPECT_DOUBLE_EQ(rate * unit, found->second.value) << generation.profile << " " << figure;
      ++compared;
    };
    compare("level.dram.bandwidth", generation.rates.memory, 1e9);
    compare("host_link.bandwidth", generation.rates.link, 1e9);
    compare("cost.launch", generation.rates.launch_ns, 1e-9);
    for (const auto& [unit, figure] : kPeaks)
      compare(figure, generation.rates.peaks[static_cast<std::size_t>(unit)], 1e9);
    EXPECT_GE(compared, 4u) << generation.profile << ": memory, link, launch and f32 at least";
  }
}

TEST(EmulatedCudaRates, EveryUnitOfEveryGenerationHasOne) {
  for (const GenerationRates& generation : all_rates()) {
    for (const double peak : generation.rates.peaks) EXPECT_GT(peak, 0) << generation.profile;
    EXPECT_EQ(&rates_of(generation.capability), &generation.rates);
  }
}

}  // namespace
}  // namespace crucible::emulators::nvidia
