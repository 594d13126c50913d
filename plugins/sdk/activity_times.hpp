// Times of a plan's ops by what the device did: a vendor's profiler tells of each launch, copy and fill of one replay,
// and here they are given to the ops that they are of. How the records are had is the plugin's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"

namespace crucible::sdk {

/// A kernel, a copy or a fill.
struct Activity {
  std::string kernel;  // its name; "" for a copy or a fill
  std::uint64_t begin_ns = 0, end_ns = 0;
  std::uint32_t registers = 0, shared_bytes = 0;  // of a kernel, per thread and per block; 0: unknown
};

/// What an op is for the device.
struct OpActivities {
  std::size_t count = 0;
  std::string_view kernel;  // the name of the first; "": any
};

struct ProfilerName {
  std::string_view plugin, profiler;  // "nvidia", "CUPTI"
};

/// Nanoseconds per op, from the begin of its first activity to the end of its last; `activities` are those of the ops
/// in their order. What the kernels were is logged at the level of debugging. Errors: UNAVAILABLE when their number or
/// a kernel's name is another.
std::vector<std::uint64_t> times_of_ops(std::span<const Activity> activities, std::span<const OpActivities> ops,
                                        const ProfilerName& name);

/// What `times` gives, or nothing where counters are counted or the device has refused: why is a warning, once. A
/// Device has `facts.id`, `counters` (counters.hpp) and an atomic `refuses_tracing`. Errors: DEVICE_LOST.
template <class Device, class Times>
std::optional<std::vector<std::uint64_t>> times_unless_refused(Device& device, std::string_view plugin,
                                                               const Times& times) {
  if (device.refuses_tracing || device.counters.is_counting()) return std::nullopt;
  try {
    return times();
  } catch (const Failure& failure) {
    if (failure.code() == CRUCIBLE_E_DEVICE_LOST) throw;
    if (!device.refuses_tracing.exchange(true))
      log(LogLevel::kWarning, plugin, device.facts.id + ": times per op are those of events: " + failure.what());
    return std::nullopt;
  }
}

}  // namespace crucible::sdk
