// The switches that several commands have. Their values go into what frontends/replay takes.
#pragma once

#include <string>

#include "core/base/result.hpp"
#include "frontends/cli/memory_switches.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/spread_run.hpp"

namespace CLI {
class App;
}

namespace crucible::cli {

/// Adds --backend, --device, --fallback, --set, --config and --explain to a command.
void add_device_switches(CLI::App& command, DeviceChoice& choice);

/// Adds --numerics.
void add_numerics_switch(CLI::App& command, DeviceChoice& choice);

/// Adds --tune: off, kept and, where `can_measure`, measure (frontends/replay/tuning.hpp).
void add_tune_switch(CLI::App& command, std::string& mode, bool can_measure);

/// Adds --memory-budget and --objective.
void add_memory_switches(CLI::App& command, MemorySwitches& switches);

/// Adds --sensitivity, whose help begins with `when`, and --sensitivity-backend.
void add_sensitivity_switches(CLI::App& command, SpreadOptions& switches, const std::string& when);
/// Errors: kUsage for a backend without runs, and for --closely without them.
Result<void> check_sensitivity(const SpreadOptions& spread);

/// Adds --sandbox and --no-sandbox.
void add_sandbox_switch(CLI::App& command, DeviceChoice& choice);

}  // namespace crucible::cli
