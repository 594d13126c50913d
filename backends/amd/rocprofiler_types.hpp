// The part of rocprofiler-sdk that this plugin calls, as its C ABI is since version 1 (ROCm 7). AMD's headers are not
// needed to build. Names, numbers and members are those of AMD's public headers (registration.h, agent.h, context.h,
// buffer.h, counters.h and others), written down by hand: no package here has them to compare with, and no real
// rocprofiler-sdk has been called by them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crucible_amd {

using RocprofilerStatus = int;
inline constexpr RocprofilerStatus ROCPROFILER_STATUS_SUCCESS = 0, ROCPROFILER_STATUS_ERROR_CONTEXT_CONFLICT = 12,
                                   ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED = 16,
                                   ROCPROFILER_STATUS_ERROR_INCOMPATIBLE_KERNEL = 28,
                                   ROCPROFILER_STATUS_ERROR_OUT_OF_RESOURCES = 29,
                                   ROCPROFILER_STATUS_ERROR_NOT_AVAILABLE = 37,
                                   ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT = 38,
                                   ROCPROFILER_STATUS_ERROR_AGENT_ARCH_NOT_SUPPORTED = 39,
                                   ROCPROFILER_STATUS_ERROR_PERMISSION_DENIED = 40;

// Handles, each a struct of one number that is passed like the number itself.
struct RocprofilerContext {
  std::uint64_t handle = 0;
};
struct RocprofilerBuffer {
  std::uint64_t handle = 0;
};
struct RocprofilerAgentId {
  std::uint64_t handle = 0;
};
struct RocprofilerCounterId {
  std::uint64_t handle = 0;
};
struct RocprofilerCounterConfig {
  std::uint64_t handle = 0;
};

inline constexpr int ROCPROFILER_AGENT_INFO_VERSION_0 = 1, ROCPROFILER_AGENT_TYPE_GPU = 2,
                     ROCPROFILER_BUFFER_POLICY_LOSSLESS = 2, ROCPROFILER_COUNTER_INFO_VERSION_0 = 1,
                     ROCPROFILER_COUNTER_FLAG_NONE = 0;
// Of rocprofiler_callback_tracing_kind_t, its operations and phases.
inline constexpr int ROCPROFILER_CALLBACK_TRACING_CODE_OBJECT = 10,
                     ROCPROFILER_CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER = 2, ROCPROFILER_CALLBACK_PHASE_LOAD = 1;
// Of rocprofiler_buffer_category_t and rocprofiler_buffer_tracing_kind_t.
inline constexpr std::uint32_t ROCPROFILER_BUFFER_CATEGORY_TRACING = 1, ROCPROFILER_BUFFER_TRACING_MEMORY_COPY = 10,
                               ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH = 11;

struct RocprofilerClientId {
  const char* name;
  std::uint32_t handle;
};
struct RocprofilerToolResult {
  std::size_t size;
  int (*initialize)(void (*finalize)(RocprofilerClientId), void* data);
  void (*finalize)(void* data);
  void* data;
};
using RocprofilerConfigure = RocprofilerToolResult* (*)(std::uint32_t version, const char* runtime,
                                                        std::uint32_t priority, RocprofilerClientId* client);

/// How an agent begins: the whole is three times as long, and a library gives those of callers that know less.
struct RocprofilerAgent {
  std::uint64_t size;
  RocprofilerAgentId id;
  int type;
  std::uint32_t counts_and_sizes[21];  // cores, units, banks, waves and others, up to the version of the architecture
  std::uint16_t vendor_id, device_id;
  std::uint32_t location_id, domain;  // bus << 8 | device << 3 | function; the PCI domain
  std::uint32_t drm_render_minor;
};
static_assert(offsetof(RocprofilerAgent, location_id) == 108 && offsetof(RocprofilerAgent, domain) == 112 &&
              sizeof(RocprofilerAgent) == 120);
using RocprofilerTakeAgents = RocprofilerStatus (*)(int version, const void** agents, std::size_t count, void* user);

struct RocprofilerCorrelation {
  std::uint64_t internal, external, ancestor;
};
struct RocprofilerCallbackRecord {
  RocprofilerContext context;
  std::uint64_t thread;
  RocprofilerCorrelation correlation;
  int kind, operation, phase;
  void* payload;
};
static_assert(sizeof(RocprofilerCallbackRecord) == 64);
using RocprofilerCallback = void (*)(RocprofilerCallbackRecord record, std::uint64_t* user_data, void* user);

struct RocprofilerKernelSymbol {
  std::uint64_t size, kernel_id, code_object_id;
  const char* kernel_name;  // "k_0.kd"
  std::uint64_t kernel_object;
  std::uint32_t kernarg_segment_size, kernarg_segment_alignment, group_segment_size, private_segment_size, sgpr_count,
      arch_vgpr_count, accum_vgpr_count;
};

struct RocprofilerRecordHeader {
  std::uint32_t category, kind;
  void* payload;
};
using RocprofilerTakeRecords = void (*)(RocprofilerContext context, RocprofilerBuffer buffer,
                                        RocprofilerRecordHeader** headers, std::size_t count, void* user,
                                        std::uint64_t dropped);
struct RocprofilerDispatchRecord {
  std::uint64_t size;
  int kind, operation;
  std::uint64_t correlation[2], thread, start, end;  // nanoseconds
  std::uint64_t info_size;
  RocprofilerAgentId agent;
  std::uint64_t queue, kernel_id, dispatch_id;
  std::uint32_t private_segment_size, group_segment_size, workgroup[3], grid[3];
};
static_assert(offsetof(RocprofilerDispatchRecord, agent) == 64 && offsetof(RocprofilerDispatchRecord, grid) == 116);
struct RocprofilerCopyRecord {
  std::uint64_t size;
  int kind, operation;
  std::uint64_t correlation[2], thread, start, end;
  RocprofilerAgentId to, from;
  std::uint64_t bytes;
};

struct RocprofilerCounterInfo {
  RocprofilerCounterId id;
  const char *name, *description, *block, *expression;
  std::uint8_t is_constant_or_derived;
};
/// One instance of a counter: which one is told by rocprofiler_query_record_counter_id.
struct RocprofilerCounterRecord {
  std::uint64_t id;
  double value;
  std::uint64_t dispatch_id, user_data;
  RocprofilerAgentId agent;
};
static_assert(sizeof(RocprofilerCounterRecord) == 40);
using RocprofilerTakeCounters = RocprofilerStatus (*)(RocprofilerAgentId agent, RocprofilerCounterId* counters,
                                                      std::size_t count, void* user);
using RocprofilerSetConfig = RocprofilerStatus (*)(RocprofilerContext context, RocprofilerCounterConfig config);
using RocprofilerChooseCounters = void (*)(RocprofilerContext context, RocprofilerAgentId agent,
                                           RocprofilerSetConfig set, void* user);

// Every function that is called: X(name, result, parameters).
#define CRUCIBLE_ROCPROFILER_FUNCTIONS(X)                                                                              \
  X(rocprofiler_get_version, RocprofilerStatus, (std::uint32_t* major, std::uint32_t* minor, std::uint32_t* patch))    \
  X(rocprofiler_get_status_name, const char*, (RocprofilerStatus status))                                              \
  X(rocprofiler_get_timestamp, RocprofilerStatus, (std::uint64_t* nanoseconds))                                        \
  X(rocprofiler_force_configure, RocprofilerStatus, (RocprofilerConfigure configure))                                  \
  X(rocprofiler_create_context, RocprofilerStatus, (RocprofilerContext * context))                                     \
  X(rocprofiler_start_context, RocprofilerStatus, (RocprofilerContext context))                                        \
  X(rocprofiler_stop_context, RocprofilerStatus, (RocprofilerContext context))                                         \
  X(rocprofiler_create_buffer, RocprofilerStatus,                                                                      \
    (RocprofilerContext context, std::size_t bytes, std::size_t watermark, int policy, RocprofilerTakeRecords take,    \
     void* user, RocprofilerBuffer* buffer))                                                                           \
  X(rocprofiler_flush_buffer, RocprofilerStatus, (RocprofilerBuffer buffer))                                           \
  X(rocprofiler_configure_buffer_tracing_service, RocprofilerStatus,                                                   \
    (RocprofilerContext context, int kind, const std::int32_t* operations, std::size_t count,                          \
     RocprofilerBuffer buffer))                                                                                        \
  X(rocprofiler_configure_callback_tracing_service, RocprofilerStatus,                                                 \
    (RocprofilerContext context, int kind, const std::int32_t* operations, std::size_t count,                          \
     RocprofilerCallback callback, void* user))                                                                        \
  X(rocprofiler_query_available_agents, RocprofilerStatus,                                                             \
    (int version, RocprofilerTakeAgents take, std::size_t agent_bytes, void* user))                                    \
  X(rocprofiler_iterate_agent_supported_counters, RocprofilerStatus,                                                   \
    (RocprofilerAgentId agent, RocprofilerTakeCounters take, void* user))                                              \
  X(rocprofiler_query_counter_info, RocprofilerStatus, (RocprofilerCounterId counter, int version, void* info))        \
  X(rocprofiler_query_record_counter_id, RocprofilerStatus, (std::uint64_t record, RocprofilerCounterId* counter))     \
  X(rocprofiler_create_counter_config, RocprofilerStatus,                                                              \
    (RocprofilerAgentId agent, RocprofilerCounterId * counters, std::size_t count, RocprofilerCounterConfig* config))  \
  X(rocprofiler_destroy_counter_config, RocprofilerStatus, (RocprofilerCounterConfig config))                          \
  X(rocprofiler_configure_device_counting_service, RocprofilerStatus,                                                  \
    (RocprofilerContext context, RocprofilerBuffer buffer, RocprofilerAgentId agent, RocprofilerChooseCounters choose, \
     void* user))                                                                                                      \
  X(rocprofiler_sample_device_counting_service, RocprofilerStatus,                                                     \
    (RocprofilerContext context, std::uint64_t user_data, int flags, RocprofilerCounterRecord* records,                \
     std::size_t* count))

}  // namespace crucible_amd
