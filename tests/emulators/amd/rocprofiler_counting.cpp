// Counters of the emulated librocprofiler-sdk.so.1 by the device counting service: waves and blocks that were launched,
// and cycles of a clock of 1 GHz in which the device was busy. Each comes in as many records as a device has units.
#include <algorithm>
#include <cmath>

#include "tests/emulators/amd/rocprofiler_api.hpp"

using namespace crucible::emulator::rocprofiler;

namespace {

struct Counter {
  const char *name, *description, *block;
  double Done::*member;
};
constexpr double kCyclesPerNanosecond = 1;  // hipDeviceAttributeClockRate
constexpr Counter kCounters[] = {
    {"GRBM_GUI_ACTIVE", "Cycles that the graphics engine was busy", "GRBM", &Done::nanoseconds},
    {"SPI_CSN_NUM_THREADGROUPS", "Blocks launched", "SPI", &Done::blocks},
    {"SQ_WAVES", "Waves launched", "SQ", &Done::waves}};
constexpr std::uint64_t kFirstCounter = 1;
constexpr int kCounterShift = 48;

struct Info {
  Id id;
  const char *name, *description, *block, *expression;
  std::uint8_t flags;
};

/// Null for an id that is none's.
const Counter* counter_of(std::uint64_t id) {
  return id < kFirstCounter || id - kFirstCounter >= std::size(kCounters) ? nullptr : &kCounters[id - kFirstCounter];
}

/// For the callback of a context that starts.
Status set_config(Id context, Id config) {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  if (all.starting != context.handle) return Status::ERROR_CONFIGURATION_LOCKED;
  const auto found = all.configs.find(config.handle);
  if (found == all.configs.end()) return Status::ERROR_PROFILE_NOT_FOUND;
  Context& own = all.contexts.at(context.handle);
  if (found->second.agent != *own.agent) return Status::ERROR_AGENT_MISMATCH;
  own.counters = found->second.counters;
  return Status::SUCCESS;
}

}  // namespace

Status crucible::emulator::rocprofiler::start_counting(std::uint64_t id, std::unique_lock<std::mutex>& lock) {
  Library& all = library();
  Context& context = all.contexts.at(id);
  for (const auto& [other_id, other] : all.contexts) {
    if (other_id != id && other.is_active && other.agent == context.agent) return Status::ERROR_CONTEXT_CONFLICT;
  }
  context.counters.clear();
  all.starting = id;
  lock.unlock();
  context.choose({id}, {*context.agent}, set_config, context.choose_user);
  lock.lock();
  all.starting = 0;
  context.before = all.done[*context.agent - kFirstAgent];
  return Status::SUCCESS;
}

extern "C" {

Status rocprofiler_iterate_agent_supported_counters(Id agent, Status (*take)(Id, Id*, std::size_t, void*), void* user) {
  if (take == nullptr) return Status::ERROR_INVALID_ARGUMENT;
  if (!is_agent(agent.handle)) return Status::ERROR_AGENT_NOT_FOUND;
  if (const Status denied = ask("rocprofiler_iterate_agent_supported_counters"); denied != Status::SUCCESS)
    return denied;
  std::vector<Id> counters;
  for (std::uint64_t i = 0; i < std::size(kCounters); ++i) counters.push_back({kFirstCounter + i});
  return take(agent, counters.data(), counters.size(), user);
}

Status rocprofiler_query_counter_info(Id id, int version, void* info) {
  const Counter* const counter = counter_of(id.handle);
  if (info == nullptr) return Status::ERROR_INVALID_ARGUMENT;
  if (counter == nullptr) return Status::ERROR_COUNTER_NOT_FOUND;
  if (version != 1) return Status::ERROR_INCOMPATIBLE_ABI;
  *static_cast<Info*>(info) = {id, counter->name, counter->description, counter->block, "", 0};
  return Status::SUCCESS;
}

Status rocprofiler_query_record_counter_id(std::uint64_t record, Id* counter) {
  if (counter == nullptr) return Status::ERROR_INVALID_ARGUMENT;
  counter->handle = record >> kCounterShift;
  return counter_of(counter->handle) == nullptr ? Status::ERROR_COUNTER_NOT_FOUND : Status::SUCCESS;
}

Status rocprofiler_create_counter_config(Id agent, Id* counters, std::size_t count, Id* config) {
  if (config == nullptr || (counters == nullptr && count > 0)) return Status::ERROR_INVALID_ARGUMENT;
  if (!is_agent(agent.handle)) return Status::ERROR_AGENT_NOT_FOUND;
  if (const Status denied = ask("rocprofiler_create_counter_config"); denied != Status::SUCCESS) return denied;
  Config made = {agent.handle, {}};
  for (std::size_t i = 0; i < count; ++i) {
    if (counter_of(counters[i].handle) == nullptr) return Status::ERROR_COUNTER_NOT_FOUND;
    made.counters.push_back(counters[i].handle);
  }
  const std::lock_guard lock(library().mutex);
  config->handle = library().next++;
  library().configs[config->handle] = std::move(made);
  return Status::SUCCESS;
}

Status rocprofiler_destroy_counter_config(Id config) {
  const std::lock_guard lock(library().mutex);
  return library().configs.erase(config.handle) == 1 ? Status::SUCCESS : Status::ERROR_PROFILE_NOT_FOUND;
}

Status rocprofiler_configure_device_counting_service(Id context, Id buffer, Id agent, Choose choose, void* user) {
  if (choose == nullptr) return Status::ERROR_INVALID_ARGUMENT;
  if (!is_agent(agent.handle)) return Status::ERROR_AGENT_NOT_FOUND;
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  if (all.state != Library::State::kConfiguring) return Status::ERROR_CONFIGURATION_LOCKED;
  const auto found = all.contexts.find(context.handle);
  if (found == all.contexts.end()) return Status::ERROR_CONTEXT_INVALID;
  if (!all.buffers.contains(buffer.handle)) return Status::ERROR_BUFFER_NOT_FOUND;
  if (found->second.agent) return Status::ERROR_INVALID_ARGUMENT;
  found->second.agent = agent.handle;
  found->second.choose = choose;
  found->second.choose_user = user;
  return Status::SUCCESS;
}

Status rocprofiler_sample_device_counting_service(Id context, std::uint64_t user_data, int flags,
                                                  CounterRecord* records, std::size_t* count) {
  if (const Status denied = ask("rocprofiler_sample_device_counting_service"); denied != Status::SUCCESS) return denied;
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  const auto found = all.contexts.find(context.handle);
  if (found == all.contexts.end() || !found->second.agent) return Status::ERROR_CONTEXT_INVALID;
  if (flags != 0 || records == nullptr || count == nullptr) return Status::ERROR_INVALID_ARGUMENT;
  const Context& own = found->second;
  if (!own.is_active) return Status::ERROR;
  if (*count < own.counters.size() * kUnits) return Status::ERROR_OUT_OF_RESOURCES;
  const Done& now = all.done[*own.agent - kFirstAgent];
  std::size_t given = 0;
  for (const std::uint64_t counter : own.counters) {
    const Counter& what = *counter_of(counter);
    const double factor = what.member == &Done::nanoseconds ? kCyclesPerNanosecond : 1;
    const double sum = (now.*what.member - own.before.*what.member) * factor, part = std::floor(sum / kUnits);
    for (std::uint64_t unit = 0; unit < kUnits; ++unit) {
      const double own_part = unit == 0 ? sum - (kUnits - 1) * part : part;
      records[given++] = {counter << kCounterShift | unit, own_part, 0, user_data, {*own.agent}};
    }
  }
  *count = given;
  return Status::SUCCESS;
}

}  // extern "C"
