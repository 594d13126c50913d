// One sample of a device by ROCm SMI or AMD SMI: every value that it has, and for the others the reason.
#pragma once

#include <string>

#include "backends/amd/smi.hpp"
#include "plugins/sdk/health_report.hpp"

namespace crucible_amd {

/// `pci` as HIP writes it, "0000:41:00.0". Threads: any. Never fails: what cannot be asked is an absent value, and a
/// device that the library does not know gives a note alone.
crucible::sdk::HealthReport sample_smi(const Smi& smi, const std::string& pci);

}  // namespace crucible_amd
