// The device of this plugin: the cores that the process may use, the team of threads that runs on them, and oneDNN when
// it is there. Everything else is made from a device and counts what it takes here.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/fork.hpp"
#include "backends/cpu/team.hpp"
#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/address_map.hpp"
#include "plugins/sdk/queue_table.hpp"

namespace crucible_cpu {

class OneDnn;  // library_onednn.hpp

/// Bytes that this device's buffers hold now, and held at most. Threads: any.
class MemoryCount {
 public:
  void add(std::uint64_t bytes);
  void remove(std::uint64_t bytes);
  std::uint64_t live() const;
  std::uint64_t peak() const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t live_ = 0, peak_ = 0;
};

inline constexpr std::string_view kDeviceId = "cpu:0";

/// Errors: UNAVAILABLE when `device_id` names another device than the one there is; "" names it too.
void require_device(crucible_str device_id);

/// Of the device's threads, those that find a processor now: no more than there are cores, less what others have
/// running.
int free_processors(const crucible_device& device);

/// First value of `key` in /proc/cpuinfo, or "".
std::string cpuinfo(const std::string& key);

}  // namespace crucible_cpu

struct crucible_device : crucible::sdk::QueueOwner {
  crucible_cpu::OwnerProcess process;  // that opened it: the team and the queues have threads of that one alone
  int threads = 1;  // the most that a replay has
  bool has_fixed_threads = false;  // by the option: each replay has them all
  std::string compiler;            // option, "" where not set
  std::uint64_t compile_wait_s = 0;
  bool sanitizes = false;  // its kernels check themselves: sanitize.hpp
  std::shared_ptr<const crucible_cpu::OneDnn>
      onednn;                // shared: library calls in plans keep it; null without the library
  std::string library_note;  // what the library is, or what its absence costs
  std::unique_ptr<crucible_cpu::Team> team;
  std::mutex run_mutex;  // the team has one caller at a time, whichever plan that is
  crucible_cpu::MemoryCount memory;
  crucible::sdk::AddressMap addresses;  // of its buffers
};
