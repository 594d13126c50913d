// The device, and what the files of this plugin know of each other.
#pragma once

#include <crucible/sdk/c_dialect.hpp>
#include <crucible/sdk/memory_table.hpp>
#include <crucible/sdk/options.hpp>
#include <crucible/sdk/plan_table.hpp>
#include <crucible/sdk/queue_table.hpp>

// One object per open(); buffers, modules and plans point to it. What your driver needs per device goes here.
// QueueOwner counts what was handed out: leaks are told when the device is closed.
struct crucible_device : crucible::sdk::QueueOwner {
  std::string id;
  std::uint64_t memory_bytes = 0;
  crucible::sdk::AddressMap addresses;  // of its buffers
  std::mutex run_mutex;                 // one plan runs at a time
};

namespace acme {

using namespace crucible;

const sdk::Options& options();                                     // plugin.cpp
void copy(crucible_device& device, const sdk::ListedOp& op);       // memory.cpp: a COPY, done on return
void fill(crucible_device& device, const sdk::ListedOp& op);       // memory.cpp: a FILL
std::vector<void*> arguments(const sdk::ListedOp& launch);         // memory.cpp: what a kernel gets for its buffers
const sdk::Dialect& dialect();                                     // dialect.cpp
sdk::KernelShape shape_of(const crucible_kernel& kernel);          // kernels.cpp
void launch(crucible_device& device, const sdk::ListedOp& op);     // kernels.cpp: a LAUNCH

extern const crucible_if_device kDeviceTable;
extern const crucible_if_memory kMemoryTable;
extern const crucible_if_compile kCompileTable;
extern const crucible_if_plan kPlanTable;
extern const crucible_if_queue kQueueTable;

}  // namespace acme
