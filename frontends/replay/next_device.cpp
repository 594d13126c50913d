#include "frontends/replay/next_device.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/replay/plugin_access.hpp"

namespace crucible::replay {

/// The lost device's plugin was chosen by whoever chose the device: where that one is emulated, its neighbours may be.
void NextDevice::list_same_plugin() {
  const bool was_emulated = opened_.device->info().emulated;
  const Result<std::vector<backend::DeviceInfo>> devices = opened_.device->backend().devices();
  if (!devices) return passed_over_.push_back({opened_.plugin, devices.error().message});
  for (const backend::DeviceInfo& info : *devices) entries_.push_back({opened_.plugin, info.id, false, was_emulated});
}

/// "cpu", "nvidia:1", "uuid:...", "pci:...".
void NextDevice::list_configured(const std::string& text) {
  const DeviceAddress address = parse_device(text);
  if (address.kind == DeviceAddress::Kind::kIndex) return entries_.push_back({address.plugin, text, true, true});
  if (address.kind == DeviceAddress::Kind::kId) return entries_.push_back({text, "", true, true});
  const std::size_t before = entries_.size();
  for (const Candidate& candidate : judge_candidates(opened_.settings, address, {}, choice_.threads, observer_)) {
    if (!candidate.device.empty()) entries_.push_back({candidate.plugin, candidate.device, false, true});
  }
  if (entries_.size() == before) passed_over_.push_back({text, "no plugin has such a device"});
}

/// As `auto` would take them, the best one first.
Result<void> NextDevice::list_by_score() {
  Workload needed;
  if (workload_) {
    CRUCIBLE_TRY(needed, workload_());
  }
  std::vector<Candidate> candidates = judge_candidates(opened_.settings, {}, needed, choice_.threads, observer_);
  for (const Candidate& candidate : candidates) {
    const std::string& who = candidate.device.empty() ? candidate.plugin : candidate.device;
    if (!candidate.eligible && !tried_.contains(who)) passed_over_.push_back({who, candidate.reason});
  }
  for (std::size_t best = best_candidate(candidates); best < candidates.size(); best = best_candidate(candidates)) {
    entries_.push_back({candidates[best].plugin, candidates[best].device, false, false});
    candidates[best].eligible = false;
  }
  return {};
}

Result<std::shared_ptr<backend::Device>> NextDevice::open_entry(const Entry& entry) {
  if (entry.plugin == kReferenceBackend) {
    return Error{ErrorCode::kUnavailable, "the reference interpreter takes over from no device"};
  }
  const std::size_t problems = opened_.settings.problems().size();
  settle_options(opened_.settings, entry.plugin, observer_);
  if (opened_.settings.problems().size() > problems)
    return Error{ErrorCode::kUsage, opened_.settings.problems().back().message};
  const std::string address = entry.is_address ? entry.device : "";
  if (entry.is_address) return open_addressed(opened_.settings, entry.plugin, parse_device(address), observer_);
  return open_addressed(opened_.settings, entry.plugin, {DeviceAddress::Kind::kId, entry.device, "", 0}, observer_);
}

Result<void> NextDevice::open() {
  if (opened_.device) tried_.insert(opened_.device->info().id);
  if (stage_ == Stage::kSamePlugin) list_same_plugin();
  // The device goes, and with it whatever of it is still held; its plugin may be asked for another one.
  std::shared_ptr<backend::Device> lost = std::move(opened_.device);
  lost.reset();
  for (;;) {
    if (entries_.empty() && stage_ == Stage::kSamePlugin) {
      stage_ = Stage::kOthers;
      const config::Setting* const named = opened_.settings.find("fallback_devices");
      const auto* const list = named == nullptr ? nullptr : std::get_if<config::List>(&named->value);
      if (list == nullptr || list->empty()) {
        CRUCIBLE_TRY_VOID(list_by_score());
      } else {
        for (const std::string& text : *list) list_configured(text);
      }
    }
    if (entries_.empty()) break;
    const Entry entry = entries_.front();
    entries_.pop_front();
    if (!entry.is_address && tried_.contains(entry.device)) continue;
    Result<std::shared_ptr<backend::Device>> device = open_entry(entry);
    const std::string who = entry.device.empty() ? entry.plugin : entry.device;
    if (!device) {
      passed_over_.push_back({who, device.error().message});
      continue;
    }
    const backend::DeviceInfo& info = (*device)->info();
    if (!tried_.insert(info.id).second) continue;
    if (info.emulated && !entry.may_be_emulated) {
      passed_over_.push_back({info.id, "emulated: only used when fallback_devices names it"});
      continue;
    }
    opened_.device = *std::move(device);
    opened_.plugin = entry.plugin;
    return {};
  }
  stage_ = Stage::kDone;
  std::string why;
  for (const PassedOver& device : passed_over_) why += fmt::format("\n  {}: {}", device.device, device.reason);
  return Error{ErrorCode::kUnavailable, why.empty() ? "there is none" : "none of these:" + why};
}

}  // namespace crucible::replay
