// Memory table: host memory from the allocator, given out as zeros.
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "backends/torch/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

struct crucible_buffer {
  crucible_device* device = nullptr;
  std::byte* data = nullptr;
  std::uint64_t size = 0;
};

namespace crucible_torch {
namespace {

using namespace crucible;

crucible_status alloc(crucible_device* device, std::uint64_t size, std::uint64_t align, crucible_buffer** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "memory.alloc: no device or no place for the buffer");
    sdk::require(std::has_single_bit(align) && align <= (std::uint64_t{1} << 30),
                 "memory.alloc: the alignment must be a power of two up to 1 GiB");
    auto buffer = std::make_unique<crucible_buffer>();
    const std::uint64_t step = align < 64 ? 64 : align;
    const bool absurd = size > (std::uint64_t{1} << 46);
    void* memory = absurd ? nullptr : std::aligned_alloc(step, (size + step) / step * step);
    if (memory == nullptr) {
      throw sdk::Failure(CRUCIBLE_E_OUT_OF_MEMORY, "cannot have " + std::to_string(size) + " bytes of memory",
                         {{"requested", std::to_string(size)}});
    }
    std::memset(memory, 0, size);
    *buffer = {device, static_cast<std::byte*>(memory), size};
    device->ledger.add("buffer", size);
    *out = buffer.release();
  });
}

crucible_status free_buffer(crucible_buffer* buffer) {
  return sdk::guard([&] {
    sdk::require(buffer != nullptr, "memory.free: no buffer");
    buffer->device->ledger.remove("buffer", buffer->size);
    std::free(buffer->data);
    delete buffer;
  });
}

void check_range(const crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size, const void* data) {
  sdk::require(buffer != nullptr, "memory: no buffer");
  sdk::require(data != nullptr || size == 0, "memory: no data");
  if (offset <= buffer->size && size <= buffer->size - offset) return;
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "bytes " + std::to_string(offset) + " and " + std::to_string(size) +
                                                      " on are not inside a buffer of " + std::to_string(buffer->size));
}

crucible_status write(crucible_buffer* buffer, std::uint64_t offset, const void* data, std::uint64_t size) {
  return sdk::guard([&] {
    check_range(buffer, offset, size, data);
    if (size != 0) std::memcpy(buffer->data + offset, data, size);
  });
}

crucible_status read(crucible_buffer* buffer, std::uint64_t offset, void* data, std::uint64_t size) {
  return sdk::guard([&] {
    check_range(buffer, offset, size, data);
    if (size != 0) std::memcpy(data, buffer->data + offset, size);
  });
}

crucible_status fill(crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
  return sdk::guard([&] {
    check_range(buffer, offset, size, buffer);
    std::memset(buffer->data + offset, byte, size);
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

}  // namespace crucible_torch
