// `crucible replay --counters`: what the device counts while it replays once, or why it counts nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/run/session.hpp"
#include "plugins/loader/counters.hpp"

namespace crucible::cli {

struct ReplayCounters {
  std::vector<std::string> asked;  // empty: not asked for
  std::vector<backend::CounterValue> values;
  std::string refusal;             // why there are no values
};

/// True for `--counters list`.
bool is_list(const std::vector<std::string>& names);

/// What a device has, as a table or as JSON.
void print_counters(const backend::Device& device, bool json);

/// Errors: kUsage naming the first that a device with counters has not, and those that it has.
Result<void> check_counters(const backend::Device& device, const std::vector<std::string>& names);

/// One more replay of the present inputs. A device that has no counters, or does not let them be had, is a refusal, no error. Errors: those
/// of the replay.
Result<ReplayCounters> count_replay(runtime::Session& session, const std::vector<std::string>& names);

/// `emulated`: the device says of itself that it is one.
std::string counters_text(const ReplayCounters& counters, bool emulated);
nlohmann::ordered_json counters_json(const ReplayCounters& counters);

}  // namespace crucible::cli
