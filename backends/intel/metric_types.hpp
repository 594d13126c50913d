// Level Zero's metrics as this plugin uses them, as the specification of its tools interface lays them out: metric
// groups, queries that count between two commands of a list. A test compares with the vendor's header where that is
// installed.
#pragma once

#include <cstdint>

#include "backends/intel/level_zero_types.hpp"

namespace crucible_intel::ze {

using MetricGroup = struct MetricGroupObject*;
using Metric = struct MetricObject*;
using MetricQueryPool = struct MetricQueryPoolObject*;
using MetricQuery = struct MetricQueryObject*;

inline constexpr std::uint32_t kMetricGroupProperties = 1, kMetricProperties = 2,
                               kMetricQueryPoolDesc = 4;  // their structure types
inline constexpr std::uint32_t kEventBased = 1;           // MetricGroupProperties::sampling
inline constexpr std::uint32_t kDuration = 0, kEventCount = 1, kThroughput = 3,
                               kRatio = 6;                                            // MetricProperties::metric_type
inline constexpr std::uint32_t kUint32 = 0, kUint64 = 1, kFloat32 = 2, kFloat64 = 3;  // TypedValue::type
inline constexpr std::uint32_t kMetricValues = 0;                                     // what is calculated of raw data

struct MetricGroupProperties {
  std::uint32_t type = kMetricGroupProperties;
  void* next = nullptr;
  char name[256] = {}, description[256] = {};
  std::uint32_t sampling = 0, domain = 0, metric_count = 0;
};
struct MetricProperties {
  std::uint32_t type = kMetricProperties;
  void* next = nullptr;
  char name[256] = {}, description[256] = {}, component[256] = {};
  std::uint32_t tier = 0, metric_type = 0, result_type = 0;
  char units[256] = {};
};
struct TypedValue {
  std::uint32_t type = kUint64;
  union {
    std::uint32_t u32;
    std::uint64_t u64;
    float f32;
    double f64;
  };
};
struct MetricQueryPoolDesc {
  std::uint32_t type = kMetricQueryPoolDesc;
  const void* next = nullptr;
  std::uint32_t pool_type = 0, count = 0;
};

// A loader without one of them has no metrics.
#define CRUCIBLE_METRIC_FUNCTIONS(X)                                                                                   \
  X(zetMetricGroupGet, Device, std::uint32_t*, MetricGroup*)                                                           \
  X(zetMetricGroupGetProperties, MetricGroup, MetricGroupProperties*)                                                  \
  X(zetMetricGet, MetricGroup, std::uint32_t*, Metric*)                                                                \
  X(zetMetricGetProperties, Metric, MetricProperties*)                                                                 \
  X(zetContextActivateMetricGroups, Context, Device, std::uint32_t, MetricGroup*)                                      \
  X(zetMetricQueryPoolCreate, Context, Device, MetricGroup, const MetricQueryPoolDesc*, MetricQueryPool*)              \
  X(zetMetricQueryPoolDestroy, MetricQueryPool)                                                                        \
  X(zetMetricQueryCreate, MetricQueryPool, std::uint32_t, MetricQuery*)                                                \
  X(zetMetricQueryDestroy, MetricQuery)                                                                                \
  X(zetMetricQueryReset, MetricQuery)                                                                                  \
  X(zetCommandListAppendMetricQueryBegin, List, MetricQuery)                                                           \
  X(zetCommandListAppendMetricQueryEnd, List, MetricQuery, Event, std::uint32_t, Event*)                               \
  X(zetMetricQueryGetData, MetricQuery, std::size_t*, std::uint8_t*)                                                   \
  X(zetMetricGroupCalculateMetricValues, MetricGroup, std::uint32_t, std::size_t, const std::uint8_t*, std::uint32_t*, \
    TypedValue*)

}  // namespace crucible_intel::ze
