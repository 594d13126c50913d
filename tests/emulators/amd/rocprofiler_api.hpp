// What librocprofiler-sdk.so.1 is asked for, as its documentation has it, a second time after the plugin's own
// declarations; and the state that the files of the emulated one share.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/emulators/amd/runtime_beside.hpp"

namespace crucible::emulator::rocprofiler {

// The statuses that are given here, in the order of rocprofiler_status_t.
#define CRUCIBLE_EMULATED_STATUSES(X)                                                                             \
  X(SUCCESS, 0)                                                                                                   \
  X(ERROR, 1) X(ERROR_CONTEXT_NOT_FOUND, 2) X(ERROR_BUFFER_NOT_FOUND, 3) X(ERROR_KIND_NOT_FOUND, 4)               \
      X(ERROR_AGENT_NOT_FOUND, 7) X(ERROR_COUNTER_NOT_FOUND, 8) X(ERROR_CONTEXT_INVALID, 10)                      \
          X(ERROR_CONTEXT_CONFLICT, 12) X(ERROR_SERVICE_ALREADY_CONFIGURED, 15) X(ERROR_CONFIGURATION_LOCKED, 16) \
              X(ERROR_INCOMPATIBLE_ABI, 18) X(ERROR_INVALID_ARGUMENT, 19) X(ERROR_OUT_OF_RESOURCES, 29)           \
                  X(ERROR_PROFILE_NOT_FOUND, 30) X(ERROR_AGENT_MISMATCH, 36) X(ERROR_NOT_AVAILABLE, 37)           \
                      X(ERROR_EXCEEDS_HW_LIMIT, 38) X(ERROR_PERMISSION_DENIED, 40)
enum class Status : int {
#define CRUCIBLE_EMULATED_STATUS(name, value) name = value,
  CRUCIBLE_EMULATED_STATUSES(CRUCIBLE_EMULATED_STATUS)
#undef CRUCIBLE_EMULATED_STATUS
};

// A handle is a struct of one number: contexts, buffers, agents, counters and configurations.
struct Id {
  std::uint64_t handle;
};

struct Header {
  std::uint32_t category, kind;
  void* payload;
};
using TakeRecords = void (*)(Id context, Id buffer, Header** headers, std::size_t count, void* user,
                             std::uint64_t dropped);

struct CallbackRecord {
  Id context;
  std::uint64_t thread, internal_correlation, external_correlation, ancestor;
  int kind, operation, phase;
  void* payload;
};
using Callback = void (*)(CallbackRecord record, std::uint64_t* user_data, void* user);
using SetConfig = Status (*)(Id context, Id config);
using Choose = void (*)(Id context, Id agent, SetConfig set, void* user);

struct CounterRecord {
  std::uint64_t id;  // the counter in the upper 16 bits, the unit below
  double value;
  std::uint64_t dispatch, user_data;
  Id agent;
};

constexpr std::size_t kMostDevices = 16;                          // CRUCIBLE_EMU_DEVICES
constexpr std::uint64_t kFirstAgent = 100, kUnits = 4;            // a unit of each kind counts its part of a sum
constexpr int kKernelDispatch = 11, kMemoryCopy = 10, kCodeObject = 10;  // of buffer tracing, and of callback tracing

/// What a device has done since the library listens.
struct Done {
  double nanoseconds = 0, blocks = 0, waves = 0;
};

struct Context {
  bool is_active = false;
  std::set<int> kinds;       // of buffer tracing
  std::uint64_t buffer = 0;  // of those
  Callback on_symbol = nullptr;
  void* on_symbol_user = nullptr;
  std::optional<std::uint64_t> agent;  // of its counting service
  Choose choose = nullptr;
  void* choose_user = nullptr;
  std::vector<std::uint64_t> counters;  // that were chosen at its start
  Done before;
};

struct Buffer {
  std::uint64_t context = 0;
  TakeRecords take = nullptr;
  void* user = nullptr;
};

struct Heard {
  std::uint64_t buffer;
  Activity activity;
  std::uint32_t physical;
  std::uint64_t kernel;
};

struct Config {
  std::uint64_t agent;
  std::vector<std::uint64_t> counters;
};

struct Library {
  std::mutex mutex;
  enum class State { kNew, kConfiguring, kConfigured } state = State::kNew;
  std::uint64_t next = 1;  // of all handles
  std::map<std::uint64_t, Context> contexts;
  std::map<std::uint64_t, Buffer> buffers;
  std::map<std::uint64_t, Config> configs;
  std::uint64_t starting = 0;  // the context that may be given a configuration
  std::vector<Heard> heard;    // not flushed yet
  std::map<std::string, std::uint64_t> kernels;
  std::array<Done, kMostDevices> done;
};
Library& library();

/// Asks the faults whether this may be had: want of rights, or what code= names.
Status ask(const char* function);
/// True for an agent of the machine.
bool is_agent(std::uint64_t agent);

/// rocprofiler_start_context and _stop_context for a counting service, with the library locked by `lock`.
Status start_counting(std::uint64_t context, std::unique_lock<std::mutex>& lock);

}  // namespace crucible::emulator::rocprofiler
