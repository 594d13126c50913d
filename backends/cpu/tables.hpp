// The plugin's interface tables; each is defined in the file of its concept.
#pragma once

#include "plugins/abi/crucible_plugin.h"

namespace crucible_cpu {

extern const crucible_if_device kDeviceTable;    // device.cpp
extern const crucible_if_memory kMemoryTable;    // memory.cpp
extern const crucible_if_compile kCompileTable;  // compile.cpp
extern const crucible_if_plan kPlanTable;        // plan.cpp
extern const crucible_if_library kLibraryTable;  // library_onednn.cpp
extern const crucible_if_queue kQueueTable;      // queue.cpp
extern const crucible_if_profile kProfileTable;  // health.cpp
extern const crucible_if_health kHealthTable;    // health.cpp

}  // namespace crucible_cpu
