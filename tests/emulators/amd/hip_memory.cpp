// Memory, copies and fills of libamdhip64.
#include <cstdlib>
#include <cstring>

#include "tests/emulators/amd/machine.hpp"

using namespace crucible::emulator;

namespace crucible::emulator {
namespace {

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

/// What the name of a copy is for the faults.
const char* copy_name(const void* to, const void* from) {
  if (!is_device_pointer(to)) return is_device_pointer(from) ? "d2h" : "h2h";
  return is_device_pointer(from) ? "d2d" : "h2d";
}

/// A device pointer lies in an allocation with that many bytes behind it; of the host's, only null is known to be
/// wrong.
bool holds(const void* pointer, std::size_t size) {
  if (!is_device_pointer(pointer)) return pointer != nullptr;
  return machine().memory->check(address_of(pointer), size).has_value();
}

void flip(const Rule& rule, void* begin, std::size_t size) {
  if (rule.byte >= size || rule.bit > 7) {
    faults().note("flip: byte " + std::to_string(rule.byte) + " is not in " + std::to_string(size) + " bytes");
    return;
  }
  host_address(address_of(begin))[rule.byte] ^= static_cast<char>(1 << rule.bit);
}

template <class T>
void fill(char* to, T value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}

}  // namespace

bool is_device_pointer(const void* pointer) { return is_device_address(address_of(pointer)); }

hipError_t check_copy(const void* to, const void* from, std::size_t size, hipMemcpyKind kind) {
  if (kind < hipMemcpyHostToHost || kind > hipMemcpyDefault) return hipErrorInvalidMemcpyDirection;
  if (size == 0) return hipSuccess;
  if (!holds(to, size) || !holds(from, size)) return hipErrorInvalidValue;
  if (kind == hipMemcpyDefault) return hipSuccess;
  // Pinned memory counts as either side.
  const bool to_device = kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice;
  const bool from_device = kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice;
  const auto fits = [&](const void* pointer, bool device) {
    return is_device_pointer(pointer) == device || machine().pinned.holds(pointer, size);
  };
  return fits(to, to_device) && fits(from, from_device) ? hipSuccess : hipErrorInvalidMemcpyDirection;
}

NodeWork copy_work(AmdDevice& device, void* to, const void* from, std::size_t size) {
  return [&device, to, from, size] {
    if (device.error() != hipSuccess) return;
    const auto rule = fault_in_stream(device, Site::kCopy, copy_name(to, from), size);
    if (device.error() != hipSuccess) return;
    const ActivityScope scope({.kind = Activity::Kind::kCopy, .bytes = size});
    // Freed since it was asked for: on a device the access faults.
    if (!holds(to, size) || !holds(from, size)) return device.device.fail(DeviceState::kIllegalAddress);
    std::memmove(host_address(address_of(to)), host_address(address_of(from)), size);
    if (rule && rule->action == Action::kFlip) flip(*rule, to, size);
  };
}

hipError_t check_fill(const void* to, std::size_t bytes) {
  return bytes == 0 || (is_device_pointer(to) && holds(to, bytes)) || machine().pinned.holds(to, bytes)
             ? hipSuccess
             : hipErrorInvalidValue;
}

NodeWork fill_work(AmdDevice& device, const hipMemsetParams& params) {
  return [&device, params] {
    if (device.error() != hipSuccess) return;
    const std::size_t row = params.width * params.elementSize;
    const auto rule = fault_in_stream(device, Site::kCopy, "fill", row * params.height);
    if (device.error() != hipSuccess) return;
    const ActivityScope scope({.kind = Activity::Kind::kFill, .bytes = row * params.height});
    for (std::size_t y = 0; y < params.height; ++y) {
      char* const tagged = static_cast<char*>(params.dst) + y * params.pitch;
      if (!holds(tagged, row)) return device.device.fail(DeviceState::kIllegalAddress);
      char* const to = host_address(address_of(tagged));
      if (params.elementSize == 1) std::memset(to, static_cast<int>(params.value), params.width);
      if (params.elementSize == 2) fill(to, static_cast<std::uint16_t>(params.value), params.width);
      if (params.elementSize == 4) fill(to, params.value, params.width);
    }
    if (rule && rule->action == Action::kFlip) flip(*rule, params.dst, row);
  };
}

}  // namespace crucible::emulator

namespace {

hipError_t allocate(AmdDevice& device, void** pointer, std::size_t size, const char* name) {
  if (pointer == nullptr) return hipErrorInvalidValue;
  if (const hipError_t fault = fault_at(device, Site::kAlloc, name, hipErrorOutOfMemory)) return fault;
  if (size == 0) {
    *pointer = nullptr;
    return hipSuccess;
  }
  const auto address = machine().memory->allocate(device.physical, size);
  if (!address) return hipErrorOutOfMemory;
  *pointer = reinterpret_cast<void*>(*address);
  return hipSuccess;
}

/// A copy from or to memory that is not pinned is over when the call returns, as with the driver's staging.
hipError_t copy(const Target& target, void* to, const void* from, std::size_t size, hipMemcpyKind kind, bool wait) {
  if (const hipError_t problem = check_copy(to, from, size, kind)) return problem;
  if (size == 0) return hipSuccess;
  target.stream->push(copy_work(*target.device, to, from, size));
  const auto asynchronous = [&](const void* pointer) {
    return is_device_pointer(pointer) || machine().pinned.holds(pointer, size);
  };
  if (!wait && asynchronous(to) && asynchronous(from)) return hipSuccess;
  target.stream->synchronize();
  return target.device->error();
}

/// Both sides have to be memory of the devices that are named: a mistake that a real runtime may not see. No leave is
/// needed.
hipError_t copy_to_peer(const Target& target, void* to, int to_device, const void* from, int from_device,
                        std::size_t size, bool wait) {
  const auto& devices = machine().devices;
  for (const auto& [pointer, ordinal] : {std::pair<const void*, int>(to, to_device), {from, from_device}}) {
    if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= devices.size()) return hipErrorInvalidDevice;
    const auto found = machine().memory->check(address_of(pointer), 1);
    if (found && found->device != devices[static_cast<std::size_t>(ordinal)]->physical) return hipErrorInvalidValue;
  }
  return copy(target, to, from, size, hipMemcpyDeviceToDevice, wait);
}

hipError_t fill(const Target& target, void* to, unsigned value, unsigned element, std::size_t count, bool wait) {
  if (const hipError_t problem = check_fill(to, count * element)) return problem;
  if (count == 0) return hipSuccess;
  const hipMemsetParams params = {
      .dst = to, .elementSize = element, .height = 1, .pitch = 0, .value = value, .width = count};
  target.stream->push(fill_work(*target.device, params));
  if (!wait) return hipSuccess;
  target.stream->synchronize();
  return target.device->error();
}

}  // namespace

extern "C" {

hipError_t hipMalloc(void** pointer, size_t size) {
  return answer_on_device([&](AmdDevice& device) { return allocate(device, pointer, size, "hipMalloc"); });
}

hipError_t hipMallocAsync(void** pointer, size_t size, hipStream_t stream) {
  return answer_on_stream(
      stream, [&](const Target& target) { return allocate(*target.device, pointer, size, "hipMallocAsync"); });
}

hipError_t hipFree(void* pointer) {
  return answer_on_device([&](AmdDevice& device) {
    if (pointer == nullptr) return hipSuccess;
    if (const hipError_t fault = fault_at(device, Site::kFree, "hipFree", hipErrorInvalidValue)) return fault;
    device.device.synchronize();  // as the driver does
    const auto freed = machine().memory->free(reinterpret_cast<std::uint64_t>(pointer));
    return freed ? hipSuccess : hipErrorInvalidValue;
  });
}

hipError_t hipFreeAsync(void* pointer, hipStream_t stream) {
  return answer_on_stream(stream, [&](const Target& target) {
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    const auto found = machine().memory->check(address, 1);
    if (!found || found->address != address) return hipErrorInvalidValue;
    if (const hipError_t fault = fault_at(*target.device, Site::kFree, "hipFreeAsync", hipErrorInvalidValue))
      return fault;
    target.stream->push([address] { (void)machine().memory->free(address); });
    return hipSuccess;
  });
}

hipError_t hipHostMalloc(void** pointer, size_t size, unsigned) {
  return answer_on_device([&](AmdDevice& device) {
    if (pointer == nullptr) return hipErrorInvalidValue;
    if (const hipError_t fault = fault_at(device, Site::kAlloc, "hipHostMalloc", hipErrorOutOfMemory)) return fault;
    void* const made = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (made == nullptr) return hipErrorOutOfMemory;
    std::memset(made, 0xCD, size);
    machine().pinned.add(made, {size, true});
    *pointer = made;
    return hipSuccess;
  });
}

hipError_t hipHostFree(void* pointer) {
  return answer([&] {
    if (pointer == nullptr) return hipSuccess;
    if (AmdDevice* const device = current_device(); device != nullptr) device->device.synchronize();
    if (!machine().pinned.remove(pointer, true)) return hipErrorInvalidValue;
    std::free(pointer);
    return hipSuccess;
  });
}

hipError_t hipHostRegister(void* pointer, size_t size, unsigned) {
  return answer_on_device([&](AmdDevice&) {
    if (pointer == nullptr || size == 0) return hipErrorInvalidValue;
    return machine().pinned.add(pointer, {size, false}) ? hipSuccess : hipErrorHostMemoryAlreadyRegistered;
  });
}

hipError_t hipHostUnregister(void* pointer) {
  return answer([&] { return machine().pinned.remove(pointer, false) ? hipSuccess : hipErrorHostMemoryNotRegistered; });
}

hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  return answer_on_device([&](AmdDevice& device) {
    if (free == nullptr || total == nullptr) return hipErrorInvalidValue;
    *total = machine().memory->limit();
    *free = *total - machine().memory->used(device.physical);
    return hipSuccess;
  });
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* size, hipDeviceptr_t pointer) {
  return answer_on_device([&](AmdDevice&) {
    const auto found = machine().memory->check(reinterpret_cast<std::uint64_t>(pointer), 0);
    if (!found) return hipErrorInvalidValue;
    if (base != nullptr) *base = reinterpret_cast<void*>(found->address);
    if (size != nullptr) *size = found->size;
    return hipSuccess;
  });
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* pointer) {
  return answer_on_device([&](AmdDevice&) {
    if (attributes == nullptr || pointer == nullptr) return hipErrorInvalidValue;
    *attributes = {};
    attributes->device = -1;
    if (is_device_pointer(pointer)) {
      const auto found = machine().memory->check(reinterpret_cast<std::uint64_t>(pointer), 0);
      if (!found) return hipErrorInvalidValue;
      attributes->type = hipMemoryTypeDevice;
      attributes->devicePointer = const_cast<void*>(pointer);
      for (const auto& device : machine().devices) {
        if (device->physical == found->device) attributes->device = static_cast<int>(device->device.index());
      }
    } else if (machine().pinned.holds(pointer, 1)) {
      attributes->type = hipMemoryTypeHost;
      attributes->hostPointer = attributes->devicePointer = const_cast<void*>(pointer);
      attributes->device = current_ordinal();
    }
    return hipSuccess;
  });
}

hipError_t hipMemcpy(void* to, const void* from, size_t size, hipMemcpyKind kind) {
  return answer_on_stream(nullptr, [&](const Target& target) { return copy(target, to, from, size, kind, true); });
}
hipError_t hipMemcpyAsync(void* to, const void* from, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  return answer_on_stream(stream, [&](const Target& target) { return copy(target, to, from, size, kind, false); });
}
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, const void* from, size_t size, hipStream_t stream) {
  return hipMemcpyAsync(to, from, size, hipMemcpyHostToDevice, stream);
}
hipError_t hipMemcpyDtoHAsync(void* to, hipDeviceptr_t from, size_t size, hipStream_t stream) {
  return hipMemcpyAsync(to, from, size, hipMemcpyDeviceToHost, stream);
}
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t size, hipStream_t stream) {
  return hipMemcpyAsync(to, from, size, hipMemcpyDeviceToDevice, stream);
}
hipError_t hipMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t size) {
  return answer_on_stream(nullptr, [&](const Target& target) {
    return copy_to_peer(target, to, to_device, from, from_device, size, true);
  });
}
hipError_t hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t size,
                              hipStream_t stream) {
  return answer_on_stream(stream, [&](const Target& target) {
    return copy_to_peer(target, to, to_device, from, from_device, size, false);
  });
}

hipError_t hipMemset(void* to, int value, size_t size) {
  return answer_on_stream(
      nullptr, [&](const Target& target) { return fill(target, to, static_cast<unsigned>(value), 1, size, true); });
}
hipError_t hipMemsetAsync(void* to, int value, size_t size, hipStream_t stream) {
  return answer_on_stream(
      stream, [&](const Target& target) { return fill(target, to, static_cast<unsigned>(value), 1, size, false); });
}
hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t count, hipStream_t stream) {
  return answer_on_stream(stream, [&](const Target& target) { return fill(target, to, value, 1, count, false); });
}
hipError_t hipMemsetD16Async(hipDeviceptr_t to, unsigned short value, size_t count, hipStream_t stream) {
  return answer_on_stream(stream, [&](const Target& target) { return fill(target, to, value, 2, count, false); });
}
hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t count, hipStream_t stream) {
  return answer_on_stream(
      stream, [&](const Target& target) { return fill(target, to, static_cast<unsigned>(value), 4, count, false); });
}

}  // extern "C"
