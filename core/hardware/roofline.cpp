// See roofline.hpp.
#include "core/hardware/roofline.hpp"

#include <fmt/format.h>

namespace crucible::hardware {

std::string_view name(Bound bound) {
  switch (bound) {
    case Bound::kMemory:
      return "memory";
    case Bound::kCompute:
      return "compute";
    case Bound::kLaunch:
      return "launch";
  }
  return "";
}

Bound Prediction::bound() const {
  if (launch_ns > roof_ns()) return Bound::kLaunch;
  return memory_ns >= compute_ns ? Bound::kMemory : Bound::kCompute;
}

double bandwidth_at(const DeviceProfile& profile, double distance_bytes) {
  // Where work-groups have first levels of their own, those are empty when a launch begins.
  const bool has_work_groups = profile.find("sub_group.smallest") != nullptr;
  for (const std::string_view level : level_names()) {
    if (has_work_groups && level == "l1") continue;
    const double size = profile.value(fmt::format("level.{}.size", level));
    const double bandwidth = profile.value(fmt::format("level.{}.bandwidth", level));
    if (bandwidth > 0 && size >= distance_bytes) return bandwidth / 1e9;
  }
  return profile.value("level.dram.bandwidth") / 1e9;
}

double peak_of(const DeviceProfile& profile, std::string_view dtype, bool is_matrix) {
  const auto peak = [&](std::string_view engine, std::string_view type) {
    return profile.value(fmt::format("peak.{}.{}", engine, type)) / 1e9;
  };
  if (is_matrix && peak("matrix", dtype) > 0) return peak("matrix", dtype);
  return peak("vector", dtype) > 0 ? peak("vector", dtype) : peak("vector", "f32");
}

Prediction predict(const DeviceProfile& profile, const Work& work) {
  Prediction prediction;
  for (const Traffic& traffic : work.traffic) {
    const double bandwidth = bandwidth_at(profile, traffic.distance_bytes);
    if (bandwidth > 0) prediction.memory_ns += traffic.bytes / bandwidth;
  }
  const double peak = peak_of(profile, work.dtype, work.is_matrix);
  if (peak > 0) prediction.compute_ns = work.flops / peak;
  prediction.launch_ns =
      profile.value("cost.launch") * 1e9 + (work.is_shared ? profile.value("cost.barrier") * 1e9 : 0);
  return prediction;
}

}  // namespace crucible::hardware
