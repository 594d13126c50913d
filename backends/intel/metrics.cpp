// See metrics.hpp.
#include "backends/intel/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "backends/intel/device.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_intel {

using namespace crucible;

namespace {

constexpr std::string_view kBasicGroup = "ComputeBasic";
constexpr const char* kRights =
    "; the kernel keeps a device's counters for administrators: run as root, or let every user have them with "
    "`sysctl dev.i915.perf_stream_paranoid=0` (module i915) or `sysctl dev.xe.observation_paranoid=0` (module xe)";
constexpr const char* kSwitch =
    "set ZET_ENABLE_METRICS=1 in the environment before the program starts, and install Intel's libraries "
    "metrics-discovery and metrics-library";

/// As check(), but a want of rights is told as one.
void check_metrics(ze_result_t code, std::string_view what) {
  if (code != ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS) return check(code, what);
  throw sdk::Failure(CRUCIBLE_E_PERMISSION, std::string(what) + ": " + error_name(code) + kRights,
                     {{"vendor.code", std::to_string(static_cast<std::uint32_t>(code))}});
}

bool has_metrics(const Functions& ze) {
#define CRUCIBLE_METRIC_IS_THERE(name) &&ze.name != nullptr
  return true CRUCIBLE_METRIC_FUNCTIONS(CRUCIBLE_METRIC_IS_THERE);
#undef CRUCIBLE_METRIC_IS_THERE
}

std::vector<zet_metric_group_handle_t> find_groups(const Functions& ze, ze_device_handle_t device,
                                                   std::string& why_none) {
  std::uint32_t count = 0;
  const ze_result_t code = ze.zetMetricGroupGet(device, &count, nullptr);
  if (code == ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS) check_metrics(code, "zetMetricGroupGet");
  if (code != ZE_RESULT_SUCCESS || count == 0) {
    why_none = "the driver shows no metric groups (zetMetricGroupGet: " +
               (code == ZE_RESULT_SUCCESS ? std::string("none") : error_name(code)) + "): " + kSwitch;
    return {};
  }
  std::vector<zet_metric_group_handle_t> groups(count);
  check_metrics(ze.zetMetricGroupGet(device, &count, groups.data()), "zetMetricGroupGet");
  return groups;
}

bool can_be_added(const zet_metric_properties_t& metric) {
  const bool is_sum = metric.metricType == ZET_METRIC_TYPE_DURATION || metric.metricType == ZET_METRIC_TYPE_EVENT ||
                      metric.metricType == ZET_METRIC_TYPE_THROUGHPUT;
  return is_sum && metric.resultType <= ZET_VALUE_TYPE_FLOAT64;
}

void add_metrics(const Functions& ze, zet_metric_group_handle_t group, const std::string& group_name,
                 std::vector<ListedMetric>& into) {
  std::uint32_t count = 0;
  check_metrics(ze.zetMetricGet(group, &count, nullptr), "zetMetricGet of " + group_name);
  std::vector<zet_metric_handle_t> metrics(count);
  check_metrics(ze.zetMetricGet(group, &count, metrics.data()), "zetMetricGet of " + group_name);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto properties = typed<zet_metric_properties_t>(ZET_STRUCTURE_TYPE_METRIC_PROPERTIES);
    check_metrics(ze.zetMetricGetProperties(metrics[i], &properties), "zetMetricGetProperties");
    if (!can_be_added(properties)) continue;
    const std::string units(properties.resultUnits);
    into.push_back({{group_name + "." + properties.name,
                     std::string(properties.description) + (units.empty() ? "" : ", in " + units)},
                    group,
                    i});
  }
}

std::uint64_t whole(const zet_typed_value_t& value) {
  switch (value.type) {
    case ZET_VALUE_TYPE_UINT32:
      return value.value.ui32;
    case ZET_VALUE_TYPE_UINT64:
      return value.value.ui64;
    case ZET_VALUE_TYPE_FLOAT32:
      return static_cast<std::uint64_t>(std::llround(std::max(value.value.fp32, 0.0f)));
    case ZET_VALUE_TYPE_FLOAT64:
      return static_cast<std::uint64_t>(std::llround(std::max(value.value.fp64, 0.0)));
    default:
      return 0;
  }
}

}  // namespace

std::vector<ListedMetric> list_metrics(const Functions& ze, ze_device_handle_t device, std::string& why_none) {
  if (!has_metrics(ze)) {
    why_none = "the Level Zero library has no metrics: version 1.0 or newer of the loader is needed";
    return {};
  }
  std::vector<ListedMetric> basic, all;
  for (zet_metric_group_handle_t const group : find_groups(ze, device, why_none)) {
    auto properties = typed<zet_metric_group_properties_t>(ZET_STRUCTURE_TYPE_METRIC_GROUP_PROPERTIES);
    check_metrics(ze.zetMetricGroupGetProperties(group, &properties), "zetMetricGroupGetProperties");
    if ((properties.samplingType & ZET_METRIC_GROUP_SAMPLING_TYPE_FLAG_EVENT_BASED) == 0) continue;
    add_metrics(ze, group, properties.name, properties.name == kBasicGroup ? basic : all);
  }
  if (!basic.empty()) return basic;
  if (all.empty() && why_none.empty())
    why_none = "no metric of the device counts between two commands and can be added up";
  return all;
}

MetricCounting::MetricCounting(crucible_device& device, const std::vector<std::string>& names)
    : device_(device), counted_(names.size(), 0) {
  const Functions& ze = *device.ze;
  std::string why_none;
  const std::vector<ListedMetric> all = list_metrics(ze, device.facts.device, why_none);
  for (const std::string& name : names) {
    const auto found = std::ranges::find(all, name, [](const ListedMetric& metric) { return metric.counter.name; });
    if (found == all.end())
      throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "profile.begin: the metric " + name + " is gone: " + why_none);
    if (group_ != nullptr && found->group != group_)
      throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                         "profile.begin: " + names.front() + " and " + name +
                             " are of two groups, and a device counts one at a time: ask for one group's");
    group_ = found->group;
    wanted_.push_back(found->index);
  }
  check_metrics(ze.zetMetricGet(group_, &metric_count_, nullptr), "zetMetricGet");
  const std::lock_guard lock(device.run_mutex);
  check_metrics(ze.zetContextActivateMetricGroups(device.context.get(), device.facts.device, 1, &group_),
                "zetContextActivateMetricGroups");
  auto description = typed<zet_metric_query_pool_desc_t>(ZET_STRUCTURE_TYPE_METRIC_QUERY_POOL_DESC);
  description.count = 1;
  zet_metric_query_pool_handle_t pool = nullptr;
  check_metrics(ze.zetMetricQueryPoolCreate(device.context.get(), device.facts.device, group_, &description, &pool),
                "zetMetricQueryPoolCreate");
  pool_ = OwnedMetricQueryPool(ze, pool);
  zet_metric_query_handle_t query = nullptr;
  check_metrics(ze.zetMetricQueryCreate(pool, 0, &query), "zetMetricQueryCreate");
  query_ = OwnedMetricQuery(ze, query);
  device.metrics = this;
}

MetricCounting::~MetricCounting() {
  const std::lock_guard lock(device_.run_mutex);
  device_.metrics = nullptr;
  query_ = {};
  pool_ = {};
  (void)device_.ze->zetContextActivateMetricGroups(device_.context.get(), device_.facts.device, 0, nullptr);
}

std::vector<std::uint64_t> MetricCounting::read() {
  const std::lock_guard lock(device_.run_mutex);
  return std::exchange(counted_, std::vector<std::uint64_t>(counted_.size(), 0));
}

void MetricCounting::append_begin(ze_command_list_handle_t list) {
  check_metrics(device_.ze->zetMetricQueryReset(query_.get()), "zetMetricQueryReset");
  check_metrics(device_.ze->zetCommandListAppendMetricQueryBegin(list, query_.get()),
                "zetCommandListAppendMetricQueryBegin");
}

void MetricCounting::append_end(ze_command_list_handle_t list) {
  check_metrics(device_.ze->zetCommandListAppendMetricQueryEnd(list, query_.get(), nullptr, 0, nullptr),
                "zetCommandListAppendMetricQueryEnd");
}

void MetricCounting::collect() {
  const Functions& ze = *device_.ze;
  std::size_t size = 0;
  check_metrics(ze.zetMetricQueryGetData(query_.get(), &size, nullptr), "zetMetricQueryGetData");
  std::vector<std::uint8_t> raw(size);
  check_metrics(ze.zetMetricQueryGetData(query_.get(), &size, raw.data()), "zetMetricQueryGetData");
  std::uint32_t count = 0;
  const auto calculate = [&](zet_typed_value_t* values) {
    check_metrics(ze.zetMetricGroupCalculateMetricValues(group_, ZET_METRIC_GROUP_CALCULATION_TYPE_METRIC_VALUES, size,
                                                         raw.data(), &count, values),
                  "zetMetricGroupCalculateMetricValues");
  };
  calculate(nullptr);
  std::vector<zet_typed_value_t> values(count);
  calculate(values.data());
  if (count < metric_count_)
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "the driver gives " + std::to_string(count) + " values of " +
                                                   std::to_string(metric_count_) + " metrics");
  for (std::size_t i = 0; i < wanted_.size(); ++i) counted_[i] += whole(values[wanted_[i]]);
}

}  // namespace crucible_intel
