// Memory table: host memory, given out as zeros.
#include "plugins/sdk/memory_table.hpp"

#include "backends/torch/tables.hpp"

struct crucible_buffer : crucible::sdk::DeviceBuffer<crucible_device, crucible::sdk::HostMemory> {};

namespace crucible_torch {
namespace {

struct Memories : crucible::sdk::HostMemories {
  static crucible::sdk::MemoryFacts facts(crucible_device&) { return {"torch:0", std::uint64_t{1} << 46}; }
};

}  // namespace

const crucible_if_memory kMemoryTable = crucible::sdk::make_memory_table<crucible_device, crucible_buffer, Memories>();

}  // namespace crucible_torch
