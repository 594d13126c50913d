// What is known of a device without having it: how much memory, how fast. `crucible plan --device-profile` asks whether
// a plan would fit; cost models of memory use the bandwidths. The table holds published numbers of well known devices;
// others come from the configuration (frontends/config), which this folder does not read. It says nothing about devices
// that are here: ask the plugin.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace crucible::runtime {

/// Zero rates: not known.
struct DeviceProfile {
  std::string name = {};             // "a100-80g": lower case, digits, '-'
  std::uint64_t memory_bytes = 0;    // of one device as a program sees it, nominal
  std::uint64_t reserved_bytes = 0;  // what driver, context and libraries take of it: an estimate
  std::uint64_t memory_bytes_per_second = 0;
  std::uint64_t f32_flops_per_second = 0;        // without tensor cores
  std::uint64_t host_link_bytes_per_second = 0;  // one direction
  std::string source = {};                       // where the numbers are from
  std::uint64_t usable_bytes() const { return memory_bytes > reserved_bytes ? memory_bytes - reserved_bytes : 0; }
};

/// The well known devices, by name.
std::span<const DeviceProfile> built_in_profiles();

/// The one of that name among `profiles`; null when there is none.
const DeviceProfile* find_profile(std::span<const DeviceProfile> profiles, std::string_view name);

}  // namespace crucible::runtime
