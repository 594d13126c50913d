// Level Zero's driver, devices, contexts and memory. The name of a device says that it is none.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/emulators/intel/machine.hpp"

using namespace crucible::emulator;
using namespace crucible_intel::ze;

namespace {

DriverObject the_driver;
DeviceObject the_devices[16];
constexpr std::uint32_t kVersion = 1 << 16 | 4,
                        kOtherVersion = 2 << 16;  // of the interface: 1.4; what a fault makes of it
constexpr const char* kName = "Crucible emulated Xe (a processor, not a GPU)";

/// The devices that ZE_AFFINITY_MASK ("0,2") leaves, in the order of their numbers.
std::vector<std::uint32_t> visible_devices() {
  const auto all = static_cast<std::uint32_t>(settings().devices);
  const char* const mask = std::getenv("ZE_AFFINITY_MASK");
  std::vector<std::uint32_t> visible;
  for (std::uint32_t i = 0; i < all; ++i) {
    const std::string words = mask == nullptr ? "" : std::string(",") + mask + ",";
    if (mask == nullptr || words.find("," + std::to_string(i) + ",") != std::string::npos) visible.push_back(i);
  }
  return visible;
}

/// A list of `count` items, as the specification hands lists out. False when only the number was asked for.
bool counts(std::uint32_t* number, const void* items, std::uint32_t count) {
  const bool wants_items = items != nullptr && *number != 0;
  *number = wants_items ? std::min(*number, count) : count;
  return wants_items;
}

}  // namespace

extern "C" {

Result zeInit(std::uint32_t) {
  if (const auto rule = faults().hit(Site::kInit, "zeInit")) return Result::kUninitialized;
  return machine() == nullptr ? Result::kUninitialized : Result::kSuccess;
}

Result zeDriverGet(std::uint32_t* count, Driver* drivers) {
  if (machine() == nullptr) return Result::kUninitialized;
  if (counts(count, drivers, 1)) drivers[0] = &the_driver;
  return Result::kSuccess;
}

Result zeDriverGetApiVersion(Driver, std::uint32_t* version) {
  *version = faults().hit(Site::kQuery, "zeDriverGetApiVersion") ? kOtherVersion : kVersion;
  return Result::kSuccess;
}

Result zeDriverGetProperties(Driver, DriverProperties* properties) {
  if (properties->type != Structure::kDriverProperties) return Result::kInvalidArgument;
  std::memcpy(properties->uuid, "crucible-emu-ze0", 16);
  properties->version = 1;
  return Result::kSuccess;
}

Result zeDeviceGet(Driver, std::uint32_t* count, Device* devices) {
  static const std::vector<std::uint32_t> visible = visible_devices();
  if (!counts(count, devices, static_cast<std::uint32_t>(visible.size()))) return Result::kSuccess;
  for (std::uint32_t i = 0; i < *count; ++i) {
    DeviceObject& device = the_devices[visible[i]];
    device.number = visible[i];
    devices[i] = &device;
  }
  return Result::kSuccess;
}

Result zeDeviceGetProperties(Device device, DeviceProperties* properties) {
  if (properties->structure != Structure::kDeviceProperties12) return Result::kInvalidArgument;
  void* const next = properties->next;
  if (auto* lists = static_cast<MutableListProperties*>(next); lists != nullptr) {
    if (lists->type != Structure::kMutableListProperties) return Result::kInvalidArgument;
    lists->list_flags = 0;
    lists->command_flags = kMutableArguments;
  }
  *properties = DeviceProperties();
  properties->next = next;
  properties->type = kGpu;
  properties->vendor_id = 0x8086;
  properties->core_clock_rate = 1000;
  properties->max_alloc_size = machine()->memory->limit();
  properties->max_contexts = 16;
  properties->threads_per_eu = 8;
  properties->simd_width = 16;
  properties->eus_per_subslice = 8;
  properties->subslices_per_slice = 4;
  properties->slices = 1;
  properties->timer_resolution = 1'000'000'000;
  properties->timestamp_bits = properties->kernel_timestamp_bits = 64;
  std::memcpy(properties->uuid, "crucible-emu-xe0", 16);
  properties->uuid[15] = static_cast<std::uint8_t>('0' + device->number);
  std::strncpy(properties->name, kName, sizeof properties->name - 1);
  return Result::kSuccess;
}

Result zeDeviceGetComputeProperties(Device, ComputeProperties* properties) {
  if (properties->type != Structure::kComputeProperties) return Result::kInvalidArgument;
  properties->max_group_size = properties->max_group_x = properties->max_group_y = properties->max_group_z = 1024;
  properties->max_count_x = properties->max_count_y = properties->max_count_z = UINT32_MAX;
  properties->local_memory = 65536;
  return Result::kSuccess;
}

Result zeDeviceGetModuleProperties(Device, ModuleProperties* properties) {
  if (properties->type != Structure::kModuleProperties) return Result::kInvalidArgument;
  properties->spirv_version = 1 << 16 | 2;
  properties->flags = kModuleFp16 | kModuleFp64;
  properties->fp16_flags = properties->fp32_flags = properties->fp64_flags =
      0x67;  // denormals, inf and NaN, to nearest, fma, rounded division
  properties->max_arguments_size = 2048;
  return Result::kSuccess;
}

Result zeDeviceGetMemoryProperties(Device, std::uint32_t* count, MemoryProperties* properties) {
  if (!counts(count, properties, 1)) return Result::kSuccess;
  if (properties->type != Structure::kMemoryProperties) return Result::kInvalidArgument;
  properties->total_size = machine()->memory->limit();
  return Result::kSuccess;
}

Result zeDeviceGetCommandQueueGroupProperties(Device, std::uint32_t* count, QueueGroupProperties* properties) {
  if (!counts(count, properties, 1)) return Result::kSuccess;
  if (properties->type != Structure::kQueueGroupProperties) return Result::kInvalidArgument;
  properties->flags = kGroupComputes;
  properties->max_fill_pattern = 16;
  properties->queues = 4;
  return Result::kSuccess;
}

/// Every emulated device reaches every other one's memory.
/// The device's clock is the host's.
Result zeDeviceGetGlobalTimestamps(Device, std::uint64_t* host, std::uint64_t* device) {
  *host = *device = crucible::emulator::now_ns();
  return present_state();
}

Result zeDeviceCanAccessPeer(Device, Device, std::uint8_t* answer) {
  *answer = 1;
  return Result::kSuccess;
}

Result zeContextCreate(Driver, const ContextDesc* description, Context* context) {
  if (description->type != Structure::kContextDesc) return Result::kInvalidArgument;
  if (faults().hit(Site::kInit, "zeContextCreate")) return Result::kNotAvailable;
  *context = new ContextObject;
  return present_state();
}

Result zeContextDestroy(Context context) {
  delete context;
  return Result::kSuccess;
}

/// Addresses are the host's own: kernels that read them from a table follow them as they are.
Result zeMemAllocDevice(Context, const DeviceMemoryDesc* description, std::size_t size, std::size_t, Device device,
                        void** memory) {
  if (description->type != Structure::kDeviceMemoryDesc) return Result::kInvalidArgument;
  if (const auto rule = faults().hit(Site::kAlloc)) {
    act(*rule);
    if (rule->action == Action::kOom || rule->action == Action::kFail) return Result::kOutOfDeviceMemory;
  }
  if (machine()->is_lost) return Result::kDeviceLost;
  const auto address = machine()->memory->allocate(device->number, size);
  if (!address) return Result::kOutOfDeviceMemory;
  *memory = host_address(*address);
  return Result::kSuccess;
}

Result zeMemFree(Context, void* memory) {
  const bool is_freed = machine()->memory->free(reinterpret_cast<std::uint64_t>(memory) | EMU_TAG).has_value();
  return is_freed ? Result::kSuccess : Result::kInvalidArgument;
}

}  // extern "C"
