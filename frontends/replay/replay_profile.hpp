// What each step of a replay took, beside what it takes at best on the device: as data, rows of JSON, a Chrome trace.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/replay/replay_report.hpp"

namespace crucible::replay {

/// Profiles the session some more times. Medians of several runs, for a single one catches whatever else the machine
/// does; fewer where a run takes long. What each step takes at best is that of the device profile of that name, else of
/// the one for this device, if there is one. Errors: those of Session::profile() and profile_of_device().
Result<void> profile_replay(runtime::Session& session, const std::string& device_profile, ReplayReport& report);

/// How much of what the device can do a step used: the roofline's time over the measured one. 1 where nothing is left;
/// more where caches hold more than the model thinks; 0 where nothing is predicted.
double roofline_share(const hardware::Prediction& prediction, double measured_ns);

/// One step of a profile.
struct ProfiledStep {
  std::size_t index = 0;
  const kernel::Step& step;
  double time_ns = 0;     // at least one: a clock that is too coarse is no reason to divide by zero
  std::string_view kind;  // library, transfer, generated
  std::string ops;        // "matmul, add, tanh", each kind once, at most six; "attention" of a call that is one
  std::string source;     // "train.py:31 (blocks.0.norm1)" of its first op that has a source
  const hardware::Prediction* prediction = nullptr;  // null: there is none
};

/// True when the report says what each step takes at best.
bool is_predicted(const ReplayReport& report);
/// True when the device says of itself that it is emulated.
bool is_emulated(const ReplayReport& report);

/// Step number `index` of the schedule, and those that took longest, longest first. They borrow the report, which has a
/// profile.
ProfiledStep profiled_step(const ReplayReport& report, std::size_t index);
std::vector<ProfiledStep> hottest_steps(const ReplayReport& report, std::size_t count);

/// One row per step, longest first (docs/replay.md has the keys).
nlohmann::ordered_json profile_json(const ReplayReport& report);

/// The steps one after the other as they took in the profile, and below each what it takes at best, in the Trace Event
/// Format that chrome://tracing and Perfetto read.
nlohmann::ordered_json profile_trace(const ReplayReport& report);

}  // namespace crucible::replay
