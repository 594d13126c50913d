// Memory table: buffers by hipMalloc, copies and fills on the device's stream, done on return.
#include "backends/amd/memory.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>

#include "backends/amd/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

constexpr std::uint64_t kLargestAlignment = std::uint64_t{1} << 30;
constexpr std::uint64_t kOwnAlignment = 256;  // of whatever hipMalloc gives

[[noreturn]] void out_of_memory(crucible_device& device, std::uint64_t size) {
  std::size_t free = 0, total = device.facts.memory_bytes;
  (void)device.hip->hipMemGetInfo(&free, &total);  // an error leaves the total, and nothing free
  throw sdk::Failure(CRUCIBLE_E_OUT_OF_MEMORY,
                     "cannot have " + std::to_string(size) + " bytes on " + device.facts.id + ": " + std::to_string(free) + " of " +
                         std::to_string(total) + " are free, and this plugin has " +
                         std::to_string(device.ledger.of("buffer").live_bytes) +
                         "; use a smaller batch or a memory budget, or end other programs on the device",
                     {{"requested", std::to_string(size)}, {"available", std::to_string(free)}});
}

crucible_status alloc(crucible_device* device, std::uint64_t size, std::uint64_t align, crucible_buffer** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "memory.alloc: no device or no place for the buffer");
    sdk::require(std::has_single_bit(align) && align <= kLargestAlignment,
                 "memory.alloc: the alignment must be a power of two up to 1 GiB");
    const Current current(*device);
    if (size > device->facts.memory_bytes) out_of_memory(*device, size);
    const std::uint64_t extra = align > kOwnAlignment ? align : 0;
    auto buffer = std::make_unique<crucible_buffer>();
    buffer->device = device;
    buffer->memory = allocate(*device, size + extra);
    buffer->address = (reinterpret_cast<std::uint64_t>(buffer->memory.get()) + align - 1) / align * align;
    buffer->size = size;
    if (size != 0) {
      const Hip& hip = *device->hip;
      device->check(hip.hipMemsetAsync(at(buffer->address), 0, size, device->stream.get()), "memory.alloc: hipMemsetAsync");
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
    hipStream_t const stream = device.stream.get();
    device.check(device.hip->hipMemcpyAsync(at(buffer->address + offset), data, size, hipMemcpyHostToDevice, stream),
                 "memory.write: hipMemcpyAsync");
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
    hipStream_t const stream = device.stream.get();
    device.check(device.hip->hipMemcpyAsync(data, at(buffer->address + offset), size, hipMemcpyDeviceToHost, stream),
                 "memory.read: hipMemcpyAsync");
    device.synchronize(stream, "memory.read");
  });
}

crucible_status fill(crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
  return sdk::guard([&] {
    check_range(buffer, offset, size);
    if (size == 0) return;
    crucible_device& device = *buffer->device;
    const Current current(device);
    hipStream_t const stream = device.stream.get();
    device.check(device.hip->hipMemsetAsync(at(buffer->address + offset), byte, size, stream), "memory.fill: hipMemsetAsync");
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
  });
}

}  // namespace

DeviceMemory allocate(crucible_device& device, std::uint64_t size) {
  void* address = nullptr;
  const hipError_t code = sdk::ask_twice(
      device.facts.id, size, [&] { return device.hip->hipMalloc(&address, std::max<std::uint64_t>(size, 1)); },
      [](hipError_t answer) { return answer == hipErrorOutOfMemory; }, [&] { device.synchronize(device.stream.get(), "memory.alloc"); });
  if (code == hipErrorOutOfMemory) out_of_memory(device, size);
  device.check(code, "hipMalloc of " + std::to_string(size) + " bytes");
  return {*device.hip, address};
}

const crucible_if_memory kMemoryTable = {
    sizeof(crucible_if_memory), CRUCIBLE_ABI_MINOR, alloc, free_buffer, write, read, fill, address, stats};

}  // namespace crucible_amd
