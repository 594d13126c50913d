// What a device did while something ran, launch by launch, as CUPTI's activity records tell it.
#pragma once

#include <functional>
#include <vector>

#include "backends/nvidia/cupti.hpp"
#include "plugins/sdk/activity_times.hpp"

namespace crucible_nvidia {

/// Runs `run`, which has to wait for the device, and gives what graphs did meanwhile, in the order of their begin. Only
/// one at a time in the process: others wait. Threads: any. Errors: those of Cupti::check(); UNAVAILABLE when records
/// were lost; those of `run`.
std::vector<crucible::sdk::Activity> trace_graphs(const Cupti& cupti, const std::function<void()>& run);

}  // namespace crucible_nvidia
