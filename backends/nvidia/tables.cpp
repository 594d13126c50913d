// The interface tables that the SDK's skeleton of CUDA-like drivers makes.
#include "backends/nvidia/tables.hpp"

#include "backends/nvidia/memory.hpp"
#include "backends/nvidia/plan.hpp"
#include "plugins/sdk/library_table.hpp"

struct crucible_queue : crucible::sdk::GraphQueue<crucible_nvidia::GraphApi> {};
struct crucible_timeline : crucible::sdk::QueueTimeline {};

namespace crucible_nvidia {

using namespace crucible;

const crucible_if_memory kMemoryTable = sdk::make_graph_memory_table<GraphApi>();
const crucible_if_compile kCompileTable = sdk::make_graph_compile_table<GraphApi>();
const crucible_if_plan kPlanTable = sdk::make_graph_plan_table<GraphApi>();
const crucible_if_queue kQueueTable = sdk::make_graph_queue_table<GraphApi>();
const crucible_if_library kLibraryTable = sdk::make_library_table<crucible_device, Current>();

DeviceMemory GraphApi::allocate(crucible_device& device, std::uint64_t size) {
  return {*device.allocator, device.allocator->allocate(size)};
}

}  // namespace crucible_nvidia
