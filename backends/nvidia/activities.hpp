// What a device did while something ran, launch by launch, as CUPTI's activity records tell it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/nvidia/cupti.hpp"

namespace crucible_nvidia {

/// A kernel, a copy or a fill.
struct Activity {
  std::string kernel;  // its name; "" for a copy or a fill
  std::uint64_t begin_ns = 0, end_ns = 0;
  std::uint32_t registers = 0, shared_bytes = 0;  // of a kernel, per thread and per block
};

/// Runs `run`, which has to wait for the device, and gives what graphs did meanwhile, in the order of their begin. Only one at a time in the
/// process: others wait. Threads: any. Errors: those of Cupti::check(); UNAVAILABLE when records were lost; those of `run`.
std::vector<Activity> trace_graphs(const Cupti& cupti, const std::function<void()>& run);

}  // namespace crucible_nvidia
