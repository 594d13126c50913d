// Profile table: the device's clock, and its metrics as counters.
#include <memory>

#include "backends/intel/device.hpp"
#include "backends/intel/metrics.hpp"
#include "backends/intel/tables.hpp"
#include "plugins/sdk/counters.hpp"
#include "plugins/sdk/signal_guard.hpp"

namespace crucible_intel {
namespace {

using namespace crucible;

sdk::ClockReading clock(crucible_device& device) {
  if (device.ze->zeDeviceGetGlobalTimestamps == nullptr)
    throw sdk::Failure(
        CRUCIBLE_E_UNSUPPORTED,
        "profile.clock_pair: the Level Zero library lacks zeDeviceGetGlobalTimestamps: version 1.1 or newer is needed");
  std::uint64_t host = 0;
  sdk::ClockReading reading = {.ticks_per_second = device.facts.ticks_per_second};
  check(device.ze->zeDeviceGetGlobalTimestamps(device.facts.device, &host, &reading.ticks),
        "zeDeviceGetGlobalTimestamps");
  return reading;
}

DeviceFacts find(crucible_str device_id) { return find_device(level_zero(), device_id); }

std::vector<sdk::Counter> known(const DeviceFacts& facts, std::string& why_none) {
  const sdk::SignalGuard guard;
  std::vector<sdk::Counter> counters;
  for (ListedMetric& metric : list_metrics(level_zero(), facts.device, why_none))
    counters.push_back(std::move(metric.counter));
  return counters;
}

std::unique_ptr<sdk::Counting> start(crucible_device& device, const std::vector<std::string>& names) {
  const sdk::SignalGuard guard;
  return std::make_unique<MetricCounting>(device, names);
}

using Entries = sdk::ProfileFunctions<crucible_device, DeviceFacts, clock, find, known, start>;

}  // namespace

const crucible_if_profile kProfileTable = sdk::make_profile_table<Entries>();

}  // namespace crucible_intel
