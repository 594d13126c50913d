// Times of a plan's ops by what the device did: rocprofiler-sdk's records of one replay, piece by piece, so without the
// gaps that events between the ops would make. A piece is a graph, whose nodes are a chain, or one call of a library,
// which launches what it likes.
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

std::vector<std::size_t> ops_of_piece(const crucible_plan& plan, std::size_t piece) {
  std::vector<std::size_t> ops;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    if (plan.list.ops[i].does_something() && plan.piece_of[i] == piece) ops.push_back(i);
  }
  return ops;
}

/// How many records each op of a graph has. A kernel has one; a copy or a fill has as many as the runtime likes, which
/// lie between those of the ops around it: of several copies in a row, or several fills, each has one, or the records
/// cannot be told apart.
std::vector<sdk::OpActivities> activities_of_ops(const crucible_plan& plan, const std::vector<std::size_t>& ops,
                                                 const std::vector<sdk::Activity>& heard) {
  std::vector<sdk::OpActivities> expected(plan.nodes.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < ops.size();) {
    const sdk::ListedOp& op = plan.list.ops[ops[i]];
    if (op.kind != CRUCIBLE_OP_COPY && op.kind != CRUCIBLE_OP_FILL) {
      const auto calls = plan.matrix_calls.find(ops[i]);
      sdk::OpActivities& own = expected[ops[i++]];
      own = calls != plan.matrix_calls.end() ? sdk::OpActivities{calls->second.size(), ""}
                                             : sdk::OpActivities{1, op.kernel->name};
      at += own.count;
      continue;
    }
    std::size_t end = i, records = 0;
    while (end < ops.size() && plan.list.ops[ops[end]].kind == op.kind) ++end;
    while (at + records < heard.size() && is_of(op, heard[at + records])) ++records;
    const std::size_t each = end - i == 1 ? std::max<std::size_t>(records, 1) : 1;
    for (; i < end; ++i) expected[ops[i]] = {each, ""}, at += each;
  }
  return expected;
}

std::vector<std::uint64_t> times_of_pieces(crucible_plan& plan, Profiler& profiler) {
  crucible_device& device = *plan.device;
  const ProfiledAgent& agent = profiler.agent_of(device.facts);
  std::vector<std::uint64_t> times(plan.nodes.size(), 0);
  for (std::size_t piece = 0; piece < plan.pieces.size(); ++piece) {
    const std::vector<std::size_t> ops = ops_of_piece(plan, piece);
    const auto heard = profiler.trace(agent, ops.size(), [&] {
      run_piece(plan, plan.pieces[piece], device.stream.get(), "plan.profile: ");
      device.synchronize(device.stream.get(), "plan.profile");
    });
    std::vector<sdk::OpActivities> expected(plan.nodes.size());
    if (plan.pieces[piece].call == nullptr) {
      expected = activities_of_ops(plan, ops, heard);
    } else {
      expected[ops.front()] = {std::max<std::size_t>(heard.size(), 1), ""};
    }
    const std::vector<std::uint64_t> own = sdk::times_of_ops(heard, expected, {"amd", "rocprofiler-sdk"});
    for (const std::size_t op : ops) times[op] = own[op];
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
