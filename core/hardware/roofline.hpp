// How long a step takes at best on a device: the roofline. Bytes over the bandwidth of the level that they come from,
// flops over the peak, whichever is longer, and a launch. A bound to compare with, not a simulation.
#pragma once

#include <string_view>
#include <vector>

#include "core/hardware/device_profile.hpp"

namespace crucible::hardware {

/// Bytes that a step reads or writes, and how much was touched since they were touched last: a cache of that size still
/// has them.
struct Traffic {
  double bytes = 0;
  double distance_bytes = 0;
};

struct Work {
  std::vector<Traffic> traffic;
  double flops = 0;
  std::string_view dtype = "f32";  // of the arithmetic
  bool is_matrix = false;          // may use the matrix units
  bool is_shared = false;          // the next step waits for several threads or work-groups: a barrier
};

enum class Bound : std::uint8_t { kMemory, kCompute, kLaunch };
std::string_view name(Bound bound);

/// Nanoseconds.
struct Prediction {
  double memory_ns = 0, compute_ns = 0, launch_ns = 0;
  double roof_ns() const { return memory_ns > compute_ns ? memory_ns : compute_ns; }
  double total_ns() const { return roof_ns() + launch_ns; }
  /// The largest of the three.
  Bound bound() const;
};

/// Bytes per nanosecond of the nearest level that is at least `distance_bytes` large and whose bandwidth is known. The
/// first level does not count on devices with sub-groups: there no launch finds in it what another one left.
double bandwidth_at(const DeviceProfile& profile, double distance_bytes);

/// Operations per nanosecond: of the matrix units where `is_matrix` and the profile knows them, else of the vector
/// units; f32's where nothing is known of `dtype`.
double peak_of(const DeviceProfile& profile, std::string_view dtype, bool is_matrix);

/// Needs a profile that check() has nothing against; rates that are not known count as infinite.
Prediction predict(const DeviceProfile& profile, const Work& work);

}  // namespace crucible::hardware
