// See capability.hpp.
#include "plugins/loader/capability.hpp"

namespace crucible::backend {
namespace {

struct Asked {
  std::string_view key;
  bool is_yes = false;
  std::string reason = {};
};

void take(void* user, const crucible_kv* items, std::uint32_t count) {
  Asked& asked = *static_cast<Asked*>(user);
  for (std::uint32_t i = 0; i < count; ++i) {
    const crucible_kv& item = items[i];
    if (item.type != CRUCIBLE_V_TRISTATE || std::string_view(item.key.data, item.key.size) != asked.key) continue;
    asked.is_yes = item.u == 1;
    asked.reason.assign(item.s.data, item.s.size);
  }
}

Asked ask(const Backend& backend, const std::string& device_id, std::string_view key) {
  Asked asked = {.key = key};
  const crucible_str id = {device_id.data(), device_id.size()};
  return to_result(backend.device_table().capabilities(id, take, &asked), "capabilities") ? asked : Asked{.key = key};
}

}  // namespace

bool has_capability(const Backend& backend, const std::string& device_id, std::string_view key) {
  return ask(backend, device_id, key).is_yes;
}

std::string capability_reason(const Backend& backend, const std::string& device_id, std::string_view key) {
  return ask(backend, device_id, key).reason;
}

}  // namespace crucible::backend
