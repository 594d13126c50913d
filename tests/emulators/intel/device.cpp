// Level Zero's driver, devices, contexts and memory. The name of a device says that it is none.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/emulators/intel/machine.hpp"

using namespace crucible::emulator;

namespace {

_ze_driver_handle_t the_driver;
_ze_device_handle_t the_devices[16];
constexpr ze_api_version_t kVersion = ZE_API_VERSION_1_4;                             // of the interface
constexpr auto kOtherVersion = static_cast<ze_api_version_t>(ZE_MAKE_VERSION(2, 0));  // what a fault makes of it
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

ze_result_t zeInit(std::uint32_t) {
  if (const auto rule = faults().hit(Site::kInit, "zeInit")) return ZE_RESULT_ERROR_UNINITIALIZED;
  return machine() == nullptr ? ZE_RESULT_ERROR_UNINITIALIZED : ZE_RESULT_SUCCESS;
}

ze_result_t zeDriverGet(std::uint32_t* count, ze_driver_handle_t* drivers) {
  if (machine() == nullptr) return ZE_RESULT_ERROR_UNINITIALIZED;
  if (counts(count, drivers, 1)) drivers[0] = &the_driver;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDriverGetApiVersion(ze_driver_handle_t, ze_api_version_t* version) {
  *version = faults().hit(Site::kQuery, "zeDriverGetApiVersion") ? kOtherVersion : kVersion;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDriverGetProperties(ze_driver_handle_t, ze_driver_properties_t* properties) {
  if (properties->stype != ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  std::memcpy(properties->uuid.id, "crucible-emu-ze0", 16);
  properties->driverVersion = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGet(ze_driver_handle_t, std::uint32_t* count, ze_device_handle_t* devices) {
  static const std::vector<std::uint32_t> visible = visible_devices();
  if (!counts(count, devices, static_cast<std::uint32_t>(visible.size()))) return ZE_RESULT_SUCCESS;
  for (std::uint32_t i = 0; i < *count; ++i) {
    _ze_device_handle_t& device = the_devices[visible[i]];
    device.number = visible[i];
    devices[i] = &device;
  }
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetProperties(ze_device_handle_t device, ze_device_properties_t* properties) {
  if (properties->stype != ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  void* const next = properties->pNext;
  if (auto* lists = static_cast<ze_mutable_command_list_exp_properties_t*>(next); lists != nullptr) {
    if (lists->stype != ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_LIST_EXP_PROPERTIES) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    lists->mutableCommandListFlags = 0;
    lists->mutableCommandFlags = ZE_MUTABLE_COMMAND_EXP_FLAG_KERNEL_ARGUMENTS;
  }
  *properties = crucible_intel::typed<ze_device_properties_t>(properties->stype);
  properties->pNext = next;
  properties->type = ZE_DEVICE_TYPE_GPU;
  properties->vendorId = 0x8086;
  properties->coreClockRate = 1000;
  properties->maxMemAllocSize = machine()->memory->limit();
  properties->maxHardwareContexts = 16;
  properties->numThreadsPerEU = 8;
  properties->physicalEUSimdWidth = 16;
  properties->numEUsPerSubslice = 8;
  properties->numSubslicesPerSlice = 4;
  properties->numSlices = 1;
  properties->timerResolution = 1'000'000'000;
  properties->timestampValidBits = properties->kernelTimestampValidBits = 64;
  std::memcpy(properties->uuid.id, "crucible-emu-xe0", 16);
  properties->uuid.id[15] = static_cast<std::uint8_t>('0' + device->number);
  std::strncpy(properties->name, kName, sizeof properties->name - 1);
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetComputeProperties(ze_device_handle_t, ze_device_compute_properties_t* properties) {
  if (properties->stype != ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  properties->maxTotalGroupSize = properties->maxGroupSizeX = properties->maxGroupSizeY = properties->maxGroupSizeZ =
      1024;
  properties->maxGroupCountX = properties->maxGroupCountY = properties->maxGroupCountZ = UINT32_MAX;
  properties->maxSharedLocalMemory = 65536;
  properties->numSubGroupSizes = 3;
  for (std::uint32_t i = 0; i < properties->numSubGroupSizes; ++i) properties->subGroupSizes[i] = 8u << i;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetModuleProperties(ze_device_handle_t, ze_device_module_properties_t* properties) {
  if (properties->stype != ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  properties->spirvVersionSupported = ZE_MAKE_VERSION(1, 2);
  properties->flags = ZE_DEVICE_MODULE_FLAG_FP16 | ZE_DEVICE_MODULE_FLAG_FP64;
  properties->fp16flags = properties->fp32flags = properties->fp64flags =
      ZE_DEVICE_FP_FLAG_DENORM | ZE_DEVICE_FP_FLAG_INF_NAN | ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST |
      ZE_DEVICE_FP_FLAG_FMA | ZE_DEVICE_FP_FLAG_ROUNDED_DIVIDE_SQRT;
  properties->maxArgumentsSize = 2048;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetMemoryProperties(ze_device_handle_t, std::uint32_t* count,
                                        ze_device_memory_properties_t* properties) {
  if (!counts(count, properties, 1)) return ZE_RESULT_SUCCESS;
  if (properties->stype != ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  properties->totalSize = machine()->memory->limit();
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t, std::uint32_t* count,
                                                   ze_command_queue_group_properties_t* properties) {
  if (!counts(count, properties, 1)) return ZE_RESULT_SUCCESS;
  if (properties->stype != ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  properties->flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE;
  properties->maxMemoryFillPatternSize = 16;
  properties->numQueues = 4;
  return ZE_RESULT_SUCCESS;
}

/// Every emulated device reaches every other one's memory.
/// The device's clock is the host's.
ze_result_t zeDeviceGetGlobalTimestamps(ze_device_handle_t, std::uint64_t* host, std::uint64_t* device) {
  *host = *device = crucible::emulator::now_ns();
  return present_state();
}

ze_result_t zeDeviceCanAccessPeer(ze_device_handle_t, ze_device_handle_t, std::uint8_t* answer) {
  *answer = 1;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeContextCreate(ze_driver_handle_t, const ze_context_desc_t* description, ze_context_handle_t* context) {
  if (description->stype != ZE_STRUCTURE_TYPE_CONTEXT_DESC) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (faults().hit(Site::kInit, "zeContextCreate")) return ZE_RESULT_ERROR_NOT_AVAILABLE;
  *context = new _ze_context_handle_t;
  return present_state();
}

ze_result_t zeContextDestroy(ze_context_handle_t context) {
  delete context;
  return ZE_RESULT_SUCCESS;
}

/// Addresses are the host's own: kernels that read them from a table follow them as they are.
ze_result_t zeMemAllocDevice(ze_context_handle_t, const ze_device_mem_alloc_desc_t* description, std::size_t size,
                             std::size_t, ze_device_handle_t device, void** memory) {
  if (description->stype != ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (const auto rule = faults().hit(Site::kAlloc)) {
    act(*rule);
    if (rule->action == Action::kOom || rule->action == Action::kFail) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  if (machine()->is_lost) return ZE_RESULT_ERROR_DEVICE_LOST;
  const auto address = machine()->memory->allocate(device->number, size);
  if (!address) return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
  *memory = host_address(*address);
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeMemFree(ze_context_handle_t, void* memory) {
  const bool is_freed = machine()->memory->free(reinterpret_cast<std::uint64_t>(memory) | EMU_TAG).has_value();
  return is_freed ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

}  // extern "C"
