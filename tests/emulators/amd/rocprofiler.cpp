// librocprofiler-sdk.so.1 as far as a plugin asks for it: contexts with code objects' kernels, dispatch and copy
// records in buffers; counters are in rocprofiler_counting.cpp. What it tells is what the emulated runtime beside it
// did (core/activity.hpp): names, times, blocks, threads. A runtime that had started before it was configured tells
// nothing, as AMD's. Copies and fills inside of a device are kernels of the runtime's own, as on a device; a fill that
// is no multiple of 16 bytes is two. A kernel's symbol is told of at its first launch, not when its code is loaded;
// registers are unknown (0).
//
// Faults: query(FUNCTION) with deny (want of rights) and fail (what code= names); fail@query(rocprofiler_get_version)
// for a library of ROCm 6, fail@query(rocprofiler_force_configure) for a process that another tool profiles;
// fail@record(rocprofiler) drops the records of a flush.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <utility>

#include "tests/emulators/amd/rocprofiler_api.hpp"
#include "tests/emulators/core/faults.hpp"
#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/core/stream.hpp"

using namespace crucible::emulator;
using namespace crucible::emulator::rocprofiler;

extern "C" Status rocprofiler_get_version(std::uint32_t* major, std::uint32_t* minor, std::uint32_t* patch);

namespace {

constexpr std::uint32_t kTracing = 1;     // the category of records
constexpr std::uint64_t kWholeFill = 16;  // bytes that a kernel fills at a time
constexpr std::size_t kAgentBytes = 320;  // at least: callers may know less

struct Agent {
  std::uint64_t size, id;
  int type;  // 2: GPU
  std::uint32_t words[21];
  std::uint16_t vendor, device;
  std::uint32_t location, domain;
  char rest[kAgentBytes - 116];
};

struct Dispatch {
  std::uint64_t size;
  int kind, operation;
  std::uint64_t correlation[2], thread, start, end, info_size;
  Id agent;
  std::uint64_t queue, kernel, dispatch;
  std::uint32_t private_bytes, shared_bytes, block[3], grid[3];
  char reserved[56];
};
static_assert(sizeof(Dispatch) == 56 + 128);

struct Symbol {
  std::uint64_t size, kernel, code_object;
  const char* name;
  std::uint64_t object;
  std::uint32_t numbers[7];
};

struct ToolResult {
  std::size_t size;
  int (*initialize)(void (*finalize)(Id), void* data);
  void (*finalize)(void* data);
  void* data;
};
struct Client {
  const char* name;
  std::uint32_t handle;
};

const ProfiledRuntime& runtime() {
  static const ProfiledRuntime found =
      find_profiled_runtime_beside(reinterpret_cast<const void*>(&rocprofiler_get_version));
  return found;
}

std::string kernel_of(const Activity& activity) {
  switch (activity.kind) {
    case Activity::Kind::kKernel:
      return activity.name;
    case Activity::Kind::kCopy:
      return "__amd_rocclr_copyBuffer";
    case Activity::Kind::kFill:
      return "__amd_rocclr_fillBufferAligned";
  }
  return "";
}

/// The number of a kernel, which those that listen to code objects are told of when it is new.
std::uint64_t number_of(const std::string& kernel, std::vector<std::pair<Callback, void*>>& listeners) {
  Library& all = library();
  const auto [found, is_new] = all.kernels.try_emplace(kernel, all.kernels.size() + 1);
  if (!is_new) return found->second;
  for (const auto& [id, context] : all.contexts) {
    if (context.is_active && context.on_symbol != nullptr)
      listeners.emplace_back(context.on_symbol, context.on_symbol_user);
  }
  return found->second;
}

void tell_symbol(const std::string& kernel, std::uint64_t number,
                 const std::vector<std::pair<Callback, void*>>& listeners) {
  const std::string name = kernel + ".kd";
  Symbol symbol = {
      .size = sizeof(Symbol), .kernel = number, .code_object = 1, .name = name.c_str(), .object = 0, .numbers = {}};
  const CallbackRecord record = {.context = {},
                                 .thread = 0,
                                 .internal_correlation = 0,
                                 .external_correlation = 0,
                                 .ancestor = 0,
                                 .kind = kCodeObject,
                                 .operation = 2,
                                 .phase = 1,
                                 .payload = &symbol};
  for (const auto& [callback, user] : listeners) callback(record, nullptr, user);
}

void hear(const Activity* activity) {
  Library& all = library();
  const ProfiledDevice device = runtime().device(activity->device);
  const std::string kernel = kernel_of(*activity);
  std::vector<std::pair<Callback, void*>> listeners;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(all.mutex);
    number = number_of(kernel, listeners);
  }
  tell_symbol(kernel, number, listeners);
  const std::lock_guard lock(all.mutex);
  Done& done = all.done[device.physical % kMostDevices];
  const std::uint64_t block = std::uint64_t{activity->block[0]} * activity->block[1] * activity->block[2],
                      blocks = activity->threads() / block;
  done.nanoseconds += static_cast<double>(activity->end_ns - activity->begin_ns);
  if (activity->kind == Activity::Kind::kKernel) {
    done.blocks += static_cast<double>(blocks);
    done.waves += static_cast<double>(blocks * ((block + device.wave - 1) / device.wave));
  }
  for (const auto& [id, context] : all.contexts) {
    if (!context.is_active || !context.kinds.contains(kKernelDispatch)) continue;
    Heard heard = {context.buffer, *activity, device.physical, number};
    if (activity->kind == Activity::Kind::kFill && activity->bytes % kWholeFill != 0) {
      const std::uint64_t middle = std::midpoint(activity->begin_ns, activity->end_ns);
      heard.activity.end_ns = middle;
      all.heard.push_back(heard);
      heard.activity = *activity;
      heard.activity.begin_ns = middle;
    }
    all.heard.push_back(heard);
  }
}

Dispatch dispatch_of(const Heard& heard) {
  const Activity& activity = heard.activity;
  Dispatch record = {};
  record.size = sizeof(record),
  record.info_size = sizeof(record) - offsetof(Dispatch, info_size) - sizeof(record.reserved);
  record.kind = kKernelDispatch, record.operation = 2;
  record.start = activity.begin_ns, record.end = activity.end_ns;
  record.agent = {kFirstAgent + heard.physical}, record.kernel = heard.kernel;
  record.shared_bytes = activity.static_shared_bytes + activity.dynamic_shared_bytes;
  for (std::size_t i = 0; i < 3; ++i)
    record.block[i] = activity.block[i], record.grid[i] = activity.grid[i] * activity.block[i];
  return record;
}

Status start(std::uint64_t id, std::unique_lock<std::mutex>& lock) {
  Context& context = library().contexts.at(id);
  if (context.is_active) return Status::SUCCESS;
  if (context.agent) {
    if (const Status status = start_counting(id, lock); status != Status::SUCCESS) return status;
  }
  context.is_active = true;
  return Status::SUCCESS;
}

/// A service is asked for only while the library is configured, in a context that is there.
template <class Body>
Status configure_in(Id context, Body body) {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  if (all.state != Library::State::kConfiguring) return Status::ERROR_CONFIGURATION_LOCKED;
  const auto found = all.contexts.find(context.handle);
  return found == all.contexts.end() ? Status::ERROR_CONTEXT_NOT_FOUND : body(found->second);
}

}  // namespace

Library& rocprofiler::library() {
  static Library& one = *new Library;  // streams may end after everything else
  return one;
}

Status rocprofiler::ask(const char* function) {
  static constexpr Action kPossible[] = {Action::kDeny, Action::kFail};
  const auto rule = faults().hit(Site::kQuery, function, kPossible);
  if (!rule) return Status::SUCCESS;
#define CRUCIBLE_EMULATED_STATUS(name, value) \
  if (rule->code == "ROCPROFILER_STATUS_" #name) return Status::name;
  CRUCIBLE_EMULATED_STATUSES(CRUCIBLE_EMULATED_STATUS)
#undef CRUCIBLE_EMULATED_STATUS
  if (!rule->code.empty())
    give_up("CRUCIBLE_EMU_FAULTS: code=" + rule->code + " is no status of rocprofiler-sdk that the emulator knows");
  return rule->action == Action::kDeny ? Status::ERROR_PERMISSION_DENIED : Status::ERROR;
}

bool rocprofiler::is_agent(std::uint64_t agent) {
  return agent >= kFirstAgent && agent - kFirstAgent < settings().devices;
}

extern "C" {

Status rocprofiler_get_version(std::uint32_t* major, std::uint32_t* minor, std::uint32_t* patch) {
  const bool is_old = ask("rocprofiler_get_version") != Status::SUCCESS;
  if (major != nullptr) *major = is_old ? 0 : 1;
  if (minor != nullptr) *minor = is_old ? 6 : 0;
  if (patch != nullptr) *patch = 0;
  return Status::SUCCESS;
}

const char* rocprofiler_get_status_name(Status status) {
  switch (status) {
#define CRUCIBLE_EMULATED_STATUS(name, value) \
  case Status::name:                          \
    return "ROCPROFILER_STATUS_" #name;
    CRUCIBLE_EMULATED_STATUSES(CRUCIBLE_EMULATED_STATUS)
#undef CRUCIBLE_EMULATED_STATUS
  }
  return nullptr;
}

Status rocprofiler_get_timestamp(std::uint64_t* timestamp) {
  if (timestamp == nullptr) return Status::ERROR_INVALID_ARGUMENT;
  *timestamp = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Stream::now().time_since_epoch()).count());
  return Status::SUCCESS;
}

Status rocprofiler_force_configure(ToolResult* (*configure)(std::uint32_t, const char*, std::uint32_t, Client*)) {
  Library& all = library();
  if (ask("rocprofiler_force_configure") != Status::SUCCESS) return Status::ERROR_CONFIGURATION_LOCKED;
  {
    const std::lock_guard lock(all.mutex);
    if (all.state != Library::State::kNew) return Status::ERROR_CONFIGURATION_LOCKED;
    all.state = Library::State::kConfiguring;
  }
  Client client = {nullptr, 1};
  ToolResult* const tool = configure == nullptr ? nullptr : configure(10000, "emulated, not a GPU", 0, &client);
  const bool is_good = tool != nullptr && tool->size == sizeof(ToolResult) && tool->initialize != nullptr &&
                       tool->initialize(nullptr, tool->data) == 0;
  const std::lock_guard lock(all.mutex);
  all.state = Library::State::kConfigured;
  if (!is_good) all.contexts.clear();
  if (runtime() && !runtime().has_started()) runtime().listen(hear);
  return Status::SUCCESS;
}

Status rocprofiler_query_available_agents(int version, Status (*take)(int, const void**, std::size_t, void*),
                                          std::size_t agent_bytes, void* user) {
  if (version != 1 || take == nullptr) return Status::ERROR_INVALID_ARGUMENT;
  if (agent_bytes > kAgentBytes) return Status::ERROR_INCOMPATIBLE_ABI;
  if (const Status denied = ask("rocprofiler_query_available_agents"); denied != Status::SUCCESS) return denied;
  std::vector<Agent> agents(settings().devices + 1, Agent{});
  std::vector<const void*> places;
  for (std::uint32_t i = 0; i < agents.size(); ++i) {
    Agent& agent = agents[i];
    agent.size = sizeof(Agent);
    agent.type = i == settings().devices ? 1 : 2;  // the last is the processor
    agent.id = kFirstAgent + i;
    if (agent.type == 2) agent.location = (i + 1) << 8;
    places.push_back(&agent);
  }
  return take(version, places.data(), places.size(), user);
}

Status rocprofiler_create_context(Id* context) {
  if (context == nullptr) return Status::ERROR_INVALID_ARGUMENT;
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  if (all.state != Library::State::kConfiguring) return Status::ERROR_CONFIGURATION_LOCKED;
  context->handle = all.next++;
  all.contexts[context->handle];
  return Status::SUCCESS;
}

Status rocprofiler_start_context(Id context) {
  if (const Status denied = ask("rocprofiler_start_context"); denied != Status::SUCCESS) return denied;
  std::unique_lock lock(library().mutex);
  if (!library().contexts.contains(context.handle)) return Status::ERROR_CONTEXT_NOT_FOUND;
  return start(context.handle, lock);
}

Status rocprofiler_stop_context(Id context) {
  const std::lock_guard lock(library().mutex);
  const auto found = library().contexts.find(context.handle);
  if (found == library().contexts.end()) return Status::ERROR_CONTEXT_NOT_FOUND;
  found->second.is_active = false;
  return Status::SUCCESS;
}

Status rocprofiler_create_buffer(Id context, std::size_t bytes, std::size_t watermark, int policy, TakeRecords take,
                                 void* user, Id* buffer) {
  if (bytes == 0 || watermark > bytes || policy < 1 || policy > 2 || take == nullptr || buffer == nullptr)
    return Status::ERROR_INVALID_ARGUMENT;
  return configure_in(context, [&](Context&) {
    buffer->handle = library().next++;
    library().buffers[buffer->handle] = {context.handle, take, user};
    return Status::SUCCESS;
  });
}

Status rocprofiler_configure_callback_tracing_service(Id context, int kind, const std::int32_t*, std::size_t,
                                                      Callback callback, void* user) {
  return configure_in(context, [&](Context& own) {
    if (kind != kCodeObject) return Status::ERROR_KIND_NOT_FOUND;
    if (callback == nullptr) return Status::ERROR_INVALID_ARGUMENT;
    if (own.on_symbol != nullptr) return Status::ERROR_SERVICE_ALREADY_CONFIGURED;
    own.on_symbol = callback;
    own.on_symbol_user = user;
    return Status::SUCCESS;
  });
}

Status rocprofiler_configure_buffer_tracing_service(Id context, int kind, const std::int32_t*, std::size_t, Id buffer) {
  return configure_in(context, [&](Context& own) {
    if (kind != kKernelDispatch && kind != kMemoryCopy) return Status::ERROR_KIND_NOT_FOUND;
    if (!library().buffers.contains(buffer.handle)) return Status::ERROR_BUFFER_NOT_FOUND;
    own.buffer = buffer.handle;
    return own.kinds.insert(kind).second ? Status::SUCCESS : Status::ERROR_SERVICE_ALREADY_CONFIGURED;
  });
}

Status rocprofiler_flush_buffer(Id buffer) {
  Library& all = library();
  std::vector<Dispatch> records;
  Buffer own;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.buffers.find(buffer.handle);
    if (found == all.buffers.end()) return Status::ERROR_BUFFER_NOT_FOUND;
    own = found->second;
    for (const Heard& heard : all.heard) {
      if (heard.buffer == buffer.handle) records.push_back(dispatch_of(heard));
    }
    std::erase_if(all.heard, [&](const Heard& heard) { return heard.buffer == buffer.handle; });
  }
  if (records.empty()) return Status::SUCCESS;
  if (faults().hit(Site::kRecord, "rocprofiler")) {
    own.take({own.context}, buffer, nullptr, 0, own.user, records.size());
    return Status::SUCCESS;
  }
  std::ranges::reverse(records);  // in no order that could be relied on
  std::vector<Header> headers;
  for (Dispatch& record : records) headers.push_back({kTracing, kKernelDispatch, &record});
  std::vector<Header*> places;
  for (Header& header : headers) places.push_back(&header);
  own.take({own.context}, buffer, places.data(), places.size(), own.user, 0);
  return Status::SUCCESS;
}

}  // extern "C"
