// Times of a plan's ops by what the device did: rocprofiler-sdk's records of one replay, piece by piece, so without the
// gaps that events between the ops would make. A piece is a graph, traced as a chain of its nodes, or one call of a
// library, which launches what it likes.
#include <algorithm>

#include "backends/amd/plan.hpp"
#include "backends/amd/profiler.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_amd {
namespace {

using namespace crucible;

constexpr std::string_view kOwnKernels = "__amd_rocclr_";  // the runtime's, by which it copies and fills

/// Of a copy or of a fill, whichever `op` is.
bool is_of(const sdk::ListedOp& op, const sdk::Activity& activity) {
  if (!activity.kernel.empty() && !activity.kernel.starts_with(kOwnKernels)) return false;
  return activity.kernel.contains("fill") == (op.kind == CRUCIBLE_OP_FILL);
}

const sdk::ListedOp& op_of(const crucible_plan& plan, std::size_t node) {
  return plan.list.ops[plan.order.nodes[node].ops.front()];
}

std::vector<std::size_t> nodes_of_piece(const crucible_plan& plan, std::size_t piece) {
  std::vector<std::size_t> nodes;
  for (std::size_t node = 0; node < plan.node_count; ++node) {
    if (plan.piece_of[node] == piece) nodes.push_back(node);
  }
  return nodes;
}

sdk::OpActivities launches_of(const crucible_plan& plan, std::size_t node) {
  const auto calls = plan.matrix_calls.find(plan.order.nodes[node].ops.front());
  if (calls != plan.matrix_calls.end()) return {calls->second.size(), ""};
  const auto batch = plan.batches.find(node);
  return {1, batch != plan.batches.end() ? batch->second.name : op_of(plan, node).kernel->name};
}

/// How many records each node of a graph has. A kernel has one; a copy or a fill has as many as the runtime likes,
/// which lie between those of the nodes around it: of several copies in a row, or several fills, each has one, or the
/// records cannot be told apart.
std::vector<sdk::OpActivities> activities_of(const crucible_plan& plan, const std::vector<std::size_t>& nodes,
                                             const std::vector<sdk::Activity>& heard) {
  std::vector<sdk::OpActivities> expected(plan.node_count);
  std::size_t at = 0;
  for (std::size_t i = 0; i < nodes.size();) {
    const sdk::ListedOp& op = op_of(plan, nodes[i]);
    if (op.kind != CRUCIBLE_OP_COPY && op.kind != CRUCIBLE_OP_FILL) {
      sdk::OpActivities& own = expected[nodes[i]];
      own = launches_of(plan, nodes[i++]);
      at += own.count;
      continue;
    }
    std::size_t end = i, records = 0;
    while (end < nodes.size() && op_of(plan, nodes[end]).kind == op.kind) ++end;
    while (at + records < heard.size() && is_of(op, heard[at + records])) ++records;
    const std::size_t each = end - i == 1 ? std::max<std::size_t>(records, 1) : 1;
    for (; i < end; ++i) expected[nodes[i]] = {each, ""}, at += each;
  }
  return expected;
}

std::vector<std::uint64_t> times_of_pieces(crucible_plan& plan, Profiler& profiler) {
  crucible_device& device = *plan.device;
  const ProfiledAgent& agent = profiler.agent_of(device.facts);
  std::vector<std::uint64_t> times(plan.node_count, 0);
  for (std::size_t piece = 0; piece < plan.pieces.size(); ++piece) {
    const std::vector<std::size_t> nodes = nodes_of_piece(plan, piece);
    const bool is_graph = plan.pieces[piece].call == nullptr;
    Graph graph;
    const GraphExec chain = is_graph ? chain_of(plan, piece, graph) : GraphExec();
    const auto heard = profiler.trace(agent, nodes.size(), [&] {
      if (is_graph) {
        device.call({"plan.profile: "}, GraphApi::kGraphLaunch, chain.get(), device.stream.get());
      } else {
        run_piece(plan, plan.pieces[piece], device.stream.get(), "plan.profile: ");
      }
      device.synchronize(device.stream.get(), "plan.profile");
    });
    std::vector<sdk::OpActivities> expected(plan.node_count);
    if (is_graph) {
      expected = activities_of(plan, nodes, heard);
    } else {
      expected[nodes.front()] = {std::max<std::size_t>(heard.size(), 1), ""};
    }
    const std::vector<std::uint64_t> own = sdk::times_of_ops(heard, expected, {"amd", "rocprofiler-sdk"});
    for (const std::size_t node : nodes) times[node] = own[node];
  }
  return times;
}

}  // namespace

/// Nothing where there is no profiler for the device, where counters are counted, or where it has refused: the reason
/// is logged once.
std::optional<std::vector<std::uint64_t>> GraphApi::traced_times(crucible_plan& plan) {
  crucible_device& device = *plan.device;
  std::string note;
  Profiler* const profiler = plan.node_count == 0 ? nullptr : find_profiler(device.facts, note);
  if (profiler == nullptr) return std::nullopt;
  return sdk::times_unless_refused(device, "amd", [&] { return times_of_pieces(plan, *profiler); });
}

}  // namespace crucible_amd
