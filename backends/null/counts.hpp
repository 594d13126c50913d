// What the null plugin counts: every call of every entry, and what would have been done.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "plugins/abi/crucible_plugin.h"

namespace crucible_null {

enum class Count : std::uint8_t {
  kDevicesOpened,
  kBuffersMade,
  kBytesAllocated,
  kWrites,
  kBytesWritten,
  kReads,
  kBytesRead,
  kMemoryFills,
  kBytesFilled,
  kCompilations,
  kKernelsCompiled,
  kIrBytes,
  kPlansBuilt,
  kOpsBuilt,
  kSlotsSet,
  kReplays,
  kLaunches,
  kWorkItems,
  kCopies,
  kBytesCopied,
  kFills,
  kBytesPatterned,
};
inline constexpr std::size_t kCounts = static_cast<std::size_t>(Count::kBytesPatterned) + 1;

/// Since init. Threads: any.
class Counts {
 public:
  void add(Count count, std::uint64_t amount = 1) {
    values_[static_cast<std::size_t>(count)].fetch_add(amount, std::memory_order_relaxed);
  }
  std::uint64_t of(Count count) const {
    return values_[static_cast<std::size_t>(count)].load(std::memory_order_relaxed);
  }
  void reset();
  /// One item per count that is not zero, in their order, in one call of the sink.
  void report(crucible_kv_sink sink, void* user) const;

 private:
  std::array<std::atomic<std::uint64_t>, kCounts> values_{};
};

/// "launches"; the key under which a count is reported.
std::string_view name(Count count);

Counts& counts();

}  // namespace crucible_null
