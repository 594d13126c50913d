// Asking all drivers for their devices: see device.hpp.
#include <algorithm>
#include <cstdio>
#include <iterator>

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

/// A list that the driver counts first and fills then; each item is `blank` before.
template <class Item, class Ask>
std::vector<Item> all_of(const char* what, const Item& blank, const Ask& ask) {
  std::uint32_t count = 0;
  check(ask(&count, static_cast<Item*>(nullptr)), what);
  std::vector<Item> items(count, blank);
  if (count != 0) check(ask(&count, items.data()), what);
  items.resize(count);
  return items;
}

DeviceFacts facts_of(const Functions& ze, ze_driver_handle_t driver, ze_device_handle_t device, std::size_t index) {
  DeviceFacts facts;
  facts.id = "intel:" + std::to_string(index);
  facts.driver = driver;
  facts.device = device;
  auto driver_properties = typed<ze_driver_properties_t>(ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES);
  check(ze.zeDriverGetProperties(driver, &driver_properties), "zeDriverGetProperties");
  facts.version = std::to_string(driver_properties.driverVersion);
  auto properties = typed<ze_device_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2);
  check(ze.zeDeviceGetProperties(device, &properties), "zeDeviceGetProperties");
  properties.name[sizeof properties.name - 1] = '\0';
  facts.name = properties.name;
  facts.uuid = uuid_text(properties.uuid.id);
  facts.type = properties.type;
  facts.units = std::max<std::uint64_t>(
      1, std::uint64_t{properties.numSlices} * properties.numSubslicesPerSlice * properties.numEUsPerSubslice);
  facts.lanes = std::max(1u, properties.physicalEUSimdWidth);
  facts.megahertz = properties.coreClockRate;
  facts.largest_buffer_bytes = properties.maxMemAllocSize;
  facts.ticks_per_second = std::max<std::uint64_t>(1, properties.timerResolution);
  if (properties.kernelTimestampValidBits < 64)
    facts.tick_mask = (std::uint64_t{1} << properties.kernelTimestampValidBits) - 1;
  facts.is_emulated = facts.name.find("emulated") != std::string::npos;
  auto compute = typed<ze_device_compute_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES);
  check(ze.zeDeviceGetComputeProperties(device, &compute), "zeDeviceGetComputeProperties");
  facts.shared_bytes = compute.maxSharedLocalMemory;
  facts.group_size = std::max(1u, std::min(compute.maxTotalGroupSize, compute.maxGroupSizeX));
  facts.subgroup_sizes.assign(
      compute.subGroupSizes,
      compute.subGroupSizes + std::min<std::uint32_t>(compute.numSubGroupSizes, std::size(compute.subGroupSizes)));
  facts.group_count = std::max(1u, compute.maxGroupCountX);
  auto module = typed<ze_device_module_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES);
  check(ze.zeDeviceGetModuleProperties(device, &module), "zeDeviceGetModuleProperties");
  facts.spirv_version = module.spirvVersionSupported;
  facts.argument_bytes = module.maxArgumentsSize;
  facts.has_f64 = (module.flags & ZE_DEVICE_MODULE_FLAG_FP64) != 0;
  facts.rounds_division = (module.fp32flags & ZE_DEVICE_FP_FLAG_ROUNDED_DIVIDE_SQRT) != 0;
  facts.keeps_subnormals = (module.fp32flags & ZE_DEVICE_FP_FLAG_DENORM) != 0;
  const auto memories = all_of("zeDeviceGetMemoryProperties",
                               typed<ze_device_memory_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES),
                               [&](auto* n, auto* items) { return ze.zeDeviceGetMemoryProperties(device, n, items); });
  for (const ze_device_memory_properties_t& memory : memories)
    facts.memory_bytes = std::max(facts.memory_bytes, memory.totalSize);
  const auto groups =
      all_of("zeDeviceGetCommandQueueGroupProperties",
             typed<ze_command_queue_group_properties_t>(ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES),
             [&](auto* n, auto* items) { return ze.zeDeviceGetCommandQueueGroupProperties(device, n, items); });
  const auto computes = std::ranges::find_if(
      groups, [](const auto& group) { return (group.flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE) != 0; });
  if (computes != groups.end()) facts.queue_group = static_cast<std::uint32_t>(computes - groups.begin());
  return facts;
}

}  // namespace

std::vector<DeviceFacts> list_devices(const Functions& ze) {
  const auto drivers =
      all_of("zeDriverGet", ze_driver_handle_t{}, [&](auto* n, auto* items) { return ze.zeDriverGet(n, items); });
  std::vector<DeviceFacts> all;
  std::uint32_t other = 0;
  for (const ze_driver_handle_t driver : drivers) {
    ze_api_version_t version = {};
    check(ze.zeDriverGetApiVersion(driver, &version), "zeDriverGetApiVersion");
    if (ZE_MAJOR_VERSION(version) != 1) {  // its structs are others
      other = version;
      continue;
    }
    const auto devices = all_of("zeDeviceGet", ze_device_handle_t{},
                                [&](auto* n, auto* items) { return ze.zeDeviceGet(driver, n, items); });
    for (const ze_device_handle_t device : devices) all.push_back(facts_of(ze, driver, device, all.size()));
  }
  if (!all.empty()) return all;
  if (other != 0) {
    const std::string have = std::to_string(ZE_MAJOR_VERSION(other)) + "." + std::to_string(ZE_MINOR_VERSION(other));
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
