// The own declarations of Level Zero's metrics beside the vendor's header, where that is installed (Debian: libze-dev).
#include <gtest/gtest.h>
#include <level_zero/zet_api.h>

#include <cstddef>
#include <vector>

#include "backends/intel/metric_types.hpp"

namespace crucible_intel::ze {
namespace {

#define EXPECT_SAME_PLACE(ours, our_member, theirs, their_member)        \
  EXPECT_EQ(offsetof(ours, our_member), offsetof(theirs, their_member)); \
  EXPECT_EQ(sizeof(ours::our_member), sizeof(theirs::their_member)) << #theirs "." #their_member
#define EXPECT_NUMBER(ours, theirs) \
  EXPECT_EQ(static_cast<std::uint32_t>(ours), static_cast<std::uint32_t>(theirs)) << #theirs

TEST(MetricLayout, StructsAreTheVendors) {
  EXPECT_EQ(sizeof(MetricGroupProperties), sizeof(zet_metric_group_properties_t));
  EXPECT_SAME_PLACE(MetricGroupProperties, name, zet_metric_group_properties_t, name);
  EXPECT_SAME_PLACE(MetricGroupProperties, description, zet_metric_group_properties_t, description);
  EXPECT_SAME_PLACE(MetricGroupProperties, sampling, zet_metric_group_properties_t, samplingType);
  EXPECT_SAME_PLACE(MetricGroupProperties, metric_count, zet_metric_group_properties_t, metricCount);
  EXPECT_EQ(sizeof(MetricProperties), sizeof(zet_metric_properties_t));
  EXPECT_SAME_PLACE(MetricProperties, name, zet_metric_properties_t, name);
  EXPECT_SAME_PLACE(MetricProperties, metric_type, zet_metric_properties_t, metricType);
  EXPECT_SAME_PLACE(MetricProperties, result_type, zet_metric_properties_t, resultType);
  EXPECT_SAME_PLACE(MetricProperties, units, zet_metric_properties_t, resultUnits);
  EXPECT_EQ(sizeof(TypedValue), sizeof(zet_typed_value_t));
  EXPECT_SAME_PLACE(TypedValue, type, zet_typed_value_t, type);
  EXPECT_EQ(offsetof(TypedValue, u64), offsetof(zet_typed_value_t, value));
  EXPECT_EQ(sizeof(MetricQueryPoolDesc), sizeof(zet_metric_query_pool_desc_t));
  EXPECT_SAME_PLACE(MetricQueryPoolDesc, pool_type, zet_metric_query_pool_desc_t, type);
  EXPECT_SAME_PLACE(MetricQueryPoolDesc, count, zet_metric_query_pool_desc_t, count);
}

TEST(MetricLayout, NumbersAreTheVendors) {
  EXPECT_NUMBER(kMetricGroupProperties, ZET_STRUCTURE_TYPE_METRIC_GROUP_PROPERTIES);
  EXPECT_NUMBER(kMetricProperties, ZET_STRUCTURE_TYPE_METRIC_PROPERTIES);
  EXPECT_NUMBER(kMetricQueryPoolDesc, ZET_STRUCTURE_TYPE_METRIC_QUERY_POOL_DESC);
  EXPECT_NUMBER(kEventBased, ZET_METRIC_GROUP_SAMPLING_TYPE_FLAG_EVENT_BASED);
  EXPECT_NUMBER(kDuration, ZET_METRIC_TYPE_DURATION);
  EXPECT_NUMBER(kEventCount, ZET_METRIC_TYPE_EVENT);
  EXPECT_NUMBER(kThroughput, ZET_METRIC_TYPE_THROUGHPUT);
  EXPECT_NUMBER(kRatio, ZET_METRIC_TYPE_RATIO);
  EXPECT_NUMBER(kUint32, ZET_VALUE_TYPE_UINT32);
  EXPECT_NUMBER(kUint64, ZET_VALUE_TYPE_UINT64);
  EXPECT_NUMBER(kFloat32, ZET_VALUE_TYPE_FLOAT32);
  EXPECT_NUMBER(kFloat64, ZET_VALUE_TYPE_FLOAT64);
  EXPECT_NUMBER(kMetricValues, ZET_METRIC_GROUP_CALCULATION_TYPE_METRIC_VALUES);
  EXPECT_NUMBER(MetricQueryPoolDesc{}.pool_type, ZET_METRIC_QUERY_POOL_TYPE_PERFORMANCE);
}

/// Bytes of a function's result and of what it takes.
template <class Answer, class... Parameters>
std::vector<std::size_t> sizes_of(Answer (*)(Parameters...)) {
  return {sizeof(Answer), sizeof(Parameters)...};
}
template <class... Parameters>
std::vector<std::size_t> own_sizes() {
  return {sizeof(Result), sizeof(Parameters)...};
}

TEST(MetricLayout, FunctionsTakeWhatTheVendorsDo) {
#define EXPECT_SAME_SIZES(name, ...) \
  EXPECT_EQ((own_sizes<__VA_ARGS__>()), sizes_of(static_cast<decltype(&::name)>(nullptr))) << #name;
  CRUCIBLE_METRIC_FUNCTIONS(EXPECT_SAME_SIZES)
}

}  // namespace
}  // namespace crucible_intel::ze
