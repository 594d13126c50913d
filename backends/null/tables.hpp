// The plugin's interface tables and its device; each table is defined in the file of its concept.
#pragma once

#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/address_map.hpp"
#include "plugins/sdk/ledger.hpp"

struct crucible_device {
  crucible::sdk::Ledger ledger;
  crucible::sdk::AddressMap addresses;  // of memory that is not there
};

namespace crucible_null {

extern const crucible_if_device kDeviceTable;    // device.cpp
extern const crucible_if_memory kMemoryTable;    // memory.cpp
extern const crucible_if_compile kCompileTable;  // compile.cpp
extern const crucible_if_plan kPlanTable;        // plan.cpp

}  // namespace crucible_null
