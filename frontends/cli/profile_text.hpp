// What a replay measured of its steps, and what the device counted, in words.
#pragma once

#include <string>
#include <vector>

#include "frontends/replay/replay_report.hpp"

namespace crucible::cli {

using namespace replay;

/// The steps that took longest, and sums. Needs a report with a profile.
std::string profile_text(const ReplayReport& report);

/// True for `--counters list`.
bool is_list(const std::vector<std::string>& names);

/// What a device has, as a table or as JSON.
void print_counters(const backend::Device& device, bool json);

/// `emulated`: the device says of itself that it is one.
std::string counters_text(const ReplayCounters& counters, bool emulated);

}  // namespace crucible::cli
