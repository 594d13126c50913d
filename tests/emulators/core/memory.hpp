// The memory of emulated devices. An address is the host's with EMU_TAG: a host that follows it faults. Round each
// allocation lie pages that nobody may touch, so a wild access of a kernel faults too; freed ranges stay that way for a
// while. Fresh memory is filled with 0xCD, so that what nobody wrote shows.
#pragma once

#include <cstdint>
#include <deque>
#include <expected>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "tests/emulators/core/kernel_abi.h"

namespace crucible::emulator {

enum class MemoryError {
  kOutOfMemory,    // the device's limit, or the machine has no more
  kNotAllocated,   // no allocation holds the address
  kAlreadyFreed,   // it was one, and not long ago
  kInside,         // free: inside an allocation, not its first byte
  kOutOfRange,     // begins in an allocation and ends behind it
};

struct Allocation {
  std::uint64_t address = 0;  // with the tag
  std::uint64_t size = 0;     // as asked for
  unsigned device = 0;
};

/// Beside the tag, or in its place: an address that no kernel can follow, whatever it does with the tag.
inline constexpr std::uint64_t kUnreachable = 1ull << 61;

inline bool is_device_address(std::uint64_t address) { return (address & EMU_TAG) != 0; }
inline char* host_address(std::uint64_t address) { return reinterpret_cast<char*>(address & ~EMU_TAG); }

/// All devices of one process. Threads: any.
class Memory {
 public:
  /// Units: `limit` in bytes, of each device.
  Memory(unsigned devices, std::uint64_t limit, bool guard_at_end);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  /// An address aligned to at least 256. `size` 0 takes one byte.
  std::expected<std::uint64_t, MemoryError> allocate(unsigned device, std::uint64_t size);
  /// Notes in the log when bytes between the allocation's end and its guard page were written.
  std::expected<void, MemoryError> free(std::uint64_t address);
  /// The allocation that holds [address, address + size). Errors: NotAllocated, AlreadyFreed, OutOfRange.
  std::expected<Allocation, MemoryError> check(std::uint64_t address, std::uint64_t size) const;
  /// Gives back everything of a device.
  void free_all(unsigned device);

  std::uint64_t used(unsigned device) const;
  std::uint64_t limit() const { return limit_; }

 private:
  struct Region {
    Allocation allocation;
    char* pages = nullptr;  // with both guards
    std::uint64_t page_bytes = 0;
  };
  struct Freed {
    char* pages = nullptr;
    std::uint64_t page_bytes = 0;
    Allocation allocation;
  };
  const Region* holding(std::uint64_t address) const;
  bool was_freed(std::uint64_t address) const;
  void release(const Region& region);
  void forget_oldest();

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Region> regions_;  // by address
  std::deque<Freed> freed_;
  std::vector<std::uint64_t> used_;
  std::uint64_t limit_;
  bool guard_at_end_;
};

/// True when the address without its tag lies where some Memory of the process has or had an allocation, a page more on
/// both sides. For the handler of faults: it takes no lock. Threads: any, and signal handlers.
bool near_device_memory(std::uint64_t host_address);

}  // namespace crucible::emulator
