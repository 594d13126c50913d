// What the device counts while it replays once, or why it counts nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/run/session.hpp"
#include "plugins/loader/counters.hpp"

namespace crucible::replay {

struct ReplayCounters {
  std::vector<std::string> asked;  // empty: not asked for
  std::vector<backend::CounterValue> values;
  std::string refusal;             // why there are no values
};

/// "cpu:0 (AMD EPYC ...)".
std::string describe(const backend::Device& device);

/// Errors: kUsage naming the first that a device with counters has not, and those that it has.
Result<void> check_counters(const backend::Device& device, const std::vector<std::string>& names);

/// One more replay of the present inputs. A device that has no counters, or does not let them be had, is a refusal, no
/// error. Errors: those of the replay.
Result<ReplayCounters> count_replay(runtime::Session& session, const std::vector<std::string>& names);

nlohmann::ordered_json counters_json(const ReplayCounters& counters);

}  // namespace crucible::replay
