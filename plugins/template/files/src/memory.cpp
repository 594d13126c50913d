// (5) Memory of the device: the host's own, so the SDK has it all.
#include "device.hpp"

struct crucible_buffer : crucible::sdk::DeviceBuffer<crucible_device, crucible::sdk::HostMemory> {};

namespace acme {
namespace {

struct Memories : sdk::HostMemories {
  static sdk::MemoryFacts facts(crucible_device& device) { return {device.id, device.memory_bytes}; }
};

}  // namespace

void copy(crucible_device&, const sdk::ListedOp& op) { std::memcpy(op.pointer(0), op.pointer(1), op.size); }
void fill(crucible_device&, const sdk::ListedOp& op) { std::memset(op.pointer(0), op.pattern, op.size); }
std::vector<void*> arguments(const sdk::ListedOp& op) { return {op.pointers(), op.pointers() + op.addresses.size()}; }

const crucible_if_memory kMemoryTable = sdk::make_memory_table<crucible_device, crucible_buffer, Memories>();

}  // namespace acme
