// The plugin's interface tables; each is defined in the file of its concept.
#pragma once

#include "plugins/abi/crucible_plugin.h"

namespace crucible_amd {

extern const crucible_if_device kDeviceTable;
extern const crucible_if_memory kMemoryTable;
extern const crucible_if_compile kCompileTable;
extern const crucible_if_plan kPlanTable;
extern const crucible_if_queue kQueueTable;
extern const crucible_if_library kLibraryTable;
extern const crucible_if_profile kProfileTable;
extern const crucible_if_health kHealthTable;

}  // namespace crucible_amd
