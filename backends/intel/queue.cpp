// Queue table: a thread of the host per queue, which replays plans in the order of their submission. Level Zero has no
// object that waits for a number which the host signals later: its events are two-valued and are reset by hand.
#include "backends/intel/plan.hpp"
#include "backends/intel/tables.hpp"
#include "plugins/sdk/queue_table.hpp"

struct crucible_timeline : crucible::sdk::QueueTimeline {};
struct crucible_queue : crucible::sdk::DeviceQueue<crucible_device> {};

namespace crucible_intel {

const crucible_if_queue kQueueTable = crucible::sdk::make_queue_table<
    crucible::sdk::HostQueues<crucible_device, crucible_queue, crucible_timeline, crucible_plan, run_plan>>();

}  // namespace crucible_intel
