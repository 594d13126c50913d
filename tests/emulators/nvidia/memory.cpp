// Device memory, pinned host memory, copies and fills. Copies from pageable host memory are staged before the call
// returns and copies to it are waited for, as the real driver does; pinned memory is read and written when the stream
// comes to it.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "tests/emulators/nvidia/driver.hpp"

namespace crucible::emulators::nvidia {
namespace {

/// A range holds [address, address + size), or several mapped ones that follow each other. The driver's lock is held.
bool is_in_ranges(std::uint64_t address, std::size_t size) {
  const auto& ranges = driver().ranges;
  auto range = ranges.upper_bound(address);
  if (range == ranges.begin() || address - std::prev(range)->first > std::prev(range)->second.size) return false;
  for (--range;;) {
    const std::uint64_t end = range->first + range->second.size;
    if (size <= end - address) return true;
    if (range->second.kind != Range::Kind::kMapped) return false;
    if (++range == ranges.end() || range->first != end || range->second.kind != Range::Kind::kMapped) return false;
  }
}

template <typename T>
void fill(char* to, unsigned value, std::size_t count) {
  const T element = static_cast<T>(value);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * sizeof element, &element, sizeof element);
}

enum class Side { kDevice, kHost, kEither };

std::optional<char*> end_of(Side side, CUdeviceptr address, std::size_t size) {
  if (side != Side::kHost) {
    const auto found = resolve(address, size);
    if (found || side == Side::kDevice) return found;
  }
  if (emulator::is_device_address(address) || address == 0) return std::nullopt;
  return reinterpret_cast<char*>(address);
}

CUresult copy(CUdeviceptr to, Side to_side, CUdeviceptr from, Side from_side, std::size_t size, CUstream handle,
              bool waits) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  emulator::DeviceStream* const stream = stream_of(context, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (size == 0) return CUDA_SUCCESS;
  const auto target = end_of(to_side, to, size), source = end_of(from_side, from, size);
  if (!target || !source) return CUDA_ERROR_INVALID_VALUE;
  const bool to_host = !emulator::is_device_address(to), from_host = !emulator::is_device_address(from);
  const char* const direction = copy_direction(to, to_host, from, from_host);
  std::shared_ptr<std::vector<char>> staged;
  if (from_host && !waits && !is_pinned(*source, size))
    staged = std::make_shared<std::vector<char>>(*source, *source + size);
  emulator::Device& device = *context->device;
  stream->push([&device, to_now = *target, from_now = *source, staged, size, direction] {
    const emulator::ActivityScope scope({.kind = emulator::Activity::Kind::kCopy, .bytes = size});
    copy_now(device, to_now, staged ? staged->data() : from_now, size, direction);
    spend_copy(device, size, direction);
  });
  if (!waits && (!to_host || is_pinned(*target, size))) return CUDA_SUCCESS;
  stream->synchronize();
  return state_code(device);
}

CUresult set(CUdeviceptr to, unsigned value, unsigned element_size, std::size_t count, CUstream handle, bool waits) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  emulator::DeviceStream* const stream = stream_of(context, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (count == 0) return CUDA_SUCCESS;
  const auto target = resolve(to, count * element_size);
  if (!target || to % element_size != 0) return CUDA_ERROR_INVALID_VALUE;
  emulator::Device& device = *context->device;
  stream->push([&device, to_now = *target, value, element_size, count] {
    const emulator::ActivityScope scope({.kind = emulator::Activity::Kind::kFill, .bytes = count * element_size});
    device.at(emulator::Site::kCopy, "fill", count * element_size);
    if (state_code(device) == CUDA_SUCCESS) fill_now(to_now, value, element_size, count);
    device.spend({.memory_bytes = count * element_size});
  });
  if (!waits) return CUDA_SUCCESS;
  stream->synchronize();
  return state_code(device);
}

CUresult pinned(void** address, std::size_t size) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const auto fault = fault_at(context, emulator::Site::kAlloc, "cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY))
    return *fault;
  void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(driver().mutex);
  driver().ranges[reinterpret_cast<std::uint64_t>(mapped)] = {size, Range::Kind::kPinned, 0};
  *address = mapped;
  return CUDA_SUCCESS;
}

}  // namespace

std::optional<char*> resolve(CUdeviceptr address, std::size_t size) {
  if (driver().memory->check(address, size)) return emulator::host_address(address);
  const std::lock_guard lock(driver().mutex);
  // The device's address of pinned memory is the host's with the tag.
  for (const CUdeviceptr known : {address, static_cast<CUdeviceptr>(address & ~EMU_TAG)}) {
    if (is_in_ranges(known, size)) return emulator::host_address(address);
  }
  return std::nullopt;
}

bool is_pinned(const void* address, std::size_t size) {
  const std::lock_guard lock(driver().mutex);
  return is_in_ranges(reinterpret_cast<std::uint64_t>(address), size);
}

void copy_now(emulator::Device& device, char* to, const char* from, std::size_t size, const char* direction) {
  const auto rule = device.at(emulator::Site::kCopy, direction, size);
  if (rule && rule->action == emulator::Action::kFail) device.fail(emulator::DeviceState::kTrap);
  if (device.state() == emulator::DeviceState::kGood) std::memmove(to, from, size);
}

const char* copy_direction(CUdeviceptr to, bool to_host, CUdeviceptr from, bool from_host) {
  if (to_host || from_host) return to_host ? "d2h" : "h2d";
  const auto target = driver().memory->check(to, 1), source = driver().memory->check(from, 1);
  return target && source && target->device != source->device ? "p2p" : "d2d";
}

void spend_copy(emulator::Device& device, std::size_t size, std::string_view direction) {
  emulator::Work work;
  (direction == "d2d" ? work.memory_bytes : work.link_bytes) = direction == "d2d" ? 2 * size : size;
  device.spend(work);
}

void fill_now(char* to, unsigned value, unsigned element_size, std::size_t count) {
  if (element_size == 1) return fill<unsigned char>(to, value, count);
  if (element_size == 2) return fill<unsigned short>(to, value, count);
  fill<unsigned>(to, value, count);
}

}  // namespace crucible::emulators::nvidia

using namespace crucible::emulators::nvidia;
using crucible::emulator::Site;

CUresult cuMemAlloc(CUdeviceptr* address, std::size_t size) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const auto fault = fault_at(context, Site::kAlloc, "cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY)) return *fault;
  auto& memory = *driver().memory;
  {
    const std::lock_guard lock(driver().mutex);
    if (memory.used(context->device->index()) + driver().created_bytes + size > memory.limit())
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const auto made = memory.allocate(context->device->index(), size);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = *made;
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (address == 0) return CUDA_SUCCESS;
  if (const auto fault = fault_at(context, Site::kFree, "cuMemFree", CUDA_ERROR_INVALID_VALUE)) return *fault;
  context->device->synchronize();  // what still uses it ends first, as with the real driver
  return driver().memory->free(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t size, CUstream handle) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (stream_of(context, handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return cuMemAlloc(address, size);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  auto* const stream = stream_of(context, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (free_into_pool(address, *stream)) return CUDA_SUCCESS;
  const auto found = driver().memory->check(address, 1);
  if (!found || found->address != address) return CUDA_ERROR_INVALID_VALUE;
  stream->push([address] { (void)driver().memory->free(address); });
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (const auto fault = fault_at(context, Site::kQuery, "cuMemGetInfo", CUDA_ERROR_UNKNOWN)) return *fault;
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto& memory = *driver().memory;
  const std::lock_guard lock(driver().mutex);
  *total = memory.limit();
  *free = memory.limit() - memory.used(context->device->index()) - driver().created_bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  const auto found = driver().memory->check(address, 1);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = found->address;
  if (size != nullptr) *size = found->size;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  if (const CUresult code = ready()) return code;
  const auto found = driver().memory->check(address, 1);
  const bool pinned_memory =
      !crucible::emulator::is_device_address(address) && is_pinned(reinterpret_cast<void*>(address), 1);
  if (data == nullptr || (!found && !pinned_memory)) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
    *static_cast<unsigned*>(data) = found ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    return CUDA_SUCCESS;
  }
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
    *static_cast<int*>(data) = found ? static_cast<int>(found->device) : 0;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemAllocHost(void** address, std::size_t size) { return pinned(address, size); }
CUresult cuMemHostAlloc(void** address, std::size_t size, unsigned) { return pinned(address, size); }

CUresult cuMemFreeHost(void* address) {
  if (const CUresult code = ready()) return code;
  const std::lock_guard lock(driver().mutex);
  const auto found = driver().ranges.find(reinterpret_cast<std::uint64_t>(address));
  if (found == driver().ranges.end() || found->second.kind != Range::Kind::kPinned) return CUDA_ERROR_INVALID_VALUE;
  munmap(address, found->second.size);
  driver().ranges.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void* address, std::size_t size, unsigned) {
  if (const CUresult code = ready()) return code;
  if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(driver().mutex);
  const bool added =
      driver()
          .ranges.try_emplace(reinterpret_cast<std::uint64_t>(address), Range{size, Range::Kind::kRegistered, 0})
          .second;
  return added ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void* address) {
  if (const CUresult code = ready()) return code;
  const std::lock_guard lock(driver().mutex);
  const auto found = driver().ranges.find(reinterpret_cast<std::uint64_t>(address));
  if (found == driver().ranges.end() || found->second.kind != Range::Kind::kRegistered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  driver().ranges.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device_address, void* address, unsigned) {
  if (const CUresult code = ready()) return code;
  if (device_address == nullptr || !is_pinned(address, 1)) return CUDA_ERROR_INVALID_VALUE;
  *device_address = reinterpret_cast<CUdeviceptr>(address) | EMU_TAG;
  return CUDA_SUCCESS;
}

static CUdeviceptr as_address(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t size) {
  return copy(to, Side::kDevice, as_address(from), Side::kHost, size, nullptr, true);
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t size) {
  return copy(as_address(to), Side::kHost, from, Side::kDevice, size, nullptr, true);
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, std::size_t size) {
  return copy(to, Side::kDevice, from, Side::kDevice, size, nullptr, true);
}
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t size) {
  return copy(to, Side::kEither, from, Side::kEither, size, nullptr, true);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t size, CUstream stream) {
  return copy(to, Side::kDevice, as_address(from), Side::kHost, size, stream, false);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t size, CUstream stream) {
  return copy(as_address(to), Side::kHost, from, Side::kDevice, size, stream, false);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  return copy(to, Side::kDevice, from, Side::kDevice, size, stream, false);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  return copy(to, Side::kEither, from, Side::kEither, size, stream, false);
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t count) {
  return set(to, value, 1, count, nullptr, true);
}
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, std::size_t count) {
  return set(to, value, 2, count, nullptr, true);
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, std::size_t count) {
  return set(to, value, 4, count, nullptr, true);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  return set(to, value, 1, count, stream, false);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream) {
  return set(to, value, 2, count, stream, false);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  return set(to, value, 4, count, stream, false);
}
