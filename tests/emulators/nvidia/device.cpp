// Starting, devices, their attributes, and contexts.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/nvidia/driver.hpp"
#include "tests/emulators/nvidia/rates.hpp"

namespace crucible::emulators::nvidia {
namespace {

thread_local std::vector<CUcontext> context_stack;

constexpr Generation kGenerations[] = {
    {75, 40, 1590000, 5001000, 256, 1024, 16, 65536, 65536, 4 << 20},
    {80, 108, 1410000, 1593000, 5120, 2048, 32, 167936, 166912, 40 << 20},
    {86, 84, 1695000, 9751000, 384, 1536, 16, 102400, 101376, 6 << 20},
    {89, 142, 2520000, 9001000, 384, 1536, 24, 102400, 101376, 96 << 20},
    {90, 132, 1980000, 2619000, 5120, 2048, 32, 233472, 232448, 50 << 20},
    {100, 148, 1965000, 3996000, 8192, 2048, 32, 233472, 232448, 126 << 20},
    {120, 170, 2407000, 14001000, 512, 1536, 24, 102400, 101376, 96 << 20},
};

Generation generation_of(const std::string& arch) {
  for (const Generation& generation : kGenerations) {
    if (arch == "sm_" + std::to_string(generation.capability)) return generation;
  }
  std::string known;
  for (const Generation& generation : kGenerations) known += " sm_" + std::to_string(generation.capability);
  emulator::give_up("CRUCIBLE_EMU_ARCH: there is no emulated NVIDIA device " + arch + ", only" + known);
}

/// The devices that CUDA_VISIBLE_DEVICES leaves, in its order; it ends at the first word that names none.
std::vector<unsigned> visible_devices(unsigned count) {
  std::vector<unsigned> visible;
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (variable == nullptr) {
    for (unsigned i = 0; i < count; ++i) visible.push_back(i);
    return visible;
  }
  for (std::string rest = variable; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string word = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    char* end = nullptr;
    const unsigned long index = std::strtoul(word.c_str(), &end, 10);
    const bool known = end != word.c_str() && *end == '\0' && index < count;
    if (!known || std::ranges::find(visible, index) != visible.end()) break;
    visible.push_back(static_cast<unsigned>(index));
  }
  return visible;
}

void start(Driver& driver) {
  const auto& settings = emulator::settings();
  const auto count = static_cast<unsigned>(settings.devices);
  driver.memory = std::make_unique<emulator::Memory>(count, settings.memory_mib << 20, settings.guard_at_end);
  for (const unsigned index : visible_devices(count)) {
    auto record = std::make_unique<DeviceRecord>(index);
    record->generation = generation_of(settings.arch(index, "sm_90"));
    record->device.set_rates(rates_of(record->generation.capability));
    record->context.device = &record->device;
    record->context.ordinal = static_cast<int>(driver.devices.size());
    driver.devices.push_back(std::move(record));
  }
}

}  // namespace

Driver& driver() {
  static Driver& the_driver = *new Driver;
  return the_driver;
}

bool lacks(std::string_view feature) {
  return std::ranges::find(emulator::settings().without, feature) != emulator::settings().without.end();
}

CUcontext current_context() { return context_stack.empty() ? nullptr : context_stack.back(); }

CUresult ready() {
  const std::lock_guard lock(driver().mutex);
  return driver().initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult ready(CUcontext* context) {
  if (const CUresult code = ready()) return code;
  *context = current_context();
  if (*context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return state_code(*(*context)->device);
}

CUresult state_code(const emulator::Device& device) {
  switch (device.state()) {
    case emulator::DeviceState::kGood:
      return CUDA_SUCCESS;
    case emulator::DeviceState::kIllegalAddress:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case emulator::DeviceState::kTrap:
      return CUDA_ERROR_LAUNCH_FAILED;
    case emulator::DeviceState::kTimeout:
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    case emulator::DeviceState::kLost:
      break;
  }
  for (const auto& record : driver().devices) {
    if (&record->device == &device && record->lost_code) return *record->lost_code;
  }
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

DeviceRecord* record_of(CUdevice device) {
  auto& devices = driver().devices;
  return device >= 0 && static_cast<std::size_t>(device) < devices.size()
             ? devices[static_cast<std::size_t>(device)].get()
             : nullptr;
}

std::optional<CUresult> fault_at(CUcontext context, emulator::Site site, std::string_view name, CUresult usual) {
  emulator::Device& device = *context->device;
  const auto rule = device.at(site, name);
  if (!rule) return std::nullopt;
  if (rule->action == emulator::Action::kLost)
    record_of(context).lost_code = code_of(*rule, CUDA_ERROR_DEVICE_UNAVAILABLE);
  if (const CUresult code = state_code(device)) return code;
  if (rule->action == emulator::Action::kOom) return code_of(*rule, CUDA_ERROR_OUT_OF_MEMORY);
  if (rule->action == emulator::Action::kFail) return code_of(*rule, usual);
  return std::nullopt;
}

}  // namespace crucible::emulators::nvidia

using namespace crucible::emulators::nvidia;
namespace emulator = crucible::emulator;

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& the = driver();
  const std::lock_guard lock(the.mutex);
  if (const auto rule = crucible::emulator::faults().hit(crucible::emulator::Site::kInit))
    return code_of(*rule, CUDA_ERROR_NO_DEVICE);
  if (!the.initialised) start(the);
  the.initialised = true;
  return the.devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  constexpr int kTooOld = 10020;  // what a fault makes of it: before graphs that this plugin can build
  *version =
      crucible::emulator::faults().hit(crucible::emulator::Site::kQuery, "cuDriverGetVersion") ? kTooOld : CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (const CUresult code = ready()) return code;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(driver().devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (const CUresult code = ready()) return code;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (record_of(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  if (const CUresult code = ready()) return code;
  const DeviceRecord* const record = record_of(device);
  if (record == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (name == nullptr || size <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<std::size_t>(size), "NVIDIA sm_%d (%s)", record->generation.capability,
                emulator::emulated_words().c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (const CUresult code = ready()) return code;
  const DeviceRecord* const record = record_of(device);
  if (record == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  char text[17] = {};
  std::snprintf(text, sizeof text, "crucible-emu-%03u", record->device.index());
  std::memcpy(uuid->bytes, text, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {
  if (const CUresult code = ready()) return code;
  if (record_of(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = driver().memory->limit();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int size, CUdevice device) {
  if (const CUresult code = ready()) return code;
  const DeviceRecord* const record = record_of(device);
  if (record == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (id == nullptr || size <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(id, static_cast<std::size_t>(size), "0000:%02X:00.0", record->device.index() + 1);
  return CUDA_SUCCESS;
}

namespace {

/// Attributes that are not here are zero, as for a device that lacks what they tell of.
int attribute_of(const DeviceRecord& record, CUdevice_attribute attribute) {
  const Generation& g = record.generation;
  const std::map<int, int> values = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
      {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_PITCH, static_cast<int>(emulator::settings().pitch)},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, g.kilohertz},
      {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
      {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, g.multiprocessors},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, static_cast<int>(record.device.index()) + 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, g.memory_kilohertz},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, g.bus_bits},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, g.l2_bytes},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, g.threads_per_multiprocessor},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, g.blocks_per_multiprocessor},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, g.capability / 10},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, g.capability % 10},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, g.shared_per_multiprocessor},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, g.most_shared_per_block},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, lacks("virtual") ? 0 : 1},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, lacks("pools") ? 0 : 1},
  };
  const auto found = values.find(attribute);
  return found == values.end() ? 0 : found->second;
}

}  // namespace

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (const CUresult code = ready()) return code;
  const DeviceRecord* const record = record_of(device);
  if (record == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = attribute_of(*record, attribute);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const CUresult code = ready()) return code;
  DeviceRecord* const record = record_of(device);
  if (record == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult code = state_code(record->device)) return code;
  if (const auto rule = crucible::emulator::faults().hit(crucible::emulator::Site::kInit, "cuDevicePrimaryCtxRetain"))
    return code_of(*rule, CUDA_ERROR_DEVICE_UNAVAILABLE);
  const std::lock_guard lock(driver().mutex);
  ++record->context.references;
  *context = &record->context;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  if (const CUresult code = ready()) return code;
  DeviceRecord* const record = record_of(device);
  if (record == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(driver().mutex);
  if (record->context.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --record->context.references;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (const CUresult code = ready()) return code;
  const DeviceRecord* const record = record_of(device);
  if (record == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (flags != nullptr) *flags = 0;
  if (active != nullptr) *active = record->context.references > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  if (const CUresult code = ready()) return code;
  DeviceRecord* const record = record_of(device);
  if (record == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  record->device.reset();
  driver().memory->free_all(record->device.index());
  record->lost_code.reset();
  record->context.reached = 0;
  return CUDA_SUCCESS;
}

/// A context that an application was given.
static bool is_context(CUcontext context) {
  return std::ranges::any_of(driver().devices, [&](const auto& record) { return &record->context == context; });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (const CUresult code = ready()) return code;
  if (context != nullptr && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context_stack.empty()) context_stack.pop_back();
  if (context != nullptr) context_stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (const CUresult code = ready()) return code;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = current_context();
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  if (const CUresult code = ready()) return code;
  if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  if (const CUresult code = ready()) return code;
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = context_stack.back();
  context_stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (const auto fault =
          fault_at(context, crucible::emulator::Site::kSync, "cuCtxSynchronize", CUDA_ERROR_LAUNCH_FAILED))
    return *fault;
  context->device->synchronize();
  return state_code(*context->device);
}
