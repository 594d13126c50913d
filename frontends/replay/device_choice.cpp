#include "frontends/replay/device_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>

#include "core/base/figures.hpp"
#include "frontends/replay/plugin_access.hpp"

namespace crucible::replay {
namespace {

crucible_str borrow(const std::string& text) { return {text.data(), text.size()}; }

bool equal_ignoring_case(const std::string& a, const std::string& b) {
  return std::ranges::equal(a, b, [](char x, char y) { return std::tolower(x) == std::tolower(y); });
}

/// Asks the device how fast it would be. A plugin that cannot say leaves the candidate without a score.
void score(Candidate& candidate, const Workload& workload) {
  const std::pair<std::string, std::uint64_t> numbers[] = {
      {"ops", workload.ops}, {"flops", workload.flops}, {"bytes", workload.bytes}, {"peak_bytes", workload.peak_bytes}};
  std::vector<crucible_kv> items;
  for (const auto& [key, number] : numbers) items.push_back({borrow(key), CRUCIBLE_V_U64, 0, number, {nullptr, 0}});
  std::string why;
  const auto sink = [](void* user, const crucible_kv* kv, std::uint32_t count) {
    std::string& text = *static_cast<std::string*>(user);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string value =
          kv[i].type == CRUCIBLE_V_STR ? std::string(kv[i].s.data, kv[i].s.size) : std::to_string(kv[i].u);
      const std::string_view key(kv[i].key.data, kv[i].key.size);
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", key == "reason" ? "" : fmt::format("{} ", key), value);
    }
  };
  const Result<void> asked = backend::to_result(
      candidate.backend->tables().device.score(borrow(candidate.device), items.data(),
                                               static_cast<std::uint32_t>(items.size()), &candidate.score, sink, &why),
      "asking for a score");
  candidate.scored = static_cast<bool>(asked);
  if (!asked) {
    candidate.score = 0;
    candidate.reason =
        fmt::format("unknown speed: {} threads, {}", candidate.threads, format_bytes(candidate.memory_bytes));
    return;
  }
  candidate.reason = why;
  if (candidate.score == 0) {
    candidate.eligible = false;
    candidate.reason = fmt::format("it says that it cannot run this program{}{}", why.empty() ? "" : ": ", why);
  }
}

Candidate judge(const std::string& plugin, const std::shared_ptr<backend::Backend>& backend,
                const backend::DeviceInfo& info, const Workload& workload, bool is_named) {
  Candidate candidate;
  candidate.plugin = plugin;
  candidate.device = info.id;
  candidate.name = info.name;
  candidate.threads = info.threads;
  candidate.memory_bytes = info.memory_bytes;
  candidate.backend = backend;
  if (info.emulated && !is_named) {
    candidate.reason = fmt::format("emulated: only used when it is named, with --device {}", info.id);
  } else if (info.memory_bytes != 0 && info.memory_bytes < workload.peak_bytes) {
    candidate.reason = fmt::format("too small: the plan needs {} and it has {}", format_bytes(workload.peak_bytes),
                                   format_bytes(info.memory_bytes));
  } else {
    candidate.eligible = true;
    score(candidate, workload);
  }
  return candidate;
}

/// Hands `threads` of --threads on to a plugin. False for one that has options and no such one among them.
bool request_threads(config::Settings& settings, const std::string& plugin, std::int64_t threads) {
  if (threads == 0) return true;
  const std::optional<backend::PluginFacts> facts = plugin_facts(settings, plugin);
  const auto is_threads = [](const auto& option) { return option.name == "threads"; };
  if (facts && !facts->options.empty() && std::ranges::none_of(facts->options, is_threads)) return false;
  settings.request_option(plugin, "threads", std::to_string(threads), "--threads");
  return true;
}

}  // namespace

DeviceAddress parse_device(const std::string& text) {
  if (text.empty()) return {};
  if (text.starts_with("uuid:")) return {DeviceAddress::Kind::kUuid, text.substr(5), "", 0};
  if (text.starts_with("pci:")) return {DeviceAddress::Kind::kPci, text.substr(4), "", 0};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return {DeviceAddress::Kind::kId, text, "", 0};
  DeviceAddress address = {DeviceAddress::Kind::kIndex, text, text.substr(0, colon), 0};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, address.index);
  if (error != std::errc() || stop != end) return {DeviceAddress::Kind::kId, text, "", 0};
  return address;
}

bool matches(const DeviceAddress& address, const std::string& plugin, const backend::DeviceInfo& info,
             std::size_t index) {
  switch (address.kind) {
    case DeviceAddress::Kind::kFirst:
      return true;
    case DeviceAddress::Kind::kId:
      return info.id == address.text;
    case DeviceAddress::Kind::kIndex:
      return info.id == address.text || (plugin == address.plugin && index == address.index);
    case DeviceAddress::Kind::kUuid:
      return equal_ignoring_case(info.uuid, address.text);
    case DeviceAddress::Kind::kPci:
      return equal_ignoring_case(info.pci, address.text);
  }
  return false;
}

std::vector<Candidate> judge_candidates(config::Settings& settings, const DeviceAddress& address,
                                        const Workload& workload, std::int64_t threads, const Observer& observer) {
  const bool is_named = address.kind != DeviceAddress::Kind::kFirst;
  std::vector<Candidate> candidates;
  for (const backend::FoundBackend& found : list_plugins(settings)) {
    if (!request_threads(settings, found.name, threads)) {
      Candidate& refused = candidates.emplace_back();
      refused.plugin = found.name;
      refused.reason = fmt::format("--threads {}: it has no option 'threads'", threads);
      continue;
    }
    settle_options(settings, found.name, observer);
    const Result<std::shared_ptr<backend::Backend>> loaded = load_plugin(settings, found.name, observer);
    Result<std::vector<backend::DeviceInfo>> devices =
        loaded ? (*loaded)->devices() : Result<std::vector<backend::DeviceInfo>>(loaded.error());
    if (!devices || devices->empty()) {
      Candidate& refused = candidates.emplace_back();
      refused.plugin = found.name;
      refused.reason = devices ? "it has no device here" : devices.error().message;
      continue;
    }
    for (std::size_t index = 0; index < devices->size(); ++index) {
      if (matches(address, found.name, (*devices)[index], index)) {
        candidates.push_back(judge(found.name, *loaded, (*devices)[index], workload, is_named));
      }
    }
  }
  return candidates;
}

std::size_t best_candidate(const std::vector<Candidate>& candidates) {
  const auto rank = [](const Candidate& candidate) {
    return std::tuple(candidate.scored, candidate.score, candidate.threads, candidate.memory_bytes);
  };
  std::size_t best = candidates.size();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].eligible) continue;
    if (best == candidates.size() || rank(candidates[i]) > rank(candidates[best])) best = i;
  }
  return best;
}

std::string explain(const std::vector<Candidate>& candidates) {
  std::vector<std::vector<std::string>> rows = {{"plugin", "device", "score", "verdict", "why"}};
  for (const Candidate& candidate : candidates) {
    std::string why = candidate.reason.substr(0, candidate.reason.find('\n'));
    rows.push_back({candidate.plugin, candidate.device.empty() ? "-" : candidate.device,
                    candidate.scored     ? std::to_string(candidate.score)
                    : candidate.eligible ? "unknown"
                                         : "-",
                    candidate.chosen     ? "chosen"
                    : candidate.eligible ? "possible"
                                         : "refused",
                    why});
  }
  return format_table(rows);
}

}  // namespace crucible::replay
