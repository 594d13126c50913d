// Counters of a device as metrics of Level Zero: which can be added up, and counting them around the command lists of
// plans.
#pragma once

#include <string>
#include <vector>

#include "backends/intel/level_zero.hpp"
#include "plugins/sdk/counters.hpp"

struct crucible_device;

namespace crucible_intel {

/// A metric called GROUP.NAME, of those that are durations, events or bytes: ratios and rates cannot be added.
struct ListedMetric {
  crucible::sdk::Counter counter;
  zet_metric_group_handle_t group = nullptr;
  std::uint32_t index = 0;  // among the group's metrics
};

/// Those of the group ComputeBasic where the device has it, else of every group that counts between two commands. None:
/// `why_none` says why. Threads: any. Errors: PERMISSION, and others of the driver.
std::vector<ListedMetric> list_metrics(const Functions& ze, ze_device_handle_t device, std::string& why_none);

/// Counts the metrics of one group in every plan that the device runs while it lives: a plan's list is recorded anew
/// with a query around it.
class MetricCounting : public crucible::sdk::Counting {
 public:
  /// Errors: PERMISSION; UNAVAILABLE for metrics of several groups, which no device counts at once.
  MetricCounting(crucible_device& device, const std::vector<std::string>& names);
  ~MetricCounting() override;
  std::vector<std::uint64_t> read() override;

  // For the one who records and runs a list; all with the device's run mutex.
  void append_begin(ze_command_list_handle_t list);
  void append_end(ze_command_list_handle_t list);
  /// When the list is done.
  void collect();

 private:
  crucible_device& device_;
  zet_metric_group_handle_t group_ = nullptr;
  std::vector<std::uint32_t> wanted_;  // indices among the group's metrics
  std::uint32_t metric_count_ = 0;
  OwnedMetricQueryPool pool_;
  OwnedMetricQuery query_;
  std::vector<std::uint64_t> counted_;  // since the last read
};

}  // namespace crucible_intel
