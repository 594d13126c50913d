// The table of well known devices. Numbers are those of the vendors' datasheets: memory is nominal and counted in GiB,
// as the chips are; f32 is the peak of the vector units; links are the theoretical rate of one direction (PCIe 3, 4 and
// 5 with 16 lanes: 15.75, 31.5 and 63 GB/s).
#include "core/runtime/device_profile.hpp"

#include <algorithm>
#include <vector>

namespace crucible::runtime {
namespace {

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
constexpr std::uint64_t kGiga = 1'000'000'000;
constexpr std::uint64_t kPcie3 = 15'750'000'000, kPcie4 = 31'500'000'000, kPcie5 = 63'000'000'000;

/// `reserved` is 1 GiB for a card (a context takes 0.3 to 0.6 GiB, firmware and error correction the rest) and 2 GiB
/// where the system lives in the same memory.
DeviceProfile card(std::string name, std::uint64_t gib, std::uint64_t gigabytes_per_second, std::uint64_t gigaflops,
                   std::uint64_t link, std::string source, std::uint64_t reserved = kGib) {
  return {std::move(name),   gib * kGib, reserved,         gigabytes_per_second * kGiga,
          gigaflops * kGiga, link,       std::move(source)};
}

std::vector<DeviceProfile> make_table() {
  std::vector<DeviceProfile> table = {
      card("a10", 24, 600, 31'200, kPcie4, "NVIDIA A10 datasheet"),
      card("a100-40g", 40, 1'555, 19'500, kPcie4, "NVIDIA A100 datasheet, SXM4"),
      card("a100-80g", 80, 2'039, 19'500, kPcie4, "NVIDIA A100 datasheet, SXM4"),
      card("arc-a770", 16, 560, 17'200, kPcie4, "Intel Arc A770 specifications, 16 GB"),
      card("h100-80g", 80, 3'350, 67'000, kPcie5, "NVIDIA H100 datasheet, SXM5"),
      card("h200", 141, 4'800, 67'000, kPcie5, "NVIDIA H200 datasheet, SXM5"),
      card("jetson-agx-orin-64g", 64, 204, 5'300, 204 * kGiga,
           "NVIDIA Jetson AGX Orin datasheet; memory is shared with the system", 2 * kGib),
      card("jetson-orin-nano-8g", 8, 68, 1'280, 68 * kGiga,
           "NVIDIA Jetson Orin Nano datasheet; memory is shared with the system", 2 * kGib),
      card("l4", 24, 300, 30'300, kPcie4, "NVIDIA L4 datasheet"),
      card("l40s", 48, 864, 91'600, kPcie4, "NVIDIA L40S datasheet"),
      card("max-1550", 128, 3'276, 52'400, kPcie5, "Intel Data Center GPU Max 1550 specifications, both stacks"),
      card("mi210", 64, 1'638, 22'600, kPcie4, "AMD Instinct MI210 datasheet"),
      card("mi250", 64, 1'638, 22'600, kPcie4,
           "AMD Instinct MI250 datasheet, one of its two dies: that is what a program sees"),
      card("mi300x", 192, 5'300, 163'400, kPcie5, "AMD Instinct MI300X datasheet"),
      card("rtx-3060", 12, 360, 12'700, kPcie4, "NVIDIA GeForce RTX 3060 specifications, 12 GB"),
      card("rtx-3090", 24, 936, 35'600, kPcie4, "NVIDIA GeForce RTX 3090 specifications"),
      card("rtx-4090", 24, 1'008, 82'600, kPcie4, "NVIDIA Ada architecture paper"),
      card("rtx-5090", 32, 1'792, 104'800, kPcie5, "NVIDIA Blackwell architecture paper"),
      card("rx-7900-xtx", 24, 960, 61'400, kPcie4, "AMD Radeon RX 7900 XTX specifications"),
      card("t4", 16, 320, 8'100, kPcie3, "NVIDIA T4 datasheet"),
      card("v100-32g", 32, 900, 15'700, kPcie3, "NVIDIA V100 datasheet, SXM2"),
  };
  std::ranges::sort(table, {}, &DeviceProfile::name);
  return table;
}

}  // namespace

std::span<const DeviceProfile> built_in_profiles() {
  static const std::vector<DeviceProfile> table = make_table();
  return table;
}

const DeviceProfile* find_profile(std::span<const DeviceProfile> profiles, std::string_view name) {
  const auto found = std::ranges::find(profiles, name, &DeviceProfile::name);
  return found == profiles.end() ? nullptr : &*found;
}

}  // namespace crucible::runtime
