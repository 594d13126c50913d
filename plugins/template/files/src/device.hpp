// The device: what everything else is made from. One object per open(); buffers, modules and plans point to it.
#pragma once

#include <crucible/sdk/ledger.hpp>
#include <crucible/sdk/options.hpp>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

struct crucible_device {
  std::string compiler;  // option, "" where not set
  std::uint64_t memory_bytes = 0;
  crucible::sdk::Ledger ledger;  // what was handed out: leaks are told when the device is closed
  std::mutex run_mutex;          // one plan runs at a time
  std::mutex queues_mutex;
  std::vector<crucible_queue*> queues;  // all that are open, for wait_idle
};

namespace acme {

const crucible::sdk::Options& options();  // plugin.cpp

/// False when a queue of the device still has work after that time. queue.cpp
bool wait_for_queues(crucible_device& device, std::uint64_t timeout_ns);

}  // namespace acme
