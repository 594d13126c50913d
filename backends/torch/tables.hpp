// The plugin's interface tables and its device; each table is defined in the file of its concept.
#pragma once

#include <string_view>

#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/address_map.hpp"
#include "plugins/sdk/options.hpp"
#include "plugins/sdk/queue_table.hpp"

struct crucible_device : crucible::sdk::QueueOwner {
  crucible::sdk::AddressMap addresses;
};

namespace crucible_torch {

extern const crucible::sdk::Options kOptions;    // plugin.cpp
extern const crucible_if_device kDeviceTable;    // device.cpp
extern const crucible_if_memory kMemoryTable;    // memory.cpp
extern const crucible_if_compile kCompileTable;  // compile.cpp
extern const crucible_if_plan kPlanTable;        // plan.cpp
extern const crucible_if_queue kQueueTable;      // plan.cpp

}  // namespace crucible_torch
