// The device: what everything else is made from. One object per open(); buffers, modules and plans point to it.
#pragma once

#include <crucible/sdk/options.hpp>
#include <crucible/sdk/queue_table.hpp>
#include <cstdint>
#include <mutex>
#include <string>

// The owner of its queues has a ledger of what was handed out, too: leaks are told when the device is closed.
struct crucible_device : crucible::sdk::QueueOwner {
  std::string compiler;  // option, "" where not set
  std::uint64_t memory_bytes = 0;
  std::mutex run_mutex;  // one plan runs at a time
};

namespace acme {

const crucible::sdk::Options& options();  // plugin.cpp

}  // namespace acme
