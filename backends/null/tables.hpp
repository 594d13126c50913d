// The plugin's interface tables and its device; each table is defined in the file of its concept.
#pragma once

#include <atomic>

#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/ledger.hpp"

struct crucible_device {
  crucible::sdk::Ledger ledger;
  std::atomic<std::uint64_t> next_address{4096};  // addresses of memory that is not there; none is used twice
};

namespace crucible_null {

extern const crucible_if_device kDeviceTable;    // device.cpp
extern const crucible_if_memory kMemoryTable;    // memory.cpp
extern const crucible_if_compile kCompileTable;  // compile.cpp
extern const crucible_if_plan kPlanTable;        // plan.cpp

}  // namespace crucible_null
