// One sample of a device by NVML: every value that it has, and for the others the reason.
#pragma once

#include "backends/nvidia/nvml.hpp"
#include "plugins/sdk/health_report.hpp"

namespace crucible_nvidia {

struct NvmlSample {
  crucible::sdk::HealthReport report;
  bool is_lost = false, needs_reset = false;  // what any of the calls answered
};

/// Threads: any. Never fails: what cannot be asked is an absent value.
NvmlSample sample_nvml(const Nvml& nvml, nvmlDevice_t device);

}  // namespace crucible_nvidia
