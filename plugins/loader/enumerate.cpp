// The devices of a plugin, out of what it hands to a sink. Shared by the host and the probe.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "plugins/loader/backend.hpp"

namespace crucible::backend {
namespace {

std::string_view view(crucible_str text) { return text.data == nullptr ? "" : std::string_view(text.data, text.size); }

void take_device(void* user, const crucible_kv* items, std::uint32_t count) {
  DeviceInfo device;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view key = view(items[i].key);
    if (key == "id") device.id = view(items[i].s);
    if (key == "name") device.name = view(items[i].s);
    if (key == "kind") device.kind = view(items[i].s);
    if (key == "uuid") device.uuid = view(items[i].s);
    if (key == "pci") device.pci = view(items[i].s);
    if (key == "emulated") device.emulated = items[i].u != 0;
    if (key == "threads") device.threads = items[i].u;
    if (key == "memory_bytes") device.memory_bytes = items[i].u;
  }
  static_cast<std::vector<DeviceInfo>*>(user)->push_back(std::move(device));
}

}  // namespace

Result<std::vector<DeviceInfo>> enumerate_devices(const crucible_if_device& table, const std::string& plugin) {
  std::vector<DeviceInfo> devices;
  CRUCIBLE_TRY_VOID(
      to_result(table.enumerate(take_device, &devices), fmt::format("listing the devices of {}", plugin)));
  return devices;
}

}  // namespace crucible::backend
