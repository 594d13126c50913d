// Devices, versions and errors of libamdhip64.
#include <cstdio>
#include <cstring>

#include "tests/emulators/amd/machine.hpp"
#include "tests/emulators/core/settings.hpp"

using namespace crucible::emulator;

namespace {

constexpr int kVersion = 60'032'830;  // HIP 6.0, as the runtime counts
constexpr int kComputeUnits = 4;

AmdDevice* device_at(int ordinal) {
  Machine& all = machine();
  return ordinal >= 0 && static_cast<std::size_t>(ordinal) < all.devices.size()
             ? all.devices[static_cast<std::size_t>(ordinal)].get()
             : nullptr;
}

/// gfx90a is 9.0, gfx1100 is 11.0: all but the last two digits are the generation.
int major_of(const AmdDevice& device) { return std::atoi(device.arch.substr(3, device.arch.size() - 5).c_str()); }
int minor_of(const AmdDevice& device) { return device.arch[device.arch.size() - 2] - '0'; }

std::string name_of(const AmdDevice& device) { return "Crucible emulated " + device.arch + " (emulated, not a GPU)"; }

hipUUID uuid_of(const AmdDevice& device) {
  hipUUID uuid = {};
  std::snprintf(uuid.bytes, sizeof uuid.bytes, "crucible-amd-%02u", device.physical);
  return uuid;
}

/// The attributes that are not 0. HIP answers hipErrorInvalidValue to numbers that it does not know; here 0 is said to
/// all of them, because most are limits of textures.
int attribute_of(const AmdDevice& device, hipDeviceAttribute_t attribute) {
  switch (attribute) {
    case hipDeviceAttributeMaxThreadsPerBlock:
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ:
      return kMostThreads;
    case hipDeviceAttributeMaxGridDimX:
      return 2147483647;
    case hipDeviceAttributeMaxGridDimY:
    case hipDeviceAttributeMaxGridDimZ:
      return 65536;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
    case hipDeviceAttributeSharedMemPerBlockOptin:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor:
      return kSharedBytes;
    case hipDeviceAttributeWarpSize:
      return static_cast<int>(device.wave);
    case hipDeviceAttributeMaxRegistersPerBlock:
    case hipDeviceAttributeMaxRegistersPerMultiprocessor:
      return 65536;
    case hipDeviceAttributeMultiprocessorCount:
      return kComputeUnits;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
      return 2048;
    case hipDeviceAttributeClockRate:
    case hipDeviceAttributeMemoryClockRate:
      return 1'000'000;
    case hipDeviceAttributeMemoryBusWidth:
      return 1024;
    case hipDeviceAttributeL2CacheSize:
      return 4 << 20;
    case hipDeviceAttributeComputeCapabilityMajor:
      return major_of(device);
    case hipDeviceAttributeComputeCapabilityMinor:
      return minor_of(device);
    case hipDeviceAttributePciBusId:
      return static_cast<int>(device.physical) + 1;
    case hipDeviceAttributeTotalConstantMemory:
      return 2147483647;
    case hipDeviceAttributeTotalGlobalMem:
      return static_cast<int>(std::min<std::uint64_t>(machine().memory->limit(), 2147483647));
    case hipDeviceAttributeAsyncEngineCount:
    case hipDeviceAttributeCanMapHostMemory:
    case hipDeviceAttributeConcurrentKernels:
    case hipDeviceAttributeUnifiedAddressing:
    case hipDeviceAttributeHostRegisterSupported:
    case hipDeviceAttributeMemoryPoolsSupported:
      return 1;
    default:
      return 0;
  }
}

template <class Body>
hipError_t answer_about(int ordinal, Body body) {
  return answer([&] {
    AmdDevice* const device = device_at(ordinal);
    if (device == nullptr) return hipErrorInvalidDevice;
    return body(*device);
  });
}

template <class T>
hipError_t give(T* out, T value) {
  if (out == nullptr) return hipErrorInvalidValue;
  *out = value;
  return hipSuccess;
}

}  // namespace

extern "C" {

hipError_t hipInit(unsigned flags) {
  return answer([&] {
    if (flags != 0) return hipErrorInvalidValue;
    AmdDevice* const device = current_device();
    if (device == nullptr) return hipErrorNoDevice;
    return fault_at(*device, Site::kInit, "hipInit", hipErrorNoDevice);
  });
}

hipError_t hipDriverGetVersion(int* version) {
  return answer([&] { return give(version, kVersion); });
}
hipError_t hipRuntimeGetVersion(int* version) {
  constexpr int kTooOld = 40'421'345;  // what a fault makes of it: ROCm 4
  return answer([&] { return give(version, faults().hit(Site::kQuery, "hipRuntimeGetVersion") ? kTooOld : kVersion); });
}

const char* hipGetErrorName(hipError_t error) {
  switch (error) {
#define CRUCIBLE_HIP_ERROR(name, value, words) \
  case name:                                   \
    return #name;
    CRUCIBLE_HIP_ERRORS(CRUCIBLE_HIP_ERROR)
#undef CRUCIBLE_HIP_ERROR
  }
  return "hipErrorUnknown";
}

const char* hipGetErrorString(hipError_t error) {
  switch (error) {
#define CRUCIBLE_HIP_ERROR(name, value, words) \
  case name:                                   \
    return words;
    CRUCIBLE_HIP_ERRORS(CRUCIBLE_HIP_ERROR)
#undef CRUCIBLE_HIP_ERROR
  }
  return "unknown error";
}

hipError_t hipGetLastError(void) { return last_error(true); }
hipError_t hipPeekAtLastError(void) { return last_error(false); }

hipError_t hipGetDeviceCount(int* count) {
  return answer([&] {
    const hipError_t given = give(count, static_cast<int>(machine().devices.size()));
    return given == hipSuccess && *count == 0 ? hipErrorNoDevice : given;
  });
}
hipError_t hipGetDevice(int* device) {
  return answer([&] { return give(device, current_ordinal()); });
}
hipError_t hipSetDevice(int device) {
  return answer([&] { return set_current_device(device); });
}
hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return answer_about(ordinal, [&](AmdDevice&) { return give(device, ordinal); });
}
hipError_t hipDeviceGetName(char* name, int length, hipDevice_t ordinal) {
  return answer_about(ordinal, [&](AmdDevice& device) {
    if (name == nullptr || length <= 0) return hipErrorInvalidValue;
    std::snprintf(name, static_cast<std::size_t>(length), "%s", name_of(device).c_str());
    return hipSuccess;
  });
}
hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t ordinal) {
  return answer_about(ordinal, [&](AmdDevice& device) { return give(uuid, uuid_of(device)); });
}
hipError_t hipDeviceGetPCIBusId(char* id, int length, int ordinal) {
  return answer_about(ordinal, [&](AmdDevice& device) {
    if (id == nullptr || length < 13) return hipErrorInvalidValue;
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device.physical + 1);
    return hipSuccess;
  });
}
hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t ordinal) {
  return answer_about(ordinal, [&](AmdDevice&) { return give(bytes, static_cast<size_t>(machine().memory->limit())); });
}
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int ordinal) {
  return answer_about(ordinal, [&](AmdDevice& device) {
    if (const hipError_t fault = fault_at(device, Site::kQuery, "hipDeviceGetAttribute", hipErrorUnknown)) return fault;
    return give(value, attribute_of(device, attribute));
  });
}
hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t ordinal) {
  return answer_about(ordinal, [&](AmdDevice& device) {
    const hipError_t given = give(major, major_of(device));
    return given != hipSuccess ? given : give(minor, minor_of(device));
  });
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* properties, int ordinal) {
  static_assert(sizeof(hipDeviceProp_tR0600) == 1472 && offsetof(hipDeviceProp_tR0600, gcnArchName) == 1160);
  return answer_about(ordinal, [&](AmdDevice& device) {
    if (properties == nullptr) return hipErrorInvalidValue;
    const auto number = [&](hipDeviceAttribute_t attribute) { return attribute_of(device, attribute); };
    hipDeviceProp_tR0600& p = *properties;
    p = {};
    std::snprintf(p.name, sizeof p.name, "%s", name_of(device).c_str());
    p.uuid = uuid_of(device);
    p.totalGlobalMem = machine().memory->limit();
    p.sharedMemPerBlock = p.sharedMemPerMultiprocessor = p.maxSharedMemoryPerMultiProcessor = kSharedBytes;
    p.regsPerBlock = number(hipDeviceAttributeMaxRegistersPerBlock);
    p.warpSize = static_cast<int>(device.wave);
    p.maxThreadsPerBlock = kMostThreads;
    for (int& most : p.maxThreadsDim) most = kMostThreads;
    for (int i = 0; i < 3; ++i) {
      p.maxGridSize[i] = number(static_cast<hipDeviceAttribute_t>(hipDeviceAttributeMaxGridDimX + i));
    }
    p.clockRate = p.memoryClockRate = number(hipDeviceAttributeClockRate);
    p.totalConstMem = 2147483647;
    p.major = major_of(device);
    p.minor = minor_of(device);
    p.multiProcessorCount = kComputeUnits;
    p.concurrentKernels = p.asyncEngineCount = p.unifiedAddressing = 1;
    p.pciBusID = number(hipDeviceAttributePciBusId);
    p.memoryBusWidth = number(hipDeviceAttributeMemoryBusWidth);
    p.l2CacheSize = number(hipDeviceAttributeL2CacheSize);
    p.maxThreadsPerMultiProcessor = number(hipDeviceAttributeMaxThreadsPerMultiProcessor);
    std::snprintf(p.gcnArchName, sizeof p.gcnArchName, "%s", device.arch.c_str());
    return hipSuccess;
  });
}

hipError_t hipDeviceSynchronize(void) {
  return answer_on_device([](AmdDevice& device) {
    device.device.synchronize();
    const hipError_t fault = fault_at(device, Site::kSync, "hipDeviceSynchronize", hipErrorUnknown);
    return fault != hipSuccess ? fault : device.error();
  });
}

hipError_t hipDeviceReset(void) {
  return answer([] {
    AmdDevice* const device = current_device();
    if (device == nullptr) return hipErrorNoDevice;
    device->device.reset();
    device->own_error = hipSuccess;
    device->reached = 0;
    machine().memory->free_all(device->physical);
    return hipSuccess;
  });
}

hipError_t hipDeviceCanAccessPeer(int* can, int ordinal, int peer) {
  return answer_about(ordinal, [&](AmdDevice&) {
    return device_at(peer) == nullptr ? hipErrorInvalidDevice : give(can, ordinal != peer ? 1 : 0);
  });
}
hipError_t hipDeviceEnablePeerAccess(int ordinal, unsigned flags) {
  return answer_on_device([&](AmdDevice& device) {
    if (flags != 0) return hipErrorInvalidValue;
    const AmdDevice* const peer = device_at(ordinal);
    if (peer == nullptr || peer == &device) return hipErrorInvalidDevice;
    const std::uint32_t bit = 1u << peer->physical;
    return (device.reached.fetch_or(bit) & bit) != 0 ? hipErrorPeerAccessAlreadyEnabled : hipSuccess;
  });
}
hipError_t hipDeviceDisablePeerAccess(int ordinal) {
  return answer_on_device([&](AmdDevice& device) {
    const AmdDevice* const peer = device_at(ordinal);
    if (peer == nullptr || peer == &device) return hipErrorInvalidDevice;
    device.device.synchronize();  // kernels that use it end first
    const std::uint32_t bit = 1u << peer->physical;
    return (device.reached.fetch_and(~bit) & bit) != 0 ? hipSuccess : hipErrorPeerAccessNotEnabled;
  });
}

}  // extern "C"
