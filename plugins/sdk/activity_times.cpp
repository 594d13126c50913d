// See activity_times.hpp.
#include "plugins/sdk/activity_times.hpp"

#include <algorithm>

namespace crucible::sdk {
namespace {

void log_kernels(std::string_view plugin, std::size_t op, std::span<const Activity> activities) {
  for (const Activity& activity : activities) {
    if (activity.kernel.empty()) continue;
    log(LogLevel::kDebug, plugin,
        "op " + std::to_string(op) + ": " + activity.kernel + ": " + std::to_string(activity.registers) +
            " registers, " + std::to_string(activity.shared_bytes) + " bytes of shared memory, " +
            std::to_string(activity.end_ns - activity.begin_ns) + " ns");
  }
}

}  // namespace

std::vector<std::uint64_t> times_of_ops(std::span<const Activity> activities, std::span<const OpActivities> ops,
                                        const ProfilerName& name) {
  const std::string tells = std::string(name.profiler) + " tells of ";
  std::size_t expected = 0;
  for (const OpActivities& op : ops) expected += op.count;
  if (activities.size() != expected)
    throw Failure(CRUCIBLE_E_UNAVAILABLE, tells + std::to_string(activities.size()) +
                                              " activities of a plan that has " + std::to_string(expected));
  std::vector<std::uint64_t> times(ops.size(), 0);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].count == 0) continue;
    const std::span<const Activity> own = activities.first(ops[i].count);
    activities = activities.subspan(ops[i].count);
    if (!ops[i].kernel.empty() && own.front().kernel != ops[i].kernel)
      throw Failure(CRUCIBLE_E_UNAVAILABLE, tells + "the kernel '" + own.front().kernel + "' in the place of op " +
                                                std::to_string(i) + ", which is " + std::string(ops[i].kernel));
    times[i] = std::ranges::max(own, {}, &Activity::end_ns).end_ns - own.front().begin_ns;
    log_kernels(name.plugin, i, own);
  }
  return times;
}

}  // namespace crucible::sdk
