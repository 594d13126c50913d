// A logged run against its recording: whether that is the one that ran, and whether running it again gives the same
// hashes.
#pragma once

#include <string>

#include "frontends/replay/open_device.hpp"
#include "frontends/runlog/compare.hpp"

namespace crucible::runlog {

/// "": `file` is what ran, and it is lowered to the program that ran. Else what is another one. Errors: those of
/// reading and lowering.
Result<std::string> fault_of_recording(const RunData& run, const std::string& file);

/// Runs `file` as `run` says that it ran, in its numerics and as far as it came, on the device of `choice`. Writes
/// nothing. Errors: those of a replay; kUsage for a run in fast numerics on another backend than it ran on.
Result<RunData> run_again(const RunData& run, const std::string& file, replay::DeviceChoice choice,
                          const replay::Observer& observer);

/// Whether the second run is the first one again, as far as that was logged.
bool is_again(const Comparison& comparison, const RunData& run);

}  // namespace crucible::runlog
