// What this plugin asks rocprofiler-sdk for, set up once in a process: it can be configured only once, and only before
// a HIP runtime starts, because the runtimes hand it their functions when they start. So that is done when the plugin
// opens the runtime, if the option `profiler` asks for it; devices that are opened later find what was set up then.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/amd/rocprofiler.hpp"
#include "plugins/sdk/activity_times.hpp"
#include "plugins/sdk/counters.hpp"

namespace crucible_amd {

struct DeviceFacts;

/// A GPU as rocprofiler-sdk knows it, with what counts on it.
struct ProfiledAgent {
  RocprofilerAgentId id;
  std::string pci;  // 0000:c1:00.0
  RocprofilerContext counting;
  RocprofilerCounterConfig counters;  // what the context counts from its next start on
};

class Profiler {
 public:
  /// Configures the library for this process. Errors: those of Rocprofiler::check(); they leave nothing behind that
  /// could be tried again.
  explicit Profiler(const Rocprofiler& api);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  const Rocprofiler& api() const { return api_; }
  /// By its place on the bus: a HIP device's number changes with HIP_VISIBLE_DEVICES. Errors: UNAVAILABLE when there is
  /// none, or several (a device that is partitioned).
  ProfiledAgent& agent_of(const DeviceFacts& facts);

  /// Runs `run`, which has to wait for the device, and gives what the device did meanwhile, in the order of their
  /// begin: at least `expected` records. Copies by an engine have no kernel. Only one at a time in the process: others
  /// wait. Threads: any. Errors: those of Rocprofiler::check(); UNAVAILABLE when records were lost or do not come;
  /// those of `run`.
  std::vector<crucible::sdk::Activity> trace(const ProfiledAgent& agent, std::size_t expected,
                                             const std::function<void()>& run);

 private:
  struct Symbol {
    std::string kernel;
    std::uint32_t registers = 0;
  };

  static RocprofilerToolResult* configure(std::uint32_t version, const char* runtime, std::uint32_t priority,
                                          RocprofilerClientId* client);
  static int initialize(void (*finalize)(RocprofilerClientId), void* self) noexcept;
  static RocprofilerStatus take_agents(int version, const void** agents, std::size_t count, void* self);
  static void take_symbol(RocprofilerCallbackRecord record, std::uint64_t* user_data, void* self);
  static void take_records(RocprofilerContext context, RocprofilerBuffer buffer, RocprofilerRecordHeader** headers,
                           std::size_t count, void* self, std::uint64_t dropped);
  static void choose_counters(RocprofilerContext context, RocprofilerAgentId agent, RocprofilerSetConfig set,
                              void* profiled);
  void make_contexts();
  RocprofilerBuffer make_buffer(RocprofilerContext context);
  std::size_t flush();

  const Rocprofiler& api_;
  RocprofilerContext symbols_, tracing_;
  RocprofilerBuffer records_;
  std::vector<std::unique_ptr<ProfiledAgent>> agents_;
  std::string refusal_;  // of initialize(), which throws nothing
  std::mutex one_at_a_time_;
  std::mutex mutex_;  // of what is below: the library has threads of its own
  std::map<std::uint64_t, Symbol> kernels_;
  RocprofilerAgentId traced_;
  std::vector<crucible::sdk::Activity> heard_;
  std::uint64_t dropped_ = 0;
};

/// Before a HIP runtime is opened: configures what the option `profiler` asks for, once in a process. What cannot be
/// had is a warning, and told later by find_profiler(). Threads: one at a time. Errors: UNAVAILABLE when `profiler`
/// demands a library that is not there.
void prepare_profiler();

/// For a device, or null and the reason in `note`; else the library's name. Threads: any. Errors: those of
/// find_rocprofiler().
Profiler* find_profiler(const DeviceFacts& facts, std::string& note);

}  // namespace crucible_amd
