// The plugin's interface tables; each is defined in the file of its concept.
#pragma once

#include <crucible/crucible_plugin.h>

namespace acme {

extern const crucible_if_device kDeviceTable;    // device.cpp
extern const crucible_if_memory kMemoryTable;    // memory.cpp
extern const crucible_if_compile kCompileTable;  // compile.cpp
extern const crucible_if_plan kPlanTable;        // plan.cpp
extern const crucible_if_queue kQueueTable;      // queue.cpp

}  // namespace acme
