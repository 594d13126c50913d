// Memory table: buffers, copies and fills on the device's stream, done on return.
#include "backends/nvidia/memory.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>

#include "backends/nvidia/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr std::uint64_t kLargestAlignment = std::uint64_t{1} << 30;
constexpr std::uint64_t kOwnAlignment = 256;  // of whatever the allocator gives

crucible_status alloc(crucible_device* device, std::uint64_t size, std::uint64_t align, crucible_buffer** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "memory.alloc: no device or no place for the buffer");
    sdk::require(std::has_single_bit(align) && align <= kLargestAlignment,
                 "memory.alloc: the alignment must be a power of two up to 1 GiB");
    const Current current(*device);
    // A size that no device has is refused as it is: a sum of it and more might be small.
    const std::uint64_t extra = align > kOwnAlignment && size <= device->facts.memory_bytes ? align : 0;
    auto buffer = std::make_unique<crucible_buffer>();
    buffer->device = device;
    buffer->memory = allocate(*device, size + extra);
    buffer->address = (buffer->memory.get() + align - 1) / align * align;
    buffer->size = size;
    if (size != 0) {
      const Cuda& cuda = *device->cuda;
      device->check(cuda.cuMemsetD8Async(buffer->address, 0, size, device->stream.get()), "memory.alloc: cuMemsetD8Async");
      device->synchronize(device->stream.get(), "memory.alloc");
    }
    device->addresses.add(buffer->address, size);
    device->ledger.add("buffer", size);
    *out = buffer.release();
  });
}

crucible_status free_buffer(crucible_buffer* buffer) {
  return sdk::guard([&] {
    sdk::require(buffer != nullptr, "memory.free: no buffer");
    crucible_device& device = *buffer->device;
    const Current current(device, Current::EvenIfLost{});
    device.ledger.remove("buffer", buffer->size);
    device.addresses.remove(buffer->address, buffer->size);
    if (device.watchdog.is_suspect()) return sdk::abandon(buffer);
    delete buffer;
  });
}

void check_range(const crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size) {
  sdk::require(buffer != nullptr, "memory: no buffer");
  if (offset <= buffer->size && size <= buffer->size - offset) return;
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "bytes " + std::to_string(offset) + " and " + std::to_string(size) +
                                                      " on are not inside a buffer of " + std::to_string(buffer->size));
}

crucible_status write(crucible_buffer* buffer, std::uint64_t offset, const void* data, std::uint64_t size) {
  return sdk::guard([&] {
    check_range(buffer, offset, size);
    sdk::require(data != nullptr || size == 0, "memory.write: no data");
    if (size == 0) return;
    crucible_device& device = *buffer->device;
    const Current current(device);
    CUstream const stream = device.stream.get();
    device.check(device.cuda->cuMemcpyHtoDAsync(buffer->address + offset, data, size, stream), "memory.write: cuMemcpyHtoDAsync");
    device.synchronize(stream, "memory.write");
  });
}

crucible_status read(crucible_buffer* buffer, std::uint64_t offset, void* data, std::uint64_t size) {
  return sdk::guard([&] {
    check_range(buffer, offset, size);
    sdk::require(data != nullptr || size == 0, "memory.read: no place for the data");
    if (size == 0) return;
    crucible_device& device = *buffer->device;
    const Current current(device);
    CUstream const stream = device.stream.get();
    device.check(device.cuda->cuMemcpyDtoHAsync(data, buffer->address + offset, size, stream), "memory.read: cuMemcpyDtoHAsync");
    device.synchronize(stream, "memory.read");
  });
}

crucible_status fill(crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
  return sdk::guard([&] {
    check_range(buffer, offset, size);
    if (size == 0) return;
    crucible_device& device = *buffer->device;
    const Current current(device);
    CUstream const stream = device.stream.get();
    device.check(device.cuda->cuMemsetD8Async(buffer->address + offset, byte, size, stream), "memory.fill: cuMemsetD8Async");
    device.synchronize(stream, "memory.fill");
  });
}

crucible_status address(crucible_buffer* buffer, std::uint64_t* out) {
  return sdk::guard([&] {
    sdk::require(buffer != nullptr && out != nullptr, "memory.address: no buffer or no place for the address");
    *out = buffer->address;
  });
}

crucible_status stats(crucible_device* device, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && sink != nullptr, "memory.stats: no device or no function to report to");
    device->ledger.stats("buffer", sink, user);
    const Current current(*device, Current::EvenIfLost{});
    sdk::report(sink, user,
                {sdk::number_item("mapped_bytes", device->allocator->mapped_bytes()),
                 sdk::number_item("kept_bytes", device->allocator->kept_bytes())});
  });
}

}  // namespace

DeviceMemory allocate(crucible_device& device, std::uint64_t size) {
  return {*device.allocator, device.allocator->allocate(size)};
}

const crucible_if_memory kMemoryTable = {
    sizeof(crucible_if_memory), CRUCIBLE_ABI_MINOR, alloc, free_buffer, write, read, fill, address, stats};

}  // namespace crucible_nvidia
