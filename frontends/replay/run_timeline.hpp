// When each device ran which iteration and when the host wrote inputs, as a picture: a Chrome trace (chrome://tracing,
// Perfetto) of what a run collected. All times are measured, by the device's events where its driver has them, else by
// the host's clock; each event says which.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "runtime/run/submission.hpp"

namespace crucible::replay {

/// Two tracks per device: its plans, and what the host did for it (inputs, copies, results). `title` is that of the
/// picture. Its times begin at 0 with the first event.
nlohmann::ordered_json timeline_trace(std::span<const runtime::Busy> all, const std::string& title);

}  // namespace crucible::replay
