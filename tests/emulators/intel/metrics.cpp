// Metrics of the emulated devices: one group that counts between two commands of a list, with true facts of what ran,
// and one that samples time, which no query takes. As the vendor's driver it shows them only with ZET_ENABLE_METRICS=1.
//
// Faults: query(FUNCTION) of zetMetricGroupGet and zetContextActivateMetricGroups with deny (want of rights) and
// missing (not supported).
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/emulators/intel/machine.hpp"

struct _zet_metric_handle_t {
  const char *name, *description, *units;
  zet_metric_type_t type;
};
struct _zet_metric_group_handle_t {
  const char *name, *description;
  std::uint32_t sampling;
  std::vector<zet_metric_handle_t> metrics;
};
struct _zet_metric_query_pool_handle_t {
  ze_device_handle_t device;
  std::uint32_t count;
};
/// Between reset and begin, begin and end, and after the end.
enum class QueryState { kReset, kBegun, kDone };
struct _zet_metric_query_handle_t {
  ze_device_handle_t device;
  std::atomic<QueryState> state = QueryState::kReset;
  std::array<std::uint64_t, 3> before = {}, counted = {};
};

using crucible::emulator::Action;
using crucible::emulator::DoneWork;
using crucible::emulator::faults;
using crucible::emulator::ListState;
using crucible::emulator::now_ns;
using crucible::emulator::present_state;
using crucible::emulator::Site;

namespace {

using Counts = std::array<std::uint64_t, 3>;

_zet_metric_handle_t time_metric = {"GpuTime", "emulated: time between begin and end of the query", "ns",
                                    ZET_METRIC_TYPE_DURATION};
_zet_metric_handle_t items_metric = {"WorkItems", "emulated: work-items that were launched", "", ZET_METRIC_TYPE_EVENT};
_zet_metric_handle_t launches_metric = {"Launches", "emulated: kernels that were launched", "", ZET_METRIC_TYPE_EVENT};
_zet_metric_handle_t ratio_metric = {"WorkItemsPerLaunch", "emulated: work-items of a launch on average", "",
                                     ZET_METRIC_TYPE_RATIO};
_zet_metric_group_handle_t basic_group = {"ComputeBasic",
                                          "emulated: what ran",
                                          ZET_METRIC_GROUP_SAMPLING_TYPE_FLAG_EVENT_BASED,
                                          {&time_metric, &items_metric, &ratio_metric, &launches_metric}};
_zet_metric_group_handle_t sampled_group = {
    "Sampled", "emulated: no query takes it", ZET_METRIC_GROUP_SAMPLING_TYPE_FLAG_TIME_BASED, {&time_metric}};
zet_metric_group_handle_t const kGroups[] = {&sampled_group, &basic_group};

zet_metric_group_handle_t active_group = nullptr;  // of the process

Counts counts_of(ze_device_handle_t device) {
  const DoneWork& done = crucible::emulator::done_work(device);
  return {now_ns(), done.work_items, done.launches};
}

std::optional<ze_result_t> fault_at(const char* function) {
  static constexpr Action kPossible[] = {Action::kDeny, Action::kMissing};
  const auto rule = faults().hit(Site::kQuery, function, kPossible);
  if (!rule) return std::nullopt;
  return rule->action == Action::kDeny ? ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS : ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

ze_result_t refuse(const char* why) {
  faults().note(why);
  return ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

template <class Handle, class All>
ze_result_t list(const All& all, std::uint32_t* count, Handle* out) {
  const auto size = static_cast<std::uint32_t>(std::size(all));
  if (out == nullptr || *count == 0) {
    *count = size;
    return ZE_RESULT_SUCCESS;
  }
  *count = std::min(*count, size);
  for (std::uint32_t i = 0; i < *count; ++i) out[i] = all[i];
  return ZE_RESULT_SUCCESS;
}

void run_in_order(ze_command_list_handle_t list, std::function<void()> command) {
  list->commands->all.push_back(std::move(command));
}

}  // namespace

extern "C" {

ze_result_t zetMetricGroupGet(ze_device_handle_t, std::uint32_t* count, zet_metric_group_handle_t* groups) {
  if (const auto fault = fault_at("zetMetricGroupGet")) return *fault;
  const char* const enabled = std::getenv("ZET_ENABLE_METRICS");
  if (enabled == nullptr || std::string_view(enabled) != "1") return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  return list(kGroups, count, groups);
}

ze_result_t zetMetricGroupGetProperties(zet_metric_group_handle_t group, zet_metric_group_properties_t* properties) {
  if (properties->stype != ZET_STRUCTURE_TYPE_METRIC_GROUP_PROPERTIES)
    return refuse("a struct of a metric group's properties has another type");
  std::strcpy(properties->name, group->name);
  std::strcpy(properties->description, group->description);
  properties->samplingType = group->sampling;
  properties->domain = group == &basic_group ? 0 : 1;
  properties->metricCount = static_cast<std::uint32_t>(group->metrics.size());
  return ZE_RESULT_SUCCESS;
}

ze_result_t zetMetricGet(zet_metric_group_handle_t group, std::uint32_t* count, zet_metric_handle_t* metrics) {
  return list(group->metrics, count, metrics);
}

ze_result_t zetMetricGetProperties(zet_metric_handle_t metric, zet_metric_properties_t* properties) {
  if (properties->stype != ZET_STRUCTURE_TYPE_METRIC_PROPERTIES)
    return refuse("a struct of a metric's properties has another type");
  std::strcpy(properties->name, metric->name);
  std::strcpy(properties->description, metric->description);
  std::strcpy(properties->resultUnits, metric->units);
  properties->metricType = metric->type;
  properties->resultType = metric->type == ZET_METRIC_TYPE_RATIO ? ZET_VALUE_TYPE_FLOAT32 : ZET_VALUE_TYPE_UINT64;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zetContextActivateMetricGroups(ze_context_handle_t, ze_device_handle_t, std::uint32_t count,
                                           zet_metric_group_handle_t* groups) {
  if (count > 1 || (count == 1 && groups == nullptr)) return refuse("more than one group of a domain is activated");
  if (count == 1) {
    if (const auto fault = fault_at("zetContextActivateMetricGroups")) return *fault;
  }
  active_group = count == 1 ? groups[0] : nullptr;
  return present_state();
}

ze_result_t zetMetricQueryPoolCreate(ze_context_handle_t, ze_device_handle_t device, zet_metric_group_handle_t group,
                                     const zet_metric_query_pool_desc_t* description,
                                     zet_metric_query_pool_handle_t* pool) {
  if (description->stype != ZET_STRUCTURE_TYPE_METRIC_QUERY_POOL_DESC ||
      description->type != ZET_METRIC_QUERY_POOL_TYPE_PERFORMANCE)
    return refuse("a struct of a pool of queries has another type");
  if (group->sampling != ZET_METRIC_GROUP_SAMPLING_TYPE_FLAG_EVENT_BASED)
    return refuse("queries of a group that is not based on events");
  *pool = new _zet_metric_query_pool_handle_t{device, description->count};
  return present_state();
}

ze_result_t zetMetricQueryPoolDestroy(zet_metric_query_pool_handle_t pool) {
  delete pool;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zetMetricQueryCreate(zet_metric_query_pool_handle_t pool, std::uint32_t index,
                                 zet_metric_query_handle_t* query) {
  if (index >= pool->count) return refuse("a query behind the end of its pool");
  *query = new _zet_metric_query_handle_t{pool->device};
  return ZE_RESULT_SUCCESS;
}

ze_result_t zetMetricQueryDestroy(zet_metric_query_handle_t query) {
  delete query;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zetMetricQueryReset(zet_metric_query_handle_t query) {
  query->state = QueryState::kReset;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zetCommandListAppendMetricQueryBegin(ze_command_list_handle_t list, zet_metric_query_handle_t query) {
  if (list->state != ListState::kOpen || list->is_immediate) return refuse("a query begins in a list that is not open");
  if (active_group != &basic_group) return refuse("a query begins whose group is not active");
  if (query->state != QueryState::kReset) return refuse("a query begins that was not reset");
  run_in_order(list, [query] {
    query->before = counts_of(query->device);
    query->state = QueryState::kBegun;
  });
  return ZE_RESULT_SUCCESS;
}

ze_result_t zetCommandListAppendMetricQueryEnd(ze_command_list_handle_t list, zet_metric_query_handle_t query,
                                               ze_event_handle_t event, std::uint32_t count, ze_event_handle_t*) {
  if (list->state != ListState::kOpen || list->is_immediate) return refuse("a query ends in a list that is not open");
  if (event != nullptr || count != 0) return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  run_in_order(list, [query] {
    if (query->state != QueryState::kBegun) return faults().note("a query ends that has not begun");
    const Counts now = counts_of(query->device);
    for (std::size_t i = 0; i < now.size(); ++i) query->counted[i] = now[i] - query->before[i];
    query->state = QueryState::kDone;
  });
  return ZE_RESULT_SUCCESS;
}

ze_result_t zetMetricQueryGetData(zet_metric_query_handle_t query, std::size_t* size, std::uint8_t* data) {
  if (query->state != QueryState::kDone) return ZE_RESULT_NOT_READY;
  if (data != nullptr && *size >= sizeof query->counted)
    std::memcpy(data, query->counted.data(), sizeof query->counted);
  *size = sizeof query->counted;
  return ZE_RESULT_SUCCESS;
}

ze_result_t zetMetricGroupCalculateMetricValues(zet_metric_group_handle_t group,
                                                zet_metric_group_calculation_type_t type, std::size_t size,
                                                const std::uint8_t* data, std::uint32_t* count,
                                                zet_typed_value_t* values) {
  if (group != &basic_group || type != ZET_METRIC_GROUP_CALCULATION_TYPE_METRIC_VALUES || size != sizeof(Counts))
    return refuse("raw data of something else");
  constexpr std::uint32_t kValues = 4;
  if (values == nullptr || *count == 0) {
    *count = kValues;
    return ZE_RESULT_SUCCESS;
  }
  if (*count < kValues) return refuse("too little room for the values of metrics");
  *count = kValues;
  Counts counts = {};
  std::memcpy(counts.data(), data, sizeof counts);
  const auto& [time, items, launches] = counts;
  values[0].type = values[1].type = values[3].type = ZET_VALUE_TYPE_UINT64;
  values[0].value.ui64 = time, values[1].value.ui64 = items, values[3].value.ui64 = launches;
  values[2].type = ZET_VALUE_TYPE_FLOAT32;
  values[2].value.fp32 = launches == 0 ? 0.0f : static_cast<float>(items) / static_cast<float>(launches);
  return ZE_RESULT_SUCCESS;
}

}  // extern "C"
