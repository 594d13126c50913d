// The devices of all drivers, and one that is open. One object per open(); buffers, modules and plans point to it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "backends/intel/level_zero.hpp"
#include "backends/intel/metrics.hpp"
#include "backends/intel/mutable_list.hpp"
#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/address_map.hpp"
#include "plugins/sdk/queue_table.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible_intel {

/// What a device says of itself.
struct DeviceFacts {
  std::string id;  // intel:N, N counting over all drivers
  ze_driver_handle_t driver = nullptr;
  ze_device_handle_t device = nullptr;
  std::string name, uuid, version;  // the version of its driver
  std::uint32_t type = 0;
  std::uint64_t units = 1, megahertz = 0, memory_bytes = 0, largest_buffer_bytes = 0;   // units: execution units
  std::uint32_t lanes = 8;                                                              // of one execution unit
  std::uint32_t argument_bytes = 0, group_size = 1, group_count = 1, shared_bytes = 0;  // at most; shared by a group
  std::vector<std::uint32_t> subgroup_sizes;                                            // that a kernel may demand
  std::uint32_t spirv_version = 0;                                                      // as ZE_MAKE_VERSION
  std::uint32_t queue_group = 0;                                                        // one that computes
  std::uint64_t ticks_per_second = 1, tick_mask = UINT64_MAX;                           // of kernel time stamps
  bool has_f64 = false, rounds_division = false, keeps_subnormals = false;
  bool is_emulated = false;  // its name says so
};

/// "63727563-6962-...".
std::string uuid_text(const std::uint8_t (&bytes)[16]);
/// In the order of the drivers. Threads: any. Errors: UNAVAILABLE when there is no library or no device at all.
std::vector<DeviceFacts> list_devices(const Functions& functions);
/// "" is the first. Errors: UNAVAILABLE naming those that there are.
DeviceFacts find_device(const Functions& functions, crucible_str device_id);

}  // namespace crucible_intel

struct crucible_device : crucible::sdk::QueueOwner {
  const crucible_intel::Functions* ze = nullptr;
  crucible_intel::DeviceFacts facts;
  std::uint32_t group_size = 128;
  std::uint32_t team_lanes = 1;  // work-items that may do an item together
  bool by_subgroups = false;     // they are a sub-group; else a group
  std::uint32_t lanes() const { return team_lanes > 1 ? team_lanes : facts.lanes; }
  crucible_intel::MutableLists mutable_lists;
  crucible_intel::OwnedContext context;
  crucible_intel::OwnedQueue queue;  // closed lists
  crucible_intel::OwnedList now;     // an immediate, synchronous list: copies that are done on return
  crucible::sdk::Watchdog watchdog;
  crucible::sdk::Counters counters;

  crucible::sdk::AddressMap addresses;
  std::mutex run_mutex;  // queue and kernel objects are for one thread at a time
  std::mutex now_mutex;  // so is the immediate list, on which memory is written while a plan runs
  crucible_intel::MetricCounting* metrics =
      nullptr;  // while counters are counted; it is the Counters'. With the run mutex

  ~crucible_device() {
    if (counters.is_counting()) counters.end();  // while all of the above lives
  }
};
