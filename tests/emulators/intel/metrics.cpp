// Metrics of the emulated devices: one group that counts between two commands of a list, with true facts of what ran,
// and one that samples time, which no query takes. As the vendor's driver it shows them only with ZET_ENABLE_METRICS=1.
//
// Faults: query(FUNCTION) of zetMetricGroupGet and zetContextActivateMetricGroups with deny (want of rights) and
// missing (not supported).
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "backends/intel/metric_types.hpp"
#include "tests/emulators/intel/machine.hpp"

namespace crucible_intel::ze {

struct MetricObject {
  const char *name, *description, *units;
  std::uint32_t type;
};
struct MetricGroupObject {
  const char *name, *description;
  std::uint32_t sampling;
  std::vector<Metric> metrics;
};
struct MetricQueryPoolObject {
  Device device;
  std::uint32_t count;
};
/// Between reset and begin, begin and end, and after the end.
enum class QueryState { kReset, kBegun, kDone };
struct MetricQueryObject {
  Device device;
  std::atomic<QueryState> state = QueryState::kReset;
  std::array<std::uint64_t, 3> before = {}, counted = {};
};

}  // namespace crucible_intel::ze

using namespace crucible_intel::ze;
using crucible::emulator::Action;
using crucible::emulator::DoneWork;
using crucible::emulator::faults;
using crucible::emulator::now_ns;
using crucible::emulator::present_state;
using crucible::emulator::Site;

namespace {

using Counts = std::array<std::uint64_t, 3>;

MetricObject time_metric = {"GpuTime", "emulated: time between begin and end of the query", "ns", kDuration};
MetricObject items_metric = {"WorkItems", "emulated: work-items that were launched", "", kEventCount};
MetricObject launches_metric = {"Launches", "emulated: kernels that were launched", "", kEventCount};
MetricObject ratio_metric = {"WorkItemsPerLaunch", "emulated: work-items of a launch on average", "", kRatio};
MetricGroupObject basic_group = {
    "ComputeBasic", "emulated: what ran", kEventBased, {&time_metric, &items_metric, &ratio_metric, &launches_metric}};
MetricGroupObject sampled_group = {"Sampled", "emulated: no query takes it", 2, {&time_metric}};
MetricGroup const kGroups[] = {&sampled_group, &basic_group};

MetricGroup active_group = nullptr;  // of the process

Counts counts_of(Device device) {
  const DoneWork& done = crucible::emulator::done_work(device);
  return {now_ns(), done.work_items, done.launches};
}

std::optional<Result> fault_at(const char* function) {
  static constexpr Action kPossible[] = {Action::kDeny, Action::kMissing};
  const auto rule = faults().hit(Site::kQuery, function, kPossible);
  if (!rule) return std::nullopt;
  return rule->action == Action::kDeny ? Result::kInsufficientPermissions : Result::kUnsupportedFeature;
}

Result refuse(const char* why) {
  faults().note(why);
  return Result::kInvalidArgument;
}

template <class Handle, class All>
Result list(const All& all, std::uint32_t* count, Handle* out) {
  const auto size = static_cast<std::uint32_t>(std::size(all));
  if (out == nullptr || *count == 0) {
    *count = size;
    return Result::kSuccess;
  }
  *count = std::min(*count, size);
  for (std::uint32_t i = 0; i < *count; ++i) out[i] = all[i];
  return Result::kSuccess;
}

void run_in_order(List list, std::function<void()> command) { list->commands->all.push_back(std::move(command)); }

}  // namespace

extern "C" {

Result zetMetricGroupGet(Device, std::uint32_t* count, MetricGroup* groups) {
  if (const auto fault = fault_at("zetMetricGroupGet")) return *fault;
  const char* const enabled = std::getenv("ZET_ENABLE_METRICS");
  if (enabled == nullptr || std::string_view(enabled) != "1") return Result::kUnsupportedFeature;
  return list(kGroups, count, groups);
}

Result zetMetricGroupGetProperties(MetricGroup group, MetricGroupProperties* properties) {
  if (properties->type != kMetricGroupProperties)
    return refuse("a struct of a metric group's properties has another type");
  std::strcpy(properties->name, group->name);
  std::strcpy(properties->description, group->description);
  properties->sampling = group->sampling;
  properties->domain = group == &basic_group ? 0 : 1;
  properties->metric_count = static_cast<std::uint32_t>(group->metrics.size());
  return Result::kSuccess;
}

Result zetMetricGet(MetricGroup group, std::uint32_t* count, Metric* metrics) {
  return list(group->metrics, count, metrics);
}

Result zetMetricGetProperties(Metric metric, MetricProperties* properties) {
  if (properties->type != kMetricProperties) return refuse("a struct of a metric's properties has another type");
  std::strcpy(properties->name, metric->name);
  std::strcpy(properties->description, metric->description);
  std::strcpy(properties->units, metric->units);
  properties->metric_type = metric->type;
  properties->result_type = metric->type == kRatio ? kFloat32 : kUint64;
  return Result::kSuccess;
}

Result zetContextActivateMetricGroups(Context, Device, std::uint32_t count, MetricGroup* groups) {
  if (count > 1 || (count == 1 && groups == nullptr)) return refuse("more than one group of a domain is activated");
  if (count == 1) {
    if (const auto fault = fault_at("zetContextActivateMetricGroups")) return *fault;
  }
  active_group = count == 1 ? groups[0] : nullptr;
  return present_state();
}

Result zetMetricQueryPoolCreate(Context, Device device, MetricGroup group, const MetricQueryPoolDesc* description,
                                MetricQueryPool* pool) {
  if (description->type != kMetricQueryPoolDesc || description->pool_type != 0)
    return refuse("a struct of a pool of queries has another type");
  if (group->sampling != kEventBased) return refuse("queries of a group that is not based on events");
  *pool = new MetricQueryPoolObject{device, description->count};
  return present_state();
}

Result zetMetricQueryPoolDestroy(MetricQueryPool pool) {
  delete pool;
  return Result::kSuccess;
}

Result zetMetricQueryCreate(MetricQueryPool pool, std::uint32_t index, MetricQuery* query) {
  if (index >= pool->count) return refuse("a query behind the end of its pool");
  *query = new MetricQueryObject{pool->device};
  return Result::kSuccess;
}

Result zetMetricQueryDestroy(MetricQuery query) {
  delete query;
  return Result::kSuccess;
}

Result zetMetricQueryReset(MetricQuery query) {
  query->state = QueryState::kReset;
  return Result::kSuccess;
}

Result zetCommandListAppendMetricQueryBegin(List list, MetricQuery query) {
  if (list->state != ListState::kOpen || list->is_immediate) return refuse("a query begins in a list that is not open");
  if (active_group != &basic_group) return refuse("a query begins whose group is not active");
  if (query->state != QueryState::kReset) return refuse("a query begins that was not reset");
  run_in_order(list, [query] {
    query->before = counts_of(query->device);
    query->state = QueryState::kBegun;
  });
  return Result::kSuccess;
}

Result zetCommandListAppendMetricQueryEnd(List list, MetricQuery query, Event event, std::uint32_t count, Event*) {
  if (list->state != ListState::kOpen || list->is_immediate) return refuse("a query ends in a list that is not open");
  if (event != nullptr || count != 0) return Result::kUnsupportedFeature;
  run_in_order(list, [query] {
    if (query->state != QueryState::kBegun) return faults().note("a query ends that has not begun");
    const Counts now = counts_of(query->device);
    for (std::size_t i = 0; i < now.size(); ++i) query->counted[i] = now[i] - query->before[i];
    query->state = QueryState::kDone;
  });
  return Result::kSuccess;
}

Result zetMetricQueryGetData(MetricQuery query, std::size_t* size, std::uint8_t* data) {
  if (query->state != QueryState::kDone) return Result::kNotReady;
  if (data != nullptr && *size >= sizeof query->counted)
    std::memcpy(data, query->counted.data(), sizeof query->counted);
  *size = sizeof query->counted;
  return Result::kSuccess;
}

Result zetMetricGroupCalculateMetricValues(MetricGroup group, std::uint32_t type, std::size_t size,
                                           const std::uint8_t* data, std::uint32_t* count, TypedValue* values) {
  if (group != &basic_group || type != kMetricValues || size != sizeof(Counts))
    return refuse("raw data of something else");
  constexpr std::uint32_t kValues = 4;
  if (values == nullptr || *count == 0) {
    *count = kValues;
    return Result::kSuccess;
  }
  if (*count < kValues) return refuse("too little room for the values of metrics");
  *count = kValues;
  Counts counts = {};
  std::memcpy(counts.data(), data, sizeof counts);
  const auto& [time, items, launches] = counts;
  values[0].type = values[1].type = values[3].type = kUint64;
  values[0].u64 = time, values[1].u64 = items, values[3].u64 = launches;
  values[2].type = kFloat32;
  values[2].f32 = launches == 0 ? 0.0f : static_cast<float>(items) / static_cast<float>(launches);
  return Result::kSuccess;
}

}  // extern "C"
