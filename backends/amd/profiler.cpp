// Setting up rocprofiler-sdk and tracing by its dispatch records: see profiler.hpp.
#include "backends/amd/profiler.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "backends/amd/device.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
// A device is done before the library has taken note of it: how long records may take, and how long none may come
// before there are no more.
constexpr std::chrono::milliseconds kMostWait{2000}, kSettled{5};
constexpr std::string_view kDescriptor = ".kd";  // a kernel's symbol is that of its descriptor

struct Prepared {
  std::mutex mutex;
  std::unique_ptr<Profiler> profiler;
  bool has_runtime = false;  // a HIP runtime was opened: it is too late to configure
  std::string refusal;
};
Prepared& prepared() {
  static Prepared& one = *new Prepared;  // never destroyed: the library may call back at the very end
  return one;
}

/// While it is configured: the library's configure function takes nothing of the caller's.
Profiler* being_configured = nullptr;

std::string pci_of(const RocprofilerAgent& agent) {
  char text[32];
  std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", agent.domain, agent.location_id >> 8 & 0xff,
                agent.location_id >> 3 & 0x1f, agent.location_id & 7);
  return text;
}

/// Why this process has no profiler, said once. It is locked.
void refuse(Prepared& one, const Rocprofiler& api, const std::string& why) {
  one.refusal = why;
  sdk::log(sdk::LogLevel::kWarning, "amd",
           api.describe() + ": " + why + "; times are those of events, and nothing is counted");
}

void ignore_records(RocprofilerContext, RocprofilerBuffer, RocprofilerRecordHeader**, std::size_t, void*,
                    std::uint64_t) {}

}  // namespace

RocprofilerToolResult* Profiler::configure(std::uint32_t, const char*, std::uint32_t, RocprofilerClientId* client) {
  client->name = "crucible";
  static RocprofilerToolResult result = {sizeof(RocprofilerToolResult), initialize, nullptr, nullptr};
  result.data = being_configured;
  return &result;
}

int Profiler::initialize(void (*)(RocprofilerClientId), void* self) noexcept {
  auto& profiler = *static_cast<Profiler*>(self);
  try {
    profiler.make_contexts();
    return 0;
  } catch (const std::exception& failure) {
    profiler.refusal_ = failure.what();
    return -1;
  }
}

RocprofilerStatus Profiler::take_agents(int, const void** agents, std::size_t count, void* self) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto& agent = *static_cast<const RocprofilerAgent*>(agents[i]);
    if (agent.type != ROCPROFILER_AGENT_TYPE_GPU) continue;
    auto profiled = std::make_unique<ProfiledAgent>();
    profiled->id = agent.id;
    profiled->pci = pci_of(agent);
    static_cast<Profiler*>(self)->agents_.push_back(std::move(profiled));
  }
  return ROCPROFILER_STATUS_SUCCESS;
}

void Profiler::take_symbol(RocprofilerCallbackRecord record, std::uint64_t*, void* self) {
  if (record.operation != ROCPROFILER_CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER ||
      record.phase != ROCPROFILER_CALLBACK_PHASE_LOAD)
    return;
  const auto& symbol = *static_cast<const RocprofilerKernelSymbol*>(record.payload);
  std::string name = symbol.kernel_name == nullptr ? "" : symbol.kernel_name;
  if (name.ends_with(kDescriptor)) name.resize(name.size() - kDescriptor.size());
  auto& profiler = *static_cast<Profiler*>(self);
  const std::lock_guard lock(profiler.mutex_);
  profiler.kernels_[symbol.kernel_id] = {std::move(name), symbol.arch_vgpr_count};
}

void Profiler::take_records(RocprofilerContext, RocprofilerBuffer, RocprofilerRecordHeader** headers, std::size_t count,
                            void* self, std::uint64_t dropped) {
  auto& profiler = *static_cast<Profiler*>(self);
  const std::lock_guard lock(profiler.mutex_);
  profiler.dropped_ += dropped;
  for (std::size_t i = 0; i < count; ++i) {
    if (headers[i]->category != ROCPROFILER_BUFFER_CATEGORY_TRACING) continue;
    if (headers[i]->kind == ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH) {
      const auto& dispatch = *static_cast<const RocprofilerDispatchRecord*>(headers[i]->payload);
      if (dispatch.agent.handle != profiler.traced_.handle) continue;
      const Symbol& symbol = profiler.kernels_[dispatch.kernel_id];
      profiler.heard_.push_back({symbol.kernel.empty() ? "unknown" : symbol.kernel, dispatch.start, dispatch.end,
                                 symbol.registers, dispatch.group_segment_size});
    } else if (headers[i]->kind == ROCPROFILER_BUFFER_TRACING_MEMORY_COPY) {
      const auto& copy = *static_cast<const RocprofilerCopyRecord*>(headers[i]->payload);
      if (copy.to.handle == profiler.traced_.handle) profiler.heard_.push_back({"", copy.start, copy.end});
    }
  }
}

void Profiler::choose_counters(RocprofilerContext context, RocprofilerAgentId, RocprofilerSetConfig set,
                               void* profiled) {
  // A refusal is that of the start, or of the first sample.
  (void)set(context, static_cast<const ProfiledAgent*>(profiled)->counters);
}

RocprofilerBuffer Profiler::make_buffer(RocprofilerContext context) {
  RocprofilerBuffer buffer;
  const bool traces = context.handle == tracing_.handle;
  api_.check(api_.rocprofiler_create_buffer(context, kBufferBytes, kBufferBytes / 2, ROCPROFILER_BUFFER_POLICY_LOSSLESS,
                                            traces ? take_records : ignore_records, this, &buffer),
             "rocprofiler_create_buffer");
  return buffer;
}

void Profiler::make_contexts() {
  api_.check(api_.rocprofiler_query_available_agents(ROCPROFILER_AGENT_INFO_VERSION_0, take_agents,
                                                     sizeof(RocprofilerAgent), this),
             "rocprofiler_query_available_agents");
  // Code is loaded at any time: its kernels' names are listened to from the beginning.
  api_.check(api_.rocprofiler_create_context(&symbols_), "rocprofiler_create_context");
  api_.check(api_.rocprofiler_configure_callback_tracing_service(symbols_, ROCPROFILER_CALLBACK_TRACING_CODE_OBJECT,
                                                                 nullptr, 0, take_symbol, this),
             "rocprofiler_configure_callback_tracing_service of code objects");
  api_.check(api_.rocprofiler_create_context(&tracing_), "rocprofiler_create_context");
  records_ = make_buffer(tracing_);
  for (const std::uint32_t kind :
       {ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH, ROCPROFILER_BUFFER_TRACING_MEMORY_COPY}) {
    api_.check(
        api_.rocprofiler_configure_buffer_tracing_service(tracing_, static_cast<int>(kind), nullptr, 0, records_),
        "rocprofiler_configure_buffer_tracing_service");
  }
  for (const auto& agent : agents_) {
    api_.check(api_.rocprofiler_create_context(&agent->counting), "rocprofiler_create_context");
    api_.check(api_.rocprofiler_configure_device_counting_service(agent->counting, make_buffer(agent->counting),
                                                                  agent->id, choose_counters, agent.get()),
               "rocprofiler_configure_device_counting_service");
  }
  api_.check(api_.rocprofiler_start_context(symbols_), "rocprofiler_start_context of code objects");
}

Profiler::Profiler(const Rocprofiler& api) : api_(api) {
  being_configured = this;
  const RocprofilerStatus status = api.rocprofiler_force_configure(configure);
  being_configured = nullptr;
  api.check(status, "rocprofiler_force_configure");
  if (!refusal_.empty()) throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, refusal_);
}

ProfiledAgent& Profiler::agent_of(const DeviceFacts& facts) {
  ProfiledAgent* found = nullptr;
  for (const auto& agent : agents_) {
    if (agent->pci != facts.pci) continue;
    if (found != nullptr)
      throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                         "rocprofiler-sdk has several devices at " + facts.pci + ": a partitioned one is not profiled");
    found = agent.get();
  }
  if (found == nullptr)
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       "rocprofiler-sdk has no device at " + facts.pci + ", where " + facts.id + " is");
  return *found;
}

std::size_t Profiler::flush() {
  (void)api_.rocprofiler_flush_buffer(records_);  // BUSY while it is emptied anyway
  const std::lock_guard lock(mutex_);
  return heard_.size() + dropped_;
}

std::vector<sdk::Activity> Profiler::trace(const ProfiledAgent& agent, std::size_t expected,
                                           const std::function<void()>& run) {
  const std::lock_guard one(one_at_a_time_);
  {
    const std::lock_guard lock(mutex_);
    traced_ = agent.id;
    heard_.clear();
    dropped_ = 0;
  }
  struct Stop {
    ~Stop() { (void)profiler.api_.rocprofiler_stop_context(profiler.tracing_); }
    Profiler& profiler;
  };
  api_.check(api_.rocprofiler_start_context(tracing_), "rocprofiler_start_context");
  {
    const Stop stop{*this};
    run();
    const auto end = std::chrono::steady_clock::now() + kMostWait;
    for (std::size_t before = 0, now = flush();
         (now < expected || now != before) && std::chrono::steady_clock::now() < end; now = flush()) {
      before = now;
      std::this_thread::sleep_for(kSettled);
    }
  }
  const std::lock_guard lock(mutex_);
  if (dropped_ != 0)
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       api_.describe() + " lost " + std::to_string(dropped_) + " records of what the device did");
  std::ranges::stable_sort(heard_, {}, &sdk::Activity::begin_ns);
  return std::exchange(heard_, {});
}

void prepare_profiler() {
  Prepared& one = prepared();
  const std::lock_guard lock(one.mutex);
  std::string note;
  // Whether the device is emulated is not known before there is a runtime: see find_profiler().
  const Rocprofiler* const api = one.profiler != nullptr || one.has_runtime ? nullptr : find_rocprofiler(false, note);
  one.has_runtime = true;
  if (api == nullptr) return;
  try {
    one.profiler = std::make_unique<Profiler>(*api);
  } catch (const sdk::Failure& failure) {
    refuse(one, *api, failure.what());
  }
}

Profiler* find_profiler(const DeviceFacts& facts, std::string& note) {
  const Rocprofiler* const api = find_rocprofiler(facts.is_emulated(), note);
  if (api == nullptr) return nullptr;
  Prepared& one = prepared();
  const std::lock_guard lock(one.mutex);
  if (one.profiler != nullptr && &one.profiler->api() == api) return one.profiler.get();
  if (one.refusal.empty())
    refuse(one, *api,
           one.profiler != nullptr
               ? "this process is profiled by " + one.profiler->api().file + " already"
               : "the HIP runtime was started in this process before the option profiler asked for it");
  note = "none (" + api->describe() + ": " + one.refusal + "; times are those of events, and nothing is counted)";
  return nullptr;
}

}  // namespace crucible_amd
