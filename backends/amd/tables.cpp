// The interface tables that the SDK's skeleton of CUDA-like drivers makes, and where memory comes from: hipMalloc.
#include "backends/amd/tables.hpp"

#include <algorithm>

#include "backends/amd/memory.hpp"
#include "backends/amd/plan.hpp"
#include "plugins/sdk/library_table.hpp"

struct crucible_queue : crucible::sdk::GraphQueue<crucible_amd::GraphApi> {};
struct crucible_timeline : crucible::sdk::QueueTimeline {};

namespace crucible_amd {

using namespace crucible;

const crucible_if_memory kMemoryTable = sdk::make_graph_memory_table<GraphApi>();
const crucible_if_compile kCompileTable = sdk::make_graph_compile_table<GraphApi>();
const crucible_if_plan kPlanTable = sdk::make_graph_plan_table<GraphApi>();
const crucible_if_queue kQueueTable = sdk::make_graph_queue_table<GraphApi>();
const crucible_if_library kLibraryTable = sdk::make_library_table<crucible_device, Current>();

namespace {

[[noreturn]] void out_of_memory(crucible_device& device, std::uint64_t size) {
  std::size_t free = 0, total = device.facts.memory_bytes;
  (void)device.driver->hipMemGetInfo(&free, &total);  // an error leaves the total, and nothing free
  throw sdk::Failure(CRUCIBLE_E_OUT_OF_MEMORY,
                     "cannot have " + std::to_string(size) + " bytes on " + device.facts.id + ": " +
                         std::to_string(free) + " of " + std::to_string(total) + " are free, and this plugin has " +
                         std::to_string(device.ledger.of("buffer").live_bytes) +
                         "; use a smaller batch or a memory budget, or end other programs on the device",
                     {{"requested", std::to_string(size)}, {"available", std::to_string(free)}});
}

}  // namespace

DeviceMemory GraphApi::allocate(crucible_device& device, std::uint64_t size) {
  if (size > device.facts.memory_bytes) out_of_memory(device, size);
  void* address = nullptr;
  const hipError_t code = sdk::ask_twice(
      device.facts.id, size, [&] { return device.driver->hipMalloc(&address, std::max<std::uint64_t>(size, 1)); },
      [](hipError_t answer) { return answer == hipErrorOutOfMemory; },
      [&] { device.synchronize(device.stream.get(), "memory.alloc"); });
  if (code == hipErrorOutOfMemory) out_of_memory(device, size);
  device.check(code, "hipMalloc of " + std::to_string(size) + " bytes");
  return {*device.driver, address};
}

}  // namespace crucible_amd
