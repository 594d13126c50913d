// Memory table: addresses without memory. What is written is dropped, what is read is zeros; ranges are checked all the
// same, so that a host's mistakes are found here as anywhere.
#include "plugins/sdk/memory_table.hpp"

#include "backends/null/counts.hpp"
#include "backends/null/tables.hpp"

namespace crucible_null {
namespace {

using namespace crucible;

struct Nothing {};

}  // namespace
}  // namespace crucible_null

struct crucible_buffer : crucible::sdk::DeviceBuffer<crucible_device, crucible_null::Nothing> {};

namespace crucible_null {
namespace {

struct Memories {
  /// All buffers together stay far from the end of the numbers.
  static sdk::MemoryFacts facts(crucible_device&) { return {"null:0", std::uint64_t{1} << 46}; }
  static std::shared_ptr<Nothing> allocate(crucible_device&, std::uint64_t size, std::uint64_t) {
    counts().add(Count::kBuffersMade);
    counts().add(Count::kBytesAllocated, size);
    return std::make_shared<Nothing>();
  }
  static bool clear(crucible_device&, const sdk::Place&, std::uint64_t) { return true; }
  static void write(crucible_device&, const sdk::Place&, const void*, std::uint64_t size) {
    counts().add(Count::kWrites);
    counts().add(Count::kBytesWritten, size);
  }
  static void read(crucible_device&, const sdk::Place&, void* to, std::uint64_t size) {
    counts().add(Count::kReads);
    counts().add(Count::kBytesRead, size);
    std::memset(to, 0, size);
  }
  static void fill(crucible_device&, const sdk::Place&, std::uint64_t size, std::uint8_t) {
    counts().add(Count::kMemoryFills);
    counts().add(Count::kBytesFilled, size);
  }
  static void stats(crucible_device&, crucible_kv_sink sink, void* user) { counts().report(sink, user); }
};

}  // namespace

const crucible_if_memory kMemoryTable = sdk::make_memory_table<crucible_device, crucible_buffer, Memories>();

}  // namespace crucible_null
