// Counting: see counts.hpp.
#include "backends/null/counts.hpp"

#include <vector>

#include "plugins/sdk/text.hpp"

namespace crucible_null {

std::string_view name(Count count) {
  switch (count) {
    case Count::kDevicesOpened:
      return "devices_opened";
    case Count::kBuffersMade:
      return "buffers_made";
    case Count::kBytesAllocated:
      return "bytes_allocated";
    case Count::kWrites:
      return "writes";
    case Count::kBytesWritten:
      return "bytes_written";
    case Count::kReads:
      return "reads";
    case Count::kBytesRead:
      return "bytes_read";
    case Count::kMemoryFills:
      return "memory_fills";
    case Count::kBytesFilled:
      return "bytes_filled";
    case Count::kCompilations:
      return "compilations";
    case Count::kKernelsCompiled:
      return "kernels_compiled";
    case Count::kIrBytes:
      return "ir_bytes";
    case Count::kPlansBuilt:
      return "plans_built";
    case Count::kOpsBuilt:
      return "ops_built";
    case Count::kSlotsSet:
      return "slots_set";
    case Count::kReplays:
      return "replays";
    case Count::kLaunches:
      return "launches";
    case Count::kWorkItems:
      return "work_items";
    case Count::kCopies:
      return "copies";
    case Count::kBytesCopied:
      return "bytes_copied";
    case Count::kFills:
      return "fills";
    case Count::kBytesPatterned:
      return "bytes_patterned";
  }
  return "";
}

void Counts::reset() {
  for (auto& value : values_) value.store(0, std::memory_order_relaxed);
}

void Counts::report(crucible_kv_sink sink, void* user) const {
  std::vector<crucible_kv> items;
  for (std::size_t i = 0; i < kCounts; ++i) {
    const auto count = static_cast<Count>(i);
    if (of(count) != 0) items.push_back(crucible::sdk::number_item(name(count), of(count)));
  }
  sink(user, items.data(), static_cast<std::uint32_t>(items.size()));
}

Counts& counts() {
  static Counts all;
  return all;
}

}  // namespace crucible_null
