// Queue table: the SDK's. Plans of one device never run at the same time (they share its team), so queues order work,
// they do not add cores.
#include "backends/cpu/plan.hpp"
#include "backends/cpu/tables.hpp"
#include "plugins/sdk/queue_table.hpp"

struct crucible_timeline : crucible::sdk::QueueTimeline {};
struct crucible_queue : crucible::sdk::DeviceQueue<crucible_device> {};

namespace crucible_cpu {

const crucible_if_queue kQueueTable = crucible::sdk::make_queue_table<
    crucible::sdk::HostQueues<crucible_device, crucible_queue, crucible_timeline, crucible_plan, run_plan>>();

}  // namespace crucible_cpu
