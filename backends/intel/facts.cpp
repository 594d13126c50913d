// Asking all drivers for their devices: see device.hpp.
#include <algorithm>
#include <cstdio>

#include "backends/intel/device.hpp"
#include "plugins/sdk/device_table.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_intel {

using namespace crucible;

std::string uuid_text(const std::uint8_t (&bytes)[16]) {
  std::string text;
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", bytes[i]);
    text += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    text += digits;
  }
  return text;
}

namespace {

/// A list that the driver counts first and fills then.
template <class Item, class Ask>
std::vector<Item> all_of(const char* what, const Ask& ask) {
  std::uint32_t count = 0;
  check(ask(&count, nullptr), what);
  std::vector<Item> items(count);
  if (count != 0) check(ask(&count, items.data()), what);
  items.resize(count);
  return items;
}

DeviceFacts facts_of(const Functions& ze, ze::Driver driver, ze::Device device, std::size_t index) {
  DeviceFacts facts;
  facts.id = "intel:" + std::to_string(index);
  facts.driver = driver;
  facts.device = device;
  ze::DriverProperties driver_properties;
  check(ze.zeDriverGetProperties(driver, &driver_properties), "zeDriverGetProperties");
  facts.version = std::to_string(driver_properties.version);
  ze::DeviceProperties properties;
  check(ze.zeDeviceGetProperties(device, &properties), "zeDeviceGetProperties");
  properties.name[sizeof properties.name - 1] = '\0';
  facts.name = properties.name;
  facts.uuid = uuid_text(properties.uuid);
  facts.type = properties.type;
  facts.units = std::max<std::uint64_t>(
      1, std::uint64_t{properties.slices} * properties.subslices_per_slice * properties.eus_per_subslice);
  facts.lanes = std::max(1u, properties.simd_width);
  facts.megahertz = properties.core_clock_rate;
  facts.largest_buffer_bytes = properties.max_alloc_size;
  facts.ticks_per_second = std::max<std::uint64_t>(1, properties.timer_resolution);
  if (properties.kernel_timestamp_bits < 64)
    facts.tick_mask = (std::uint64_t{1} << properties.kernel_timestamp_bits) - 1;
  facts.is_emulated = facts.name.find("emulated") != std::string::npos;
  ze::ComputeProperties compute;
  check(ze.zeDeviceGetComputeProperties(device, &compute), "zeDeviceGetComputeProperties");
  facts.shared_bytes = compute.local_memory;
  facts.group_size = std::max(1u, std::min(compute.max_group_size, compute.max_group_x));
  facts.group_count = std::max(1u, compute.max_count_x);
  ze::ModuleProperties module;
  check(ze.zeDeviceGetModuleProperties(device, &module), "zeDeviceGetModuleProperties");
  facts.argument_bytes = module.max_arguments_size;
  facts.has_f64 = (module.flags & ze::kModuleFp64) != 0;
  facts.rounds_division = (module.fp32_flags & ze::kRoundedDivideSqrt) != 0;
  facts.keeps_subnormals = (module.fp32_flags & ze::kDenormals) != 0;
  const auto memories = all_of<ze::MemoryProperties>(
      "zeDeviceGetMemoryProperties",
      [&](std::uint32_t* n, ze::MemoryProperties* items) { return ze.zeDeviceGetMemoryProperties(device, n, items); });
  for (const ze::MemoryProperties& memory : memories)
    facts.memory_bytes = std::max(facts.memory_bytes, memory.total_size);
  const auto groups = all_of<ze::QueueGroupProperties>(
      "zeDeviceGetCommandQueueGroupProperties", [&](std::uint32_t* n, ze::QueueGroupProperties* items) {
        return ze.zeDeviceGetCommandQueueGroupProperties(device, n, items);
      });
  const auto computes =
      std::ranges::find_if(groups, [](const auto& group) { return (group.flags & ze::kGroupComputes) != 0; });
  if (computes != groups.end()) facts.queue_group = static_cast<std::uint32_t>(computes - groups.begin());
  return facts;
}

}  // namespace

std::vector<DeviceFacts> list_devices(const Functions& ze) {
  const auto drivers =
      all_of<ze::Driver>("zeDriverGet", [&](std::uint32_t* n, ze::Driver* items) { return ze.zeDriverGet(n, items); });
  std::vector<DeviceFacts> all;
  std::uint32_t other = 0;
  for (const ze::Driver driver : drivers) {
    std::uint32_t interface = 0;
    check(ze.zeDriverGetApiVersion(driver, &interface), "zeDriverGetApiVersion");
    if (interface >> 16 != 1) {  // its structs are others
      other = interface;
      continue;
    }
    const auto devices = all_of<ze::Device>(
        "zeDeviceGet", [&](std::uint32_t* n, ze::Device* items) { return ze.zeDeviceGet(driver, n, items); });
    for (const ze::Device device : devices) all.push_back(facts_of(ze, driver, device, all.size()));
  }
  if (!all.empty()) return all;
  if (other != 0) {
    const std::string have = std::to_string(other >> 16) + "." + std::to_string(other & 0xffff);
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                       "the Level Zero driver speaks version " + have +
                           " of the interface, and 1.0 to 1.x is needed: install a driver for it",
                       {{"have", have}, {"need", "1.0"}});
  }
  throw sdk::Failure(
      CRUCIBLE_E_UNAVAILABLE,
      "none of the " + std::to_string(drivers.size()) +
          " Level Zero drivers has a device: install intel-level-zero-gpu, and see that this user may open "
          "/dev/dri/renderD* (group render) and that ZE_AFFINITY_MASK hides none");
}

DeviceFacts find_device(const Functions& functions, crucible_str device_id) {
  return sdk::find_device(list_devices(functions), device_id);
}

}  // namespace crucible_intel
