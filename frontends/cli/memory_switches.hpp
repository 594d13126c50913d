// The switches that say how much memory a replay may take, shared by the commands that plan.
#pragma once

#include <string>

#include "runtime/run/session.hpp"
#include "frontends/replay/open_device.hpp"

namespace crucible::cli {

using namespace replay;

struct MemorySwitches {
  std::string budget, objective = "balanced", profile;
};

/// The costs are those of the profile that was named, if any. Errors: kUsage for a size that cannot be read, and for a
/// profile that nobody knows.
Result<runtime::MemoryOptions> memory_options(const MemorySwitches& switches, const DeviceChoice& device);

/// "4GiB", "512 MiB", "1.5GB", "1048576": bytes. Units: powers of 1024 with an i, of 1000 without; upper or lower case.
/// Errors: kUsage, naming the switch.
Result<std::uint64_t> parse_size(std::string_view text, std::string_view what);

}  // namespace crucible::cli
