// Memory table: buffers are private mappings, so they start as zeros, are page-aligned, and are given back at once.
// Large ones ask for 2 MiB pages and are touched here, so that the first iteration pays no page faults.
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "backends/cpu/device.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/tables.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct crucible_buffer {
  crucible_device* device = nullptr;
  void* mapping = nullptr;
  std::uint64_t mapping_bytes = 0;
  std::byte* data = nullptr;
  std::uint64_t size = 0;
};

namespace crucible_cpu {
namespace {

constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;
constexpr std::uint64_t kGuard = std::uint64_t{64} << 10;  // a page is as large as that at most
constexpr std::uint64_t kLargestAlignment = std::uint64_t{1} << 30;

[[noreturn]] void out_of_memory(std::uint64_t size, const char* reason) {
  struct sysinfo info = {};
  sysinfo(&info);
  throw Failure(CRUCIBLE_E_OUT_OF_MEMORY,
                "cannot have " + std::to_string(size) + " bytes (" + reason + "): the machine has " +
                    std::to_string(std::uint64_t{info.totalram} * info.mem_unit) + " bytes of memory, " +
                    std::to_string(std::uint64_t{info.freeram} * info.mem_unit) +
                    " free; use a smaller batch or close other programs");
}

/// More than memory and swap together can never be filled, even where the system would promise it.
bool is_absurd(std::uint64_t size) {
  struct sysinfo info = {};
  if (sysinfo(&info) != 0) return false;
  return size > (std::uint64_t{info.totalram} + info.totalswap) * info.mem_unit;
}

crucible_status alloc(crucible_device* device, std::uint64_t size, std::uint64_t align, crucible_buffer** out) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "memory.alloc: no device or no place for the buffer");
    require(std::has_single_bit(align) && align <= kLargestAlignment,
            "memory.alloc: the alignment must be a power of two up to 1 GiB");
    if (is_absurd(size)) out_of_memory(size, "more than the machine has");
    auto buffer = std::make_unique<crucible_buffer>();
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const bool large = size >= kHugePage;
    const std::uint64_t alignment = std::max(align, large ? kHugePage : page);
    const std::uint64_t slack = alignment > page ? alignment : 0;
    const std::uint64_t pages = (std::max(size, std::uint64_t{1}) + page - 1) / page * page;
    // What lies around the pages nobody may touch: a kernel that reaches beyond its buffer ends there, and not in
    // another one.
    buffer->mapping_bytes = kGuard + pages + slack + kGuard;
    buffer->mapping = mmap(nullptr, buffer->mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer->mapping == MAP_FAILED) out_of_memory(size, std::strerror(errno));
    const auto start = reinterpret_cast<std::uint64_t>(buffer->mapping) + kGuard;
    buffer->data = reinterpret_cast<std::byte*>((start + alignment - 1) / alignment * alignment);
    if (mprotect(buffer->data, pages, PROT_READ | PROT_WRITE) != 0) {
      const int reason = errno;
      munmap(buffer->mapping, buffer->mapping_bytes);
      out_of_memory(size, std::strerror(reason));
    }
    buffer->size = size;
    buffer->device = device;
    if (large) {
      // Both are wishes: a kernel that grants neither gives the same bytes, later and slower.
      madvise(buffer->data, size / page * page, MADV_HUGEPAGE);
      madvise(buffer->data, size / page * page, MADV_POPULATE_WRITE);
    }
    device->addresses.add(reinterpret_cast<std::uint64_t>(buffer->data), size);
    device->memory.add(size);
    *out = buffer.release();
  });
}

/// Memory of the host's needs no mapping: the device reaches all that the process does.
crucible_status adopt(crucible_device* device, void* memory, std::uint64_t size, crucible_buffer** out) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "memory.adopt: no device or no place for the buffer");
    require(memory != nullptr || size == 0, "memory.adopt: no memory");
    auto buffer = std::make_unique<crucible_buffer>();
    buffer->device = device;
    buffer->data = static_cast<std::byte*>(memory);
    buffer->size = size;
    device->addresses.add(reinterpret_cast<std::uint64_t>(memory), size);
    *out = buffer.release();
  });
}

crucible_status free_buffer(crucible_buffer* buffer) {
  return guard([&] {
    if (buffer == nullptr) return;
    buffer->device->addresses.remove(reinterpret_cast<std::uint64_t>(buffer->data), buffer->size);
    if (buffer->mapping == nullptr) return delete buffer;  // adopted: the host's, and not counted as the device's
    munmap(buffer->mapping, buffer->mapping_bytes);
    buffer->device->memory.remove(buffer->size);
    delete buffer;
  });
}

/// Errors: INVALID_ARGUMENT with both numbers when [offset, offset + size) is not inside the buffer.
void check_range(const crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size, const void* data) {
  require(buffer != nullptr, "memory: no buffer");
  require(data != nullptr || size == 0, "memory: no data");
  if (offset > buffer->size || size > buffer->size - offset) {
    throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "bytes " + std::to_string(offset) + " and " + std::to_string(size) +
                                                   " on are not inside a buffer of " + std::to_string(buffer->size));
  }
}

crucible_status write(crucible_buffer* buffer, std::uint64_t offset, const void* data, std::uint64_t size) {
  return guard([&] {
    check_range(buffer, offset, size, data);
    if (size != 0) std::memcpy(buffer->data + offset, data, size);
  });
}

crucible_status read(crucible_buffer* buffer, std::uint64_t offset, void* data, std::uint64_t size) {
  return guard([&] {
    check_range(buffer, offset, size, data);
    if (size != 0) std::memcpy(data, buffer->data + offset, size);
  });
}

crucible_status fill(crucible_buffer* buffer, std::uint64_t offset, std::uint64_t size, std::uint8_t byte) {
  return guard([&] {
    check_range(buffer, offset, size, buffer);
    std::memset(buffer->data + offset, byte, size);
  });
}

crucible_status address(crucible_buffer* buffer, std::uint64_t* out) {
  return guard([&] {
    require(buffer != nullptr && out != nullptr, "memory.address: no buffer or no place for the address");
    *out = reinterpret_cast<std::uint64_t>(buffer->data);
  });
}

crucible_status stats(crucible_device* device, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(device != nullptr && sink != nullptr, "memory.stats: no device or no function to report to");
    const crucible_kv items[] = {{{"live_bytes", 10}, CRUCIBLE_V_U64, 0, device->memory.live(), {nullptr, 0}},
                                 {{"peak_bytes", 10}, CRUCIBLE_V_U64, 0, device->memory.peak(), {nullptr, 0}}};
    sink(user, items, std::size(items));
  });
}

}  // namespace

const crucible_if_memory kMemoryTable = {
    sizeof(crucible_if_memory), CRUCIBLE_ABI_MINOR, alloc, free_buffer, write, read, fill, address, stats, adopt};

}  // namespace crucible_cpu
