// What each step of a replay took, beside what it takes at best on the device: a table, rows of JSON, a Chrome trace.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "frontends/cli/replay_report.hpp"

namespace crucible::cli {

/// How much of what the device can do a step used: the roofline's time over the measured one. 1 where nothing is left; more
/// where caches hold more than the model thinks; 0 where nothing is predicted.
double roofline_share(const hardware::Prediction& prediction, double measured_ns);

/// The steps that took longest, and sums. Needs a report with a profile.
std::string profile_text(const ReplayReport& report);

/// One row per step, longest first (docs/replay.md has the keys).
nlohmann::ordered_json profile_json(const ReplayReport& report);

/// The steps one after the other as they took in the profile, and below each what it takes at best, in the Trace Event Format
/// that chrome://tracing and Perfetto read.
nlohmann::ordered_json profile_trace(const ReplayReport& report);

}  // namespace crucible::cli
