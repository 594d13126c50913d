// Memory table: checks what the host asks and counts what is out. The device's own calls are in device_memory.cpp.
#include "memory.hpp"

#include <bit>
#include <crucible/sdk/error.hpp>
#include <crucible/sdk/text.hpp>
#include <memory>
#include <string>

#include "tables.hpp"

struct crucible_buffer {
  crucible_device* device = nullptr;
  char* data = nullptr;
  std::uint64_t size = 0, align = 0;
};

namespace acme {
namespace {

using namespace crucible;

constexpr std::uint64_t kLargestAlignment = std::uint64_t{1} << 30;

[[noreturn]] void out_of_memory(const crucible_device& device, std::uint64_t size) {
  const std::uint64_t live = device.ledger.of("buffer").live_bytes;
  const std::uint64_t left = device.memory_bytes > live ? device.memory_bytes - live : 0;
  throw sdk::Failure(CRUCIBLE_E_OUT_OF_MEMORY,
                     "cannot have " + std::to_string(size) + " bytes: the device has " +
                         std::to_string(device.memory_bytes) + " and " + std::to_string(live) +
                         " of them are in use; use a smaller batch",
                     {{"requested", std::to_string(size)}, {"available", std::to_string(left)}});
}

crucible_status alloc(crucible_device* device, std::uint64_t size, std::uint64_t align, crucible_buffer** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "memory.alloc: no device or no place for the buffer");
    sdk::require(std::has_single_bit(align) && align <= kLargestAlignment,
                 "memory.alloc: the alignment must be a power of two up to 1 GiB");
    if (size > device->memory_bytes) out_of_memory(*device, size);
    auto buffer = std::make_unique<crucible_buffer>();
    *buffer = {device, static_cast<char*>(device_alloc(*device, size, align)), size, align};
    if (buffer->data == nullptr) out_of_memory(*device, size);
    device->ledger.add("buffer", size);
    *out = buffer.release();
  });
}

crucible_status free_buffer(crucible_buffer* buffer) {
  return sdk::guard([&] {
    sdk::require(buffer != nullptr, "memory.free: no buffer");
    buffer->device->ledger.remove("buffer", buffer->size);
    device_free(*buffer->device, buffer->data, buffer->size, buffer->align);
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
    if (size != 0) device_write(*buffer->device, buffer->data + offset, data, size);
  });
}

crucible_status read(crucible_buffer* buffer, std::uint64_t offset, void* data, std::uint64_t size) {
  return sdk::guard([&] {
    check_range(buffer, offset, size);
    sdk::require(data != nullptr || size == 0, "memory.read: no place for the data");
    if (size != 0) device_read(*buffer->device, buffer->data + offset, data, size);
  });
}

crucible_status fill(crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
  return sdk::guard([&] {
    check_range(buffer, offset, size);
    if (size != 0) device_fill(*buffer->device, buffer->data + offset, size, byte);
  });
}

crucible_status address(crucible_buffer* buffer, std::uint64_t* out) {
  return sdk::guard([&] {
    sdk::require(buffer != nullptr && out != nullptr, "memory.address: no buffer or no place for the address");
    *out = reinterpret_cast<std::uint64_t>(buffer->data);
  });
}

crucible_status stats(crucible_device* device, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && sink != nullptr, "memory.stats: no device or no function to report to");
    device->ledger.stats("buffer", sink, user);
  });
}

}  // namespace

const crucible_if_memory kMemoryTable = {
    sizeof(crucible_if_memory), CRUCIBLE_ABI_MINOR, alloc, free_buffer, write, read, fill, address, stats};

}  // namespace acme
