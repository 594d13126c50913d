// Measuring a device that is here: generated kernels through the plugin boundary, as a program's kernels go, so that
// any plugin can be calibrated and none needs code for it. The result is a device profile with the provenance
// "calibrated".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/hardware/device_profile.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

struct CalibrateOptions {
  std::uint32_t rounds = 15;                             // of each measurement
  std::uint64_t largest_bytes = std::uint64_t{256} << 20;  // working set; less where an eighth of the memory is less
  std::uint64_t bytes_per_round = std::uint64_t{64} << 20;  // that a measurement of bandwidth moves at least
  std::string date;                                      // of today, "2026-01-31"
  std::uint32_t threads = 0;                             // with which the device works; 0: as many as it says it has
  /// Told before each part what is measured. May be null.
  std::function<void(std::string_view)> progress;
};

/// Median of the better half of the rounds, and (largest - smallest) of all of them over it.
struct Measured {
  double median = 0, spread = 0;
};

/// Bytes per second of one working set.
struct CalibratedPoint {
  std::uint64_t bytes = 0;
  Measured read, update;  // sums of all, each element read and written
};

struct Calibration {
  hardware::DeviceProfile profile;
  std::vector<CalibratedPoint> curve;
  std::uint64_t wall_ns = 0;
  std::vector<std::string> notes;  // what could not be measured, and why
};

/// Times the device: bandwidth over the working set and the levels that it shows, f32 multiply-adds of generated
/// kernels and, where the plugin's library takes it, of a product of matrices, a launch inside a plan, a barrier, the
/// link to the host of devices with memory of their own. Takes seconds, in which the device should have nothing else to
/// do. Errors: the plugin's; kUnavailable when its clock does not move.
Result<Calibration> calibrate(const std::shared_ptr<backend::Device>& device, const CalibrateOptions& options);

}  // namespace crucible::runtime
