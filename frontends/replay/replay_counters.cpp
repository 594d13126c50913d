// See replay_counters.hpp.
#include "frontends/replay/replay_counters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace crucible::replay {
using Json = nlohmann::ordered_json;

std::string describe(const backend::Device& device) {
  return fmt::format("{} ({})", device.info().id, device.info().name);
}

Result<void> check_counters(const backend::Device& device, const std::vector<std::string>& names) {
  const backend::KnownCounters known = backend::known_counters(device.backend(), device.info().id);
  if (known.counters.empty()) return {};  // said when they are counted
  std::vector<std::string_view> all;
  for (const backend::Counter& counter : known.counters) all.push_back(counter.name);
  for (const std::string& name : names) {
    if (std::ranges::find(all, name) == all.end())
      return Error{ErrorCode::kUsage, fmt::format("--counters: {} has no counter '{}'; it has {}", describe(device),
                                                  name, fmt::join(all, ", "))};
  }
  return {};
}

Result<ReplayCounters> count_replay(runtime::Session& session, const std::vector<std::string>& names) {
  ReplayCounters counters = {.asked = names, .values = {}, .refusal = ""};
  const backend::Device& device = *session.device();
  backend::KnownCounters known = backend::known_counters(device.backend(), device.info().id);
  if (known.counters.empty()) {
    counters.refusal = std::move(known.why_none);
    return counters;
  }
  CRUCIBLE_TRY(runtime::Counted counted, session.count(names));
  counters.values = std::move(counted.values);
  counters.refusal = std::move(counted.refusal);
  return counters;
}

Json counters_json(const ReplayCounters& counters) {
  Json json = {{"values", Json::object()}};
  for (const backend::CounterValue& counter : counters.values) json["values"][counter.name] = counter.value;
  json["refused"] = counters.refusal.empty() ? Json(nullptr) : Json(counters.refusal);
  return json;
}

}  // namespace crucible::replay
