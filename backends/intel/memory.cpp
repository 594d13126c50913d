// Memory table: see memory.hpp. Copies go through an immediate list that is done when the call returns.
#include "backends/intel/memory.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>

#include "backends/intel/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_intel {

using namespace crucible;

namespace {

constexpr std::uint64_t kLargestAlignment = std::uint64_t{1} << 30;
constexpr std::uint64_t kDriversAlignment = std::uint64_t{1} << 16;  // no driver is asked for a larger one

[[noreturn]] void out_of_memory(const crucible_device& device, std::uint64_t size) {
  const DeviceFacts& facts = device.facts;
  const std::uint64_t live = device.ledger.of("buffer").live_bytes;
  const std::uint64_t left = facts.memory_bytes > live ? facts.memory_bytes - live : 0;
  throw sdk::Failure(CRUCIBLE_E_OUT_OF_MEMORY,
                     "cannot have " + std::to_string(size) + " bytes on " + facts.id + ": it has " + std::to_string(facts.memory_bytes) +
                         ", gives at most " + std::to_string(facts.largest_buffer_bytes) + " in one piece, and " + std::to_string(live) +
                         " are in use; use a smaller batch or a memory budget",
                     {{"requested", std::to_string(size)}, {"available", std::to_string(std::min(left, facts.largest_buffer_bytes))}});
}

void fill_now(crucible_device& device, void* to, std::uint8_t byte, std::uint64_t size, const char* what) {
  device.watchdog.require_alive();
  const std::lock_guard lock(device.run_mutex);
  check(device.ze->zeCommandListAppendMemoryFill(device.now.get(), to, &byte, 1, size, nullptr, 0, nullptr), what);
}

crucible_status alloc(crucible_device* device, std::uint64_t size, std::uint64_t align, crucible_buffer** out) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out != nullptr, "memory.alloc: no device or no place for the buffer");
    auto buffer = std::make_unique<crucible_buffer>();
    buffer->device = device;
    buffer->allocation = allocate(*device, size, align);
    buffer->size = size;
    const std::uint64_t start = reinterpret_cast<std::uint64_t>(buffer->allocation->memory);
    buffer->address = (start + align - 1) / align * align;
    if (size != 0) fill_now(*device, reinterpret_cast<void*>(buffer->address), 0, size, "memory.alloc: zeCommandListAppendMemoryFill");
    const std::lock_guard lock(device->buffers_mutex);
    device->buffers.emplace(buffer->address, buffer.get());
    device->ledger.add("buffer", size);
    *out = buffer.release();
  });
}

crucible_status free_buffer(crucible_buffer* buffer) {
  return sdk::guard([&] {
    sdk::require(buffer != nullptr, "memory.free: no buffer");
    crucible_device& device = *buffer->device;
    const std::lock_guard lock(device.buffers_mutex);
    device.ledger.remove("buffer", buffer->size);
    device.buffers.erase(buffer->address);
    if (device.watchdog.is_suspect()) return sdk::abandon(buffer);
    delete buffer;
  });
}

/// The pointer at that offset.
void* checked(const crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size) {
  sdk::require(buffer != nullptr, "memory: no buffer");
  if (offset <= buffer->size && size <= buffer->size - offset) return reinterpret_cast<void*>(buffer->address + offset);
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "bytes " + std::to_string(offset) + " and " + std::to_string(size) +
                                                      " on are not inside a buffer of " + std::to_string(buffer->size));
}

crucible_status write(crucible_buffer* buffer, std::uint64_t offset, const void* data, std::uint64_t size) {
  return sdk::guard([&] {
    void* const to = checked(buffer, offset, size);
    sdk::require(data != nullptr || size == 0, "memory.write: no data");
    if (size != 0) copy_now(*buffer->device, to, data, size, "memory.write: zeCommandListAppendMemoryCopy");
  });
}

crucible_status read(crucible_buffer* buffer, std::uint64_t offset, void* data, std::uint64_t size) {
  return sdk::guard([&] {
    const void* const from = checked(buffer, offset, size);
    sdk::require(data != nullptr || size == 0, "memory.read: no place for the data");
    if (size != 0) copy_now(*buffer->device, data, from, size, "memory.read: zeCommandListAppendMemoryCopy");
  });
}

crucible_status fill(crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
  return sdk::guard([&] {
    void* const to = checked(buffer, offset, size);
    if (size == 0) return;
    fill_now(*buffer->device, to, byte, size, "memory.fill: zeCommandListAppendMemoryFill");
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

std::shared_ptr<Allocation> allocate(crucible_device& device, std::uint64_t size, std::uint64_t alignment) {
  sdk::require(std::has_single_bit(alignment) && alignment <= kLargestAlignment, "memory.alloc: the alignment must be a power of two up to 1 GiB");
  device.watchdog.require_alive();
  const DeviceFacts& facts = device.facts;
  const std::uint64_t live = device.ledger.of("buffer").live_bytes;
  if (size > facts.largest_buffer_bytes || size > facts.memory_bytes || live > facts.memory_bytes - size) out_of_memory(device, size);
  const auto is_full = [](ze::Result code) {
    return code == ze::Result::kOutOfDeviceMemory || code == ze::Result::kOutOfHostMemory || code == ze::Result::kUnsupportedSize;
  };
  const auto ask = [&](std::uint64_t bytes) {
    void* memory = nullptr;
    const ze::DeviceMemoryDesc description;
    const ze::Result code = sdk::ask_twice(
        facts.id, size,
        [&] { return device.ze->zeMemAllocDevice(device.context.get(), &description, bytes, std::min(alignment, kDriversAlignment), facts.device, &memory); },
        is_full,
        [&] {
          const std::lock_guard lock(device.run_mutex);
          finish(device, "memory.alloc");
        });
    if (is_full(code)) out_of_memory(device, size);
    check(code, "memory.alloc of " + std::to_string(size) + " bytes: zeMemAllocDevice");
    return std::make_shared<Allocation>(*device.ze, device.context.get(), memory);
  };
  const std::uint64_t bytes = std::max<std::uint64_t>(size, 1);
  std::shared_ptr<Allocation> allocation = ask(bytes);
  // An alignment that the driver does not give is made here.
  if (reinterpret_cast<std::uint64_t>(allocation->memory) % alignment != 0) {
    allocation.reset();
    allocation = ask(bytes + alignment);
  }
  return allocation;
}

void copy_now(crucible_device& device, void* to, const void* from, std::uint64_t size, const char* what) {
  device.watchdog.require_alive();
  const std::lock_guard lock(device.run_mutex);
  check(device.ze->zeCommandListAppendMemoryCopy(device.now.get(), to, from, size, nullptr, 0, nullptr), what);
}

void finish(crucible_device& device, std::string_view what) {
  const std::uint64_t limit = device.watchdog.is_on() ? device.watchdog.limit_ns() : UINT64_MAX;
  const ze::Result code = device.ze->zeCommandQueueSynchronize(device.queue.get(), limit);
  if (code == ze::Result::kNotReady) device.watchdog.give_up(what);
  check(code, std::string(what) + ": zeCommandQueueSynchronize");
}

Place find_place(crucible_device& device, std::uint64_t address) {
  const std::lock_guard lock(device.buffers_mutex);
  const auto after = device.buffers.upper_bound(address);
  if (after != device.buffers.begin()) {
    const crucible_buffer& buffer = *std::prev(after)->second;
    const std::uint64_t offset = address - buffer.address;
    if (offset <= buffer.size) return {buffer.allocation, address, buffer.size - offset};
  }
  throw sdk::Failure(CRUCIBLE_E_INVALID_ARGUMENT, "the address " + std::to_string(address) + " is in none of the " +
                                                      std::to_string(device.buffers.size()) + " buffers of " + device.facts.id);
}

const crucible_if_memory kMemoryTable = {sizeof(crucible_if_memory), CRUCIBLE_ABI_MINOR, alloc, free_buffer, write, read, fill, address, stats};

}  // namespace crucible_intel
