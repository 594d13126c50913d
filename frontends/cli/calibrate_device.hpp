// `crucible devices --calibrate`: measures the device and writes its profile where later commands find it.
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "frontends/replay/open_device.hpp"

namespace crucible::cli {

using namespace replay;

/// What was asked for.
struct CalibrateSwitches {
  DeviceChoice device;
  std::string output;  // the file; "": in the user's folder of device profiles
  std::uint32_t rounds = 15;
  std::uint32_t largest_mib = 256;  // working set
  bool anew = false;                // whatever the store has
};

/// Opens, measures, prints and writes; what was measured before of exactly this device, driver and plugin, here or on
/// another machine, is taken from the store. Errors: those of open_device() and runtime::calibrate(); kBadInput when
/// the file cannot be written; kUsage when there is no folder for it.
Result<int> calibrate_device(const CalibrateSwitches& switches, bool json);

}  // namespace crucible::cli
