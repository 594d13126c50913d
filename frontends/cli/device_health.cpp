// From the ABI's table `health` to a sample and a verdict: see device_health.hpp.
#include "frontends/cli/device_health.hpp"

#include <algorithm>
#include <string_view>

#include "plugins/loader/capability.hpp"

namespace crucible::cli {
namespace {

std::string_view view(crucible_str text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}

/// "KEY: REASON" of a value that is not there.
void take_absent(hardware::HealthSample& sample, std::string_view text) {
  const std::size_t colon = text.find(": ");
  if (colon == std::string_view::npos) return sample.set_absent("", text);
  sample.set_absent(text.substr(0, colon), text.substr(colon + 2));
}

void take_items(void* user, const crucible_kv* items, std::uint32_t count) {
  auto& sample = *static_cast<hardware::HealthSample*>(user);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view key = view(items[i].key);
    if (items[i].type == CRUCIBLE_V_U64) sample.set_number(key, items[i].u);
    if (items[i].type != CRUCIBLE_V_STR) continue;
    if (key == "not_measured") {
      take_absent(sample, view(items[i].s));
    } else {
      sample.set_text(key, view(items[i].s));
    }
  }
}

void take_reason(void* user, const crucible_kv* items, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (view(items[i].key) == "reason" && items[i].type == CRUCIBLE_V_STR)
      *static_cast<std::string*>(user) = view(items[i].s);
  }
}

std::uint32_t category(crucible_status status) {
  const bool has_code = status != nullptr && status->table != nullptr && status->table->code != nullptr;
  return has_code ? static_cast<std::uint32_t>(status->table->code(status)) & 0xff : 0;
}

hardware::DeviceState state_of(std::uint32_t state) {
  if (state == CRUCIBLE_STATE_LOST) return hardware::DeviceState::kLost;
  return state == CRUCIBLE_STATE_OK ? hardware::DeviceState::kOk : hardware::DeviceState::kDegraded;
}

/// An answer that is an error: a lost device is a state, a plugin without the table has mostly said why in its
/// capabilities.
void take_error(const backend::Backend& backend, const std::string& id, crucible_status status,
                hardware::HealthSample& sample) {
  const std::uint32_t code = category(status);
  const Result<void> result = backend::to_result(status, "health");  // destroys it
  if (code == CRUCIBLE_E_DEVICE_LOST) return sample.set_state(hardware::DeviceState::kLost, result.error().message);
  std::string reason = result.error().message;
  if (code == CRUCIBLE_E_UNIMPLEMENTED) {
    reason = backend::capability_reason(backend, id, "health");
    if (reason.empty()) reason = "the plugin does not measure it";
  }
  sample.set_text("note", "health is not measured: " + reason);
}

}  // namespace

hardware::HealthSample sample_health(const backend::Backend& backend, const std::string& device_id) {
  hardware::HealthSample sample;
  const crucible_str id = {device_id.data(), device_id.size()};
  const crucible_if_health& table = backend.tables().health;
  if (crucible_status status = table.sample(id, take_items, &sample)) {
    take_error(backend, device_id, status, sample);
    return sample;
  }
  std::uint32_t state = CRUCIBLE_STATE_OK;
  std::string reason;
  if (crucible_status status = table.state(id, &state, take_reason, &reason)) {
    if (category(status) == CRUCIBLE_E_UNIMPLEMENTED) {
      (void)backend::to_result(status, "health.state");  // destroys it; the sample alone will do
      return sample;
    }
    take_error(backend, device_id, status, sample);
    return sample;
  }
  sample.set_state(state_of(state), reason);
  return sample;
}

DeviceHealth device_health(const backend::Backend& backend, const std::string& plugin, const backend::DeviceInfo& info,
                           std::span<const hardware::DeviceProfile> profiles, const hardware::HealthSample* before) {
  DeviceHealth health{.backend = plugin, .info = info, .sample = sample_health(backend, info.id), .judgement = {}};
  const hardware::DeviceProfile* const profile = hardware::find_for_device(profiles, plugin, info.name, 0);
  health.judgement = hardware::judge(health.sample, hardware::limits_of(profile), before);
  return health;
}

hardware::HealthVerdict worst(std::span<const DeviceHealth> devices) {
  hardware::HealthVerdict verdict = hardware::HealthVerdict::kUnknown;
  for (const DeviceHealth& device : devices) verdict = std::max(verdict, device.judgement.verdict);
  return verdict;
}

}  // namespace crucible::cli
