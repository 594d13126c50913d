// Memory table: addresses without memory. What is written is dropped, what is read is zeros; ranges are checked all the
// same, so that a host's mistakes are found here as anywhere.
#include <bit>
#include <cstring>
#include <memory>
#include <string>

#include "backends/null/counts.hpp"
#include "backends/null/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

struct crucible_buffer {
  crucible_device* device = nullptr;
  std::uint64_t address = 0, size = 0;
};

namespace crucible_null {
namespace {

using namespace crucible;

constexpr std::uint64_t kMost = std::uint64_t{1} << 46;  // all buffers together stay far from the end of the numbers

crucible_status alloc(crucible_device* device, std::uint64_t size, std::uint64_t align, crucible_buffer** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "memory.alloc: no device or no place for the buffer");
    sdk::require(std::has_single_bit(align) && align <= (std::uint64_t{1} << 30),
                 "memory.alloc: the alignment must be a power of two up to 1 GiB");
    if (size > kMost) {
      throw sdk::Failure(CRUCIBLE_E_OUT_OF_MEMORY,
                         "cannot count " + std::to_string(size) + " bytes, at most " + std::to_string(kMost),
                         {{"requested", std::to_string(size)}, {"available", std::to_string(kMost)}});
    }
    auto buffer = std::make_unique<crucible_buffer>();
    const std::uint64_t start = device->next_address.fetch_add(size + align);
    *buffer = {device, (start + align - 1) / align * align, size};
    device->ledger.add("buffer", size);
    counts().add(Count::kBuffersMade);
    counts().add(Count::kBytesAllocated, size);
    *out = buffer.release();
  });
}

crucible_status free_buffer(crucible_buffer* buffer) {
  return sdk::guard([&] {
    sdk::require(buffer != nullptr, "memory.free: no buffer");
    buffer->device->ledger.remove("buffer", buffer->size);
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
    counts().add(Count::kWrites);
    counts().add(Count::kBytesWritten, size);
  });
}

crucible_status read(crucible_buffer* buffer, std::uint64_t offset, void* data, std::uint64_t size) {
  return sdk::guard([&] {
    check_range(buffer, offset, size, data);
    counts().add(Count::kReads);
    counts().add(Count::kBytesRead, size);
    if (size != 0) std::memset(data, 0, size);
  });
}

crucible_status fill(crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t) {
  return sdk::guard([&] {
    check_range(buffer, offset, size, buffer);
    counts().add(Count::kMemoryFills);
    counts().add(Count::kBytesFilled, size);
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
    counts().report(sink, user);
  });
}

}  // namespace

const crucible_if_memory kMemoryTable = {
    sizeof(crucible_if_memory), CRUCIBLE_ABI_MINOR, alloc, free_buffer, write, read, fill, address, stats};

}  // namespace crucible_null
