// Times of a plan's ops by what the device did: CUPTI's records of one replay of the whole graph, so without the gaps that events between the ops would
// make. A record's graphNodeId is that of a node inside the executable graph, which nothing gives for a node of ours. But the graph is a chain and the
// number of activities of each node is known, so the records in the order of their begin are those of the ops in their order; the kernels' names
// have to agree.
#include <algorithm>
#include <numeric>

#include "backends/nvidia/activities.hpp"
#include "backends/nvidia/plan.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"

namespace crucible_nvidia {
namespace {

using namespace crucible;

/// CUPTI need not tell of the nodes of a graph that was instantiated before it traced: the one that is traced is instantiated while it does.
void replay_anew(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  const Cuda& cuda = *device.cuda;
  CUgraphExec executable = nullptr;
  device.check(cuda.cuGraphInstantiateWithFlags(&executable, plan.graph.get(), 0), "plan.profile: cuGraphInstantiateWithFlags");
  const GraphExec owned(cuda, executable);
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const sdk::ListedOp& op = plan.list.ops[i];
    if (op.kind == CRUCIBLE_OP_LAUNCH && op.does_something()) set_arguments(plan, executable, i, "plan.profile");
  }
  device.check(cuda.cuGraphLaunch(executable, device.stream.get()), "plan.profile: cuGraphLaunch");
  device.synchronize(device.stream.get(), "plan.profile");
}

std::vector<std::uint64_t> times_of(const crucible_plan& plan, const std::vector<Activity>& activities) {
  const std::size_t expected = std::accumulate(plan.activities.begin(), plan.activities.end(), std::size_t{0});
  if (activities.size() != expected)
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "CUPTI tells of " + std::to_string(activities.size()) + " activities of a plan that has " +
                                                   std::to_string(expected));
  std::vector<std::uint64_t> times(plan.nodes.size(), 0);
  std::size_t at = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (plan.activities[i] == 0) continue;
    const std::span own = std::span(activities).subspan(at, plan.activities[i]);
    at += own.size();
    const sdk::ListedOp& op = plan.list.ops[i];
    if (op.kind == CRUCIBLE_OP_LAUNCH && own.front().kernel != op.kernel->name)
      throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "CUPTI tells of the kernel '" + own.front().kernel + "' in the place of op " + std::to_string(i) +
                                                     ", which is " + op.kernel->name);
    times[i] = std::ranges::max(own, {}, &Activity::end_ns).end_ns - own.front().begin_ns;
    for (const Activity& activity : own) {
      if (activity.kernel.empty()) continue;
      sdk::log(sdk::LogLevel::kDebug, "nvidia", "op " + std::to_string(i) + ": " + activity.kernel + ": " + std::to_string(activity.registers) +
                                                    " registers, " + std::to_string(activity.shared_bytes) + " bytes of shared memory, " +
                                                    std::to_string(activity.end_ns - activity.begin_ns) + " ns");
    }
  }
  return times;
}

}  // namespace

std::optional<std::vector<std::uint64_t>> times_by_activities(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  if (plan.node_count == 0 || device.refuses_tracing || device.counters.is_counting()) return std::nullopt;
  std::string note;
  const Cupti* const cupti = find_cupti(*device.cuda, device.facts, note);
  if (cupti == nullptr) return std::nullopt;
  try {
    return times_of(plan, trace_graphs(*cupti, [&] { replay_anew(plan); }));
  } catch (const sdk::Failure& failure) {
    if (failure.code() == CRUCIBLE_E_DEVICE_LOST) throw;
    if (!device.refuses_tracing.exchange(true))
      sdk::log(sdk::LogLevel::kWarning, "nvidia", device.facts.id + ": times per op are those of events: " + failure.what());
    return std::nullopt;
  }
}

}  // namespace crucible_nvidia
