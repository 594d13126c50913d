// What a recording lacks that nobody may overlook who is told that its replay agrees with it: values that came back
// through Python, work on threads that were not recorded, data made of what the program computes, nothing to compare.
// One sentence each; `crucible replay` puts them behind its "yes".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/trace/trace.hpp"

namespace crucible::trace {

/// Of NotRecorded::what: ops on other threads that took or changed what the recorded program knows.
inline constexpr std::string_view kOtherThreads =
    "ops on threads that are not recorded, with tensors of the recorded program";

/// Of NotRecorded::what: ops by which a DataLoader's iterator made data of what the recorded program computes.
inline constexpr std::string_view kReadForInput = "ops that make data of what the recorded program computes";

/// How NotRecorded::what begins where it is a setting of the program's that changes numbers and that a replay does not
/// follow.
inline constexpr std::string_view kSetting = "the setting ";

/// Such settings, in words. `trace` must be valid.
std::vector<std::string> settings_not_followed(const Trace& trace);

/// Sentences without full stops; empty where there is nothing to say. `trace` must be valid.
std::vector<std::string> reservations(const Trace& trace);

}  // namespace crucible::trace
