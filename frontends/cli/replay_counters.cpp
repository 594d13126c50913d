// See replay_counters.hpp.
#include "frontends/cli/replay_counters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/terminal.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kList = "list";

std::string name_of(const backend::Device& device) { return fmt::format("{} ({})", device.info().id, device.info().name); }

}  // namespace

bool is_list(const std::vector<std::string>& names) { return names.size() == 1 && names[0] == kList; }

void print_counters(const backend::Device& device, bool json) {
  const backend::KnownCounters known = backend::known_counters(device.backend(), device.info().id);
  if (json) {
    Json document = {{"device", device.info().name}, {"counters", Json::array()}};
    for (const backend::Counter& counter : known.counters) document["counters"].push_back({{"name", counter.name}, {"what", counter.what}});
    if (known.counters.empty()) document["refused"] = known.why_none;
    return print_json(document);
  }
  if (known.counters.empty()) {
    print_out("{} has no counters: {}\n", name_of(device), known.why_none);
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"counter", "what it counts"}};
  for (const backend::Counter& counter : known.counters) rows.push_back({counter.name, counter.what});
  print_out("{}\n{}", name_of(device), format_table(rows));
}

Result<void> check_counters(const backend::Device& device, const std::vector<std::string>& names) {
  const backend::KnownCounters known = backend::known_counters(device.backend(), device.info().id);
  if (known.counters.empty()) return {};  // said when they are counted
  std::vector<std::string_view> all;
  for (const backend::Counter& counter : known.counters) all.push_back(counter.name);
  for (const std::string& name : names) {
    if (std::ranges::find(all, name) == all.end())
      return Error{ErrorCode::kUsage, fmt::format("--counters: {} has no counter '{}'; it has {}", name_of(device), name, fmt::join(all, ", "))};
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

std::string counters_text(const ReplayCounters& counters, bool emulated) {
  if (!counters.refusal.empty()) return fmt::format("counters  none: {}\n", counters.refusal);
  std::vector<std::vector<std::string>> rows = {{"counter", "one replay"}};
  for (const backend::CounterValue& counter : counters.values) rows.push_back({counter.name, std::to_string(counter.value)});
  return (emulated ? "\nemulated, these are no device's counts\n" : "\n") + format_table(rows);
}

Json counters_json(const ReplayCounters& counters) {
  Json json = {{"values", Json::object()}};
  for (const backend::CounterValue& counter : counters.values) json["values"][counter.name] = counter.value;
  json["refused"] = counters.refusal.empty() ? Json(nullptr) : Json(counters.refusal);
  return json;
}

}  // namespace crucible::cli
