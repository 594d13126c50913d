// See capability.hpp.
#include "plugins/loader/capability.hpp"

namespace crucible::backend {
namespace {

struct Asked {
  std::string_view key;
  std::string reason;
};

void take(void* user, const crucible_kv* items, std::uint32_t count) {
  Asked& asked = *static_cast<Asked*>(user);
  for (std::uint32_t i = 0; i < count; ++i) {
    const crucible_kv& item = items[i];
    if (item.type == CRUCIBLE_V_TRISTATE && std::string_view(item.key.data, item.key.size) == asked.key)
      asked.reason.assign(item.s.data, item.s.size);
  }
}

}  // namespace

std::string capability_reason(const Backend& backend, const std::string& device_id, std::string_view key) {
  Asked asked = {key, ""};
  const crucible_str id = {device_id.data(), device_id.size()};
  return to_result(backend.device_table().capabilities(id, take, &asked), "capabilities") ? asked.reason : "";
}

}  // namespace crucible::backend
