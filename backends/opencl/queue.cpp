// Queue table: a thread of the host per queue, which replays plans in the order of their submission. OpenCL's own
// queues cannot wait for a number that the host signals later, and events of theirs are used up once.
#include "backends/opencl/plan.hpp"
#include "backends/opencl/tables.hpp"
#include "plugins/sdk/queue_table.hpp"

struct crucible_timeline : crucible::sdk::QueueTimeline {};
struct crucible_queue : crucible::sdk::DeviceQueue<crucible_device> {};

namespace crucible_opencl {

const crucible_if_queue kQueueTable = crucible::sdk::make_queue_table<
    crucible::sdk::HostQueues<crucible_device, crucible_queue, crucible_timeline, crucible_plan, run_plan>>();

}  // namespace crucible_opencl
