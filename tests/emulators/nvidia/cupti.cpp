// libcupti.so.13 as far as a plugin asks for it: activity records of launches, copies and fills, and counters by the
// range profiler. What it tells is what the emulated driver beside it did (core/activity.hpp): names, times, grids,
// threads, and under the model of times the bytes of its memory. Registers are unknown (0). Its declarations are
// NVIDIA's own, so that the compiler checks every signature.
//
// Faults: query(FUNCTION) with deny (want of rights, or what code= names) and fail; fail@query(cuptiGetVersion) for a
// library of CUDA 12, fail@query(cuptiProfilerHostGetNumOfPasses) for counters that need two passes; fail@record(cupti)
// drops the records of a flush. Stricter than a device may be: nothing is traced while a range profiler is enabled, and
// the other way round.
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cupti.h>
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#pragma GCC visibility pop

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/emulators/core/activity.hpp"
#include "tests/emulators/core/faults.hpp"
#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/core/stream.hpp"
#include "tests/emulators/nvidia/driver_beside.hpp"

/// A chip, and metrics that were added to it.
struct CUpti_Profiler_Host_Object {
  std::vector<std::string> metrics;
};
struct CUpti_RangeProfiler_Object {
  unsigned device = 0;
  std::vector<std::string> metrics;
  std::uint8_t* image = nullptr;
  std::size_t image_size = 0;
  enum class State { kEnabled, kSet, kStarted, kOpen, kClosed, kStopped } state = State::kEnabled;
  std::vector<double> before, counted;
};

namespace {

using namespace crucible::emulator;
using ProfilerState = CUpti_RangeProfiler_Object::State;

constexpr std::uint32_t kOldVersion = 26;  // CUDA 12.8's
constexpr std::size_t kMostDevices = 16;   // CRUCIBLE_EMU_DEVICES
constexpr const char* kChip = "emulated, not a GPU";

/// What a device has done since the library listens.
struct Done {
  double nanoseconds = 0, threads = 0, warps = 0, memory_bytes = 0;
};
struct Metric {
  const char* name;
  double Done::*member;
  bool needs_model = false;  // counted under the model of times alone
};
constexpr Metric kMetrics[] = {{"dram__bytes", &Done::memory_bytes, true},
                               {"gpu__time_duration", &Done::nanoseconds},
                               {"smsp__threads_launched", &Done::threads},
                               {"smsp__warps_launched", &Done::warps}};

struct Heard {
  std::string name;
  Activity activity;
};
struct Library {
  std::mutex mutex;
  std::array<Done, kMostDevices> done;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  std::set<int> kinds;          // of activities that are enabled
  std::vector<Heard> heard;     // not flushed yet
  std::set<std::string> names;  // of records that were given out
  std::size_t dropped = 0;
  std::map<CUpti_Profiler_Host_Object*, std::unique_ptr<CUpti_Profiler_Host_Object>> hosts;
  std::map<CUpti_RangeProfiler_Object*, std::unique_ptr<CUpti_RangeProfiler_Object>> profilers;
};
Library& library() {
  static Library& one = *new Library;  // streams may end after everything else
  return one;
}

const Driver& driver() {
  static const Driver found = find_driver_beside(reinterpret_cast<const void*>(&cuptiGetVersion));
  return found;
}

CUpti_ActivityKind kind_of(const Activity& activity) {
  switch (activity.kind) {
    case Activity::Kind::kKernel:
      return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    case Activity::Kind::kCopy:
      return CUPTI_ACTIVITY_KIND_MEMCPY;
    case Activity::Kind::kFill:
      return CUPTI_ACTIVITY_KIND_MEMSET;
  }
  return CUPTI_ACTIVITY_KIND_INVALID;
}

void hear(const Activity* activity) {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  Done& done = all.done[activity->device % kMostDevices];
  done.nanoseconds += static_cast<double>(activity->end_ns - activity->begin_ns);
  done.memory_bytes += static_cast<double>(activity->work.memory_bytes);
  if (activity->kind == Activity::Kind::kKernel) {
    const std::uint64_t block = std::uint64_t{activity->block[0]} * activity->block[1] * activity->block[2];
    done.threads += static_cast<double>(activity->threads());
    done.warps += static_cast<double>(activity->threads() / block * ((block + 31) / 32));
  }
  if (all.kinds.contains(kind_of(*activity))) all.heard.push_back({activity->name, *activity});
}

/// True where a rule says that the answer is another one.
bool fails(const char* function) {
  static constexpr Action kPossible[] = {Action::kFail};
  return faults().hit(Site::kQuery, function, kPossible).has_value();
}

/// Asks the faults whether this may be had.
CUptiResult ask(const char* function) {
  static constexpr Action kPossible[] = {Action::kDeny, Action::kFail};
  const auto rule = faults().hit(Site::kQuery, function, kPossible);
  if (!rule) return CUPTI_SUCCESS;
  if (rule->code == "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES")
    return CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES;
  if (rule->code == "CUPTI_ERROR_HARDWARE_BUSY") return CUPTI_ERROR_HARDWARE_BUSY;
  if (rule->code == "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED") return CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED;
  return rule->action == Action::kDeny ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES : CUPTI_ERROR_UNKNOWN;
}

CUptiResult listen() {
  if (!driver()) return CUPTI_ERROR_NOT_INITIALIZED;
  driver().listen(hear);
  return CUPTI_SUCCESS;
}

template <class Record>
Record* append(std::uint8_t* buffer, std::size_t size, std::size_t& used) {
  if (used + sizeof(Record) > size) return nullptr;
  auto* const record = new (buffer + used) Record{};
  used += sizeof(Record);
  return record;
}

template <class Record>
bool write_transfer(const Heard& heard, std::uint8_t* buffer, std::size_t size, std::size_t& used) {
  auto* const record = append<Record>(buffer, size, used);
  if (record == nullptr) return false;
  record->kind = kind_of(heard.activity);
  record->bytes = heard.activity.bytes;
  record->start = heard.activity.begin_ns;
  record->end = heard.activity.end_ns;
  record->deviceId = heard.activity.device;
  record->graphId = heard.activity.graph;
  return true;
}

/// False when there is no room.
bool write(const Heard& heard, std::uint8_t* buffer, std::size_t size, std::size_t& used) {
  const Activity& activity = heard.activity;
  if (activity.kind == Activity::Kind::kCopy) return write_transfer<CUpti_ActivityMemcpy6>(heard, buffer, size, used);
  if (activity.kind == Activity::Kind::kFill) return write_transfer<CUpti_ActivityMemset4>(heard, buffer, size, used);
  auto* const record = append<CUpti_ActivityKernel10>(buffer, size, used);
  if (record == nullptr) return false;
  record->kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record->name = library().names.insert(heard.name).first->c_str();
  record->start = activity.begin_ns;
  record->end = activity.end_ns;
  record->deviceId = activity.device;
  record->graphId = activity.graph;
  record->gridX = static_cast<std::int32_t>(activity.grid[0]),
  record->gridY = static_cast<std::int32_t>(activity.grid[1]);
  record->gridZ = static_cast<std::int32_t>(activity.grid[2]);
  record->blockX = static_cast<std::int32_t>(activity.block[0]),
  record->blockY = static_cast<std::int32_t>(activity.block[1]);
  record->blockZ = static_cast<std::int32_t>(activity.block[2]);
  record->staticSharedMemory = static_cast<std::int32_t>(activity.static_shared_bytes);
  record->dynamicSharedMemory = static_cast<std::int32_t>(activity.dynamic_shared_bytes);
  return true;
}

std::size_t size_of(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_MEMCPY) return sizeof(CUpti_ActivityMemcpy6);
  return kind == CUPTI_ACTIVITY_KIND_MEMSET ? sizeof(CUpti_ActivityMemset4) : sizeof(CUpti_ActivityKernel10);
}

/// As the range profiler's functions are called: the sizes of their headers, nothing private.
template <class Parameters>
bool fits(const Parameters* parameters, std::size_t size) {
  return parameters != nullptr && parameters->structSize == size && parameters->pPriv == nullptr;
}
#define FITS(type) fits(parameters, type##_STRUCT_SIZE)

bool is_listed(const Metric& metric) { return !metric.needs_model || settings().timing == Timing::kRoofline; }

/// Null for a name that is none of a listed metric's sum.
const Metric* find_metric(const std::string& name) {
  const auto found = std::ranges::find_if(
      kMetrics, [&](const Metric& metric) { return is_listed(metric) && std::string(metric.name) + ".sum" == name; });
  return found == std::end(kMetrics) ? nullptr : found;
}

/// Metrics' names, a zero behind each.
std::vector<std::string> names_in(const std::uint8_t* image, std::size_t size) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < size; at += names.back().size() + 1)
    names.emplace_back(reinterpret_cast<const char*>(image + at));
  return names;
}
std::size_t bytes_of(const std::vector<std::string>& names) {
  std::size_t size = 0;
  for (const std::string& name : names) size += name.size() + 1;
  return size;
}

std::vector<double> totals(const CUpti_RangeProfiler_Object& profiler) {
  std::vector<double> all;
  for (const std::string& name : profiler.metrics)
    all.push_back(library().done[profiler.device].*find_metric(name)->member);
  return all;
}

/// The host object, or null. The library is locked.
CUpti_Profiler_Host_Object* host_of(CUpti_Profiler_Host_Object* object) {
  return library().hosts.contains(object) ? object : nullptr;
}

/// Moves a profiler from one state to the next.
CUptiResult step(CUpti_RangeProfiler_Object* object, ProfilerState from, ProfilerState to) {
  if (!library().profilers.contains(object)) return CUPTI_ERROR_INVALID_PARAMETER;
  if (object->state != from) return CUPTI_ERROR_INVALID_OPERATION;
  object->state = to;
  return CUPTI_SUCCESS;
}

}  // namespace

CUptiResult cuptiGetVersion(std::uint32_t* version) {
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = fails("cuptiGetVersion") ? kOldVersion : CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  static const std::map<CUptiResult, const char*> kNames = {
      {CUPTI_SUCCESS, "CUPTI_SUCCESS"},
      {CUPTI_ERROR_INVALID_PARAMETER, "CUPTI_ERROR_INVALID_PARAMETER"},
      {CUPTI_ERROR_INVALID_OPERATION, "CUPTI_ERROR_INVALID_OPERATION"},
      {CUPTI_ERROR_NOT_COMPATIBLE, "CUPTI_ERROR_NOT_COMPATIBLE"},
      {CUPTI_ERROR_INVALID_METRIC_NAME, "CUPTI_ERROR_INVALID_METRIC_NAME"},
      {CUPTI_ERROR_HARDWARE_BUSY, "CUPTI_ERROR_HARDWARE_BUSY"},
      {CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"},
      {CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES,
       "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES"},
      {CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED, "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED"},
      {CUPTI_ERROR_UNKNOWN, "CUPTI_ERROR_UNKNOWN"}};
  const auto found = kNames.find(result);
  if (found == kNames.end() || text == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *text = found->second;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(std::uint64_t* timestamp) {
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Stream::now().time_since_epoch()).count());
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  library().request = request;
  library().complete = complete;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (const CUptiResult denied = ask("cuptiActivityEnable")) return denied;
  if (const CUptiResult code = listen()) return code;
  const std::lock_guard lock(library().mutex);
  if (!library().profilers.empty()) return CUPTI_ERROR_NOT_COMPATIBLE;
  library().kinds.insert(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(library().mutex);
  library().kinds.erase(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  Library& all = library();
  std::vector<Heard> heard;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  {
    const std::lock_guard lock(all.mutex);
    heard = std::exchange(all.heard, {});
    request = all.request, complete = all.complete;
    all.dropped = faults().hit(Site::kRecord, "cupti") ? heard.size() : 0;
    if (all.dropped != 0) heard.clear();
  }
  if (request == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  std::size_t next = 0;
  do {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0, used = 0;
    request(&buffer, &size, &most);
    if (buffer == nullptr) return CUPTI_ERROR_OUT_OF_MEMORY;
    {
      const std::lock_guard lock(all.mutex);
      while (next < heard.size() && write(heard[next], buffer, size, used)) ++next;
    }
    complete(nullptr, 0, buffer, size, used);
  } while (next < heard.size());
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  auto* const next = *record == nullptr ? buffer : reinterpret_cast<std::uint8_t*>(*record) + size_of((*record)->kind);
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  *dropped = std::exchange(library().dropped, 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params* parameters) {
  if (!FITS(CUpti_Profiler_Initialize_Params)) return CUPTI_ERROR_INVALID_PARAMETER;
  if (const CUptiResult denied = ask("cuptiProfilerInitialize")) return denied;
  return listen();
}

CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params* parameters) {
  if (!FITS(CUpti_Device_GetChipName_Params) || parameters->deviceIndex >= settings().devices)
    return CUPTI_ERROR_INVALID_PARAMETER;
  parameters->pChipName = kChip;
  return CUPTI_SUCCESS;
}

/// A byte that says that there is something.
CUptiResult cuptiProfilerGetCounterAvailability(CUpti_Profiler_GetCounterAvailability_Params* parameters) {
  if (!FITS(CUpti_Profiler_GetCounterAvailability_Params)) return CUPTI_ERROR_INVALID_PARAMETER;
  if (const CUptiResult denied = ask("cuptiProfilerGetCounterAvailability")) return denied;
  if (parameters->pCounterAvailabilityImage != nullptr && parameters->counterAvailabilityImageSize > 0)
    *parameters->pCounterAvailabilityImage = 1;
  parameters->counterAvailabilityImageSize = 1;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params* parameters) {
  if (!FITS(CUpti_Profiler_Host_Initialize_Params) || parameters->pChipName == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  if (std::string(parameters->pChipName) != kChip) return CUPTI_ERROR_INVALID_CHIP_NAME;
  if (parameters->profilerType != CUPTI_PROFILER_TYPE_RANGE_PROFILER) return CUPTI_ERROR_NOT_SUPPORTED;
  auto made = std::make_unique<CUpti_Profiler_Host_Object>();
  parameters->pHostObject = made.get();
  const std::lock_guard lock(library().mutex);
  library().hosts[made.get()] = std::move(made);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params* parameters) {
  if (!FITS(CUpti_Profiler_Host_Deinitialize_Params)) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  return library().hosts.erase(parameters->pHostObject) == 1 ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiProfilerHostGetBaseMetrics(CUpti_Profiler_Host_GetBaseMetrics_Params* parameters) {
  if (!FITS(CUpti_Profiler_Host_GetBaseMetrics_Params)) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  if (host_of(parameters->pHostObject) == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  static auto& names = *new std::vector<const char*>;
  names.clear();
  for (const Metric& metric : kMetrics) {
    if (is_listed(metric) && parameters->metricType == CUPTI_METRIC_TYPE_COUNTER) names.push_back(metric.name);
  }
  parameters->ppMetricNames = names.data();
  parameters->numMetrics = names.size();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params* parameters) {
  if (!FITS(CUpti_Profiler_Host_ConfigAddMetrics_Params) || parameters->ppMetricNames == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  CUpti_Profiler_Host_Object* const host = host_of(parameters->pHostObject);
  if (host == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  for (std::size_t i = 0; i < parameters->numMetrics; ++i) {
    if (find_metric(parameters->ppMetricNames[i]) == nullptr) return CUPTI_ERROR_INVALID_METRIC_NAME;
    host->metrics.emplace_back(parameters->ppMetricNames[i]);
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params* parameters) {
  if (!FITS(CUpti_Profiler_Host_GetConfigImageSize_Params)) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  const CUpti_Profiler_Host_Object* const host = host_of(parameters->pHostObject);
  if (host == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  parameters->configImageSize = bytes_of(host->metrics);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params* parameters) {
  if (!FITS(CUpti_Profiler_Host_GetConfigImage_Params) || parameters->pConfigImage == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  const CUpti_Profiler_Host_Object* const host = host_of(parameters->pHostObject);
  if (host == nullptr || parameters->configImageSize < bytes_of(host->metrics)) return CUPTI_ERROR_INVALID_PARAMETER;
  std::uint8_t* at = parameters->pConfigImage;
  for (const std::string& name : host->metrics)
    at = std::copy_n(reinterpret_cast<const std::uint8_t*>(name.c_str()), name.size() + 1, at);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params* parameters) {
  if (!FITS(CUpti_Profiler_Host_GetNumOfPasses_Params) || parameters->pConfigImage == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  parameters->numOfPasses = fails("cuptiProfilerHostGetNumOfPasses") ? 2 : 1;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params* parameters) {
  if (!FITS(CUpti_Profiler_Host_EvaluateToGpuValues_Params) || parameters->rangeIndex != 0 ||
      parameters->pMetricValues == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  const CUpti_Profiler_Host_Object* const host = host_of(parameters->pHostObject);
  if (host == nullptr || parameters->counterDataImageSize < host->metrics.size() * sizeof(double))
    return CUPTI_ERROR_INVALID_PARAMETER;
  for (std::size_t i = 0; i < parameters->numMetrics; ++i) {
    const auto found = std::ranges::find(host->metrics, std::string(parameters->ppMetricNames[i]));
    if (found == host->metrics.end()) return CUPTI_ERROR_INVALID_METRIC_NAME;
    std::memcpy(
        &parameters->pMetricValues[i],
        parameters->pCounterDataImage + static_cast<std::size_t>(found - host->metrics.begin()) * sizeof(double),
        sizeof(double));
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params* parameters) {
  if (!FITS(CUpti_RangeProfiler_Enable_Params)) return CUPTI_ERROR_INVALID_PARAMETER;
  if (const CUptiResult denied = ask("cuptiRangeProfilerEnable")) return denied;
  if (const CUptiResult code = listen()) return code;
  auto made = std::make_unique<CUpti_RangeProfiler_Object>();
  made->device = driver().index_of(parameters->ctx);
  if (made->device >= kMostDevices) return CUPTI_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(library().mutex);
  if (!library().kinds.empty()) return CUPTI_ERROR_NOT_COMPATIBLE;
  for (const auto& [other, owned] : library().profilers) {
    if (other->device == made->device) return CUPTI_ERROR_HARDWARE_BUSY;
  }
  parameters->pRangeProfilerObject = made.get();
  library().profilers[made.get()] = std::move(made);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params* parameters) {
  if (!FITS(CUpti_RangeProfiler_Disable_Params)) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  return library().profilers.erase(parameters->pRangeProfilerObject) == 1 ? CUPTI_SUCCESS
                                                                          : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiRangeProfilerGetCounterDataSize(CUpti_RangeProfiler_GetCounterDataSize_Params* parameters) {
  if (!FITS(CUpti_RangeProfiler_GetCounterDataSize_Params) || parameters->maxNumOfRanges == 0 ||
      parameters->maxNumRangeTreeNodes < parameters->maxNumOfRanges)
    return CUPTI_ERROR_INVALID_PARAMETER;
  parameters->counterDataSize = parameters->numMetrics * sizeof(double);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerCounterDataImageInitialize(
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params* parameters) {
  if (!FITS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params) || parameters->pCounterData == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  std::fill_n(parameters->pCounterData, parameters->counterDataSize, std::uint8_t{0xFF});  // no numbers
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params* parameters) {
  if (!FITS(CUpti_RangeProfiler_SetConfig_Params) || parameters->pConfig == nullptr ||
      parameters->pCounterDataImage == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  if (parameters->range != CUPTI_UserRange || parameters->replayMode != CUPTI_UserReplay)
    return CUPTI_ERROR_NOT_SUPPORTED;
  if (parameters->minNestingLevel != 1 || parameters->numNestingLevels != 1 || parameters->maxRangesPerPass != 1 ||
      parameters->passIndex != 0)
    return CUPTI_ERROR_NOT_SUPPORTED;
  const std::lock_guard lock(library().mutex);
  CUpti_RangeProfiler_Object* const profiler = parameters->pRangeProfilerObject;
  if (const CUptiResult code = step(profiler, ProfilerState::kEnabled, ProfilerState::kSet)) return code;
  profiler->metrics = names_in(parameters->pConfig, parameters->configSize);
  profiler->image = parameters->pCounterDataImage;
  profiler->image_size = parameters->counterDataImageSize;
  return profiler->image_size < profiler->metrics.size() * sizeof(double) ? CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT
                                                                          : CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params* parameters) {
  if (!FITS(CUpti_RangeProfiler_Start_Params)) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  return step(parameters->pRangeProfilerObject, ProfilerState::kSet, ProfilerState::kStarted);
}

CUptiResult cuptiRangeProfilerPushRange(CUpti_RangeProfiler_PushRange_Params* parameters) {
  if (!FITS(CUpti_RangeProfiler_PushRange_Params) || parameters->pRangeName == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  const CUptiResult code = step(parameters->pRangeProfilerObject, ProfilerState::kStarted, ProfilerState::kOpen);
  if (code == CUPTI_SUCCESS) parameters->pRangeProfilerObject->before = totals(*parameters->pRangeProfilerObject);
  return code;
}

CUptiResult cuptiRangeProfilerPopRange(CUpti_RangeProfiler_PopRange_Params* parameters) {
  if (!FITS(CUpti_RangeProfiler_PopRange_Params)) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  CUpti_RangeProfiler_Object* const profiler = parameters->pRangeProfilerObject;
  if (const CUptiResult code = step(profiler, ProfilerState::kOpen, ProfilerState::kClosed)) return code;
  profiler->counted = totals(*profiler);
  for (std::size_t i = 0; i < profiler->counted.size(); ++i) profiler->counted[i] -= profiler->before[i];
  return CUPTI_SUCCESS;
}

CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params* parameters) {
  if (!FITS(CUpti_RangeProfiler_Stop_Params)) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(library().mutex);
  parameters->passIndex = 0;
  parameters->isAllPassSubmitted = 1;
  return step(parameters->pRangeProfilerObject, ProfilerState::kClosed, ProfilerState::kStopped);
}

CUptiResult cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params* parameters) {
  if (!FITS(CUpti_RangeProfiler_DecodeData_Params)) return CUPTI_ERROR_INVALID_PARAMETER;
  if (const CUptiResult denied = ask("cuptiRangeProfilerDecodeData")) return denied;
  const std::lock_guard lock(library().mutex);
  CUpti_RangeProfiler_Object* const profiler = parameters->pRangeProfilerObject;
  if (const CUptiResult code = step(profiler, ProfilerState::kStopped, ProfilerState::kEnabled)) return code;
  std::memcpy(profiler->image, profiler->counted.data(), profiler->counted.size() * sizeof(double));
  parameters->numOfRangeDropped = 0;
  return CUPTI_SUCCESS;
}
