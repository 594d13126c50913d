// Times of a plan's ops by what the device did: CUPTI's records of one replay of the whole graph, so without the gaps
// that events between the ops would make. A record's graphNodeId is that of a node inside the executable graph, which
// nothing gives for a node of ours. But the graph that is traced is a chain and the number of activities of each node
// is known, so the records in the order of their begin are those of the nodes in their order; the kernels' names have
// to agree.
#include "backends/nvidia/activities.hpp"
#include "backends/nvidia/plan.hpp"

namespace crucible_nvidia {
namespace {

using namespace crucible;

/// CUPTI need not tell of the nodes of a graph that was instantiated before it traced: the one that is traced is
/// instantiated while it does, as a chain, so that no node's time has another's in it.
void replay_anew(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  std::vector<CUgraphNode> nodes;
  const Graph graph = build_graph(plan, true, nodes);
  const GraphExec executable = Plans::instantiate(device, graph, {"plan.profile: "});
  device.call({"plan.profile: "}, GraphApi::kGraphLaunch, executable.get(), device.stream.get());
  device.synchronize(device.stream.get(), "plan.profile");
}

std::vector<std::uint64_t> times_of(const crucible_plan& plan, const std::vector<sdk::Activity>& activities) {
  std::vector<sdk::OpActivities> nodes(plan.node_count);
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const sdk::ListedOp& op = plan.list.ops[plan.order.nodes[node].ops.front()];
    const auto batch = plan.batches.find(node);
    nodes[node] = {plan.activities[node], batch != plan.batches.end()     ? std::string_view(batch->second.name)
                                          : op.kind == CRUCIBLE_OP_LAUNCH ? std::string_view(op.kernel->name)
                                                                          : ""};
  }
  return sdk::times_of_ops(activities, nodes, {"nvidia", "CUPTI"});
}

}  // namespace

/// Nothing where there is no CUPTI for the device, where counters are counted, or where it has refused: the reason is
/// logged once.
std::optional<std::vector<std::uint64_t>> GraphApi::traced_times(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  std::string note;
  const Cupti* const cupti = plan.node_count == 0 ? nullptr : find_cupti(*device.driver, device.facts, note);
  if (cupti == nullptr) return std::nullopt;
  return sdk::times_unless_refused(device, "nvidia",
                                   [&] { return times_of(plan, trace_graphs(*cupti, [&] { replay_anew(plan); })); });
}

}  // namespace crucible_nvidia
