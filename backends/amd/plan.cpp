// What is HIP's own in a plan: graphs that are never captured. Products by rocBLAS and convolutions by MIOpen run
// between graphs on the same stream: the list is cut at each of them. To capture them would save launches, but rocBLAS
// calls that a beta feature, and says of older releases that it is not safe; MIOpen loads code and asks after streams
// of its own when it likes, which ends a capture.
#include "backends/amd/plan.hpp"

#include <algorithm>

namespace crucible_amd {
namespace {

using namespace crucible;

/// The nodes of the order from `first` on that one graph takes, up to a library call or the end. Returns where it ends.
std::size_t add_nodes(crucible_plan& plan, const Graph& graph, std::vector<hipGraphNode_t>& nodes, bool is_chain,
                      std::size_t first) {
  return Plans::add_nodes(
      plan, graph, nodes, is_chain, first, [&](std::size_t node) { return !Plans::is_library_call(plan, node); },
      [](std::size_t, const std::vector<hipGraphNode_t>&) -> hipGraphNode_t { return nullptr; });
}

std::size_t make_graph(crucible_plan& plan, std::size_t first) {
  PlanPiece piece;
  piece.graph = Plans::make_graph(*plan.device);
  const std::size_t end = add_nodes(plan, piece.graph, plan.nodes, false, first);
  for (std::size_t node = first; node < end; ++node) plan.piece_of[node] = plan.pieces.size();
  piece.executable =
      Plans::instantiate(*plan.device, piece.graph, {"plan.build: ", " of " + std::to_string(end - first) + " nodes"});
  plan.pieces.push_back(std::move(piece));
  return end;
}

/// A piece of its own. Everything that the library makes for the call is made now.
void add_library_call(crucible_plan& plan, std::size_t node) {
  const std::size_t index = plan.order.nodes[node].ops.front();
  const sdk::ListedOp& op = plan.list.ops[index];
  plan.piece_of[node] = plan.pieces.size();
  PlanPiece& piece = plan.pieces.emplace_back();
  piece.call = &op;
  if (op.product != nullptr) {
    (void)plan.device->require_products();
  } else {
    const std::uint64_t scratch = op.scratch_bytes == 0 ? 0 : op.addresses[3];
    piece.convolution = &plan.device->require_convolutions().prepare(*op.convolution, scratch, op.scratch_bytes);
  }
}

void enqueue(crucible_device& device, const PlanPiece& piece, hipStream_t stream) {
  const sdk::ListedOp& op = *piece.call;
  if (op.product != nullptr)
    return device.require_products().enqueue(*op.product, op.addresses.data(), op.scratch_bytes, stream);
  device.require_convolutions().enqueue(*piece.convolution, *op.convolution, op.addresses.data(), stream);
}

}  // namespace

void GraphApi::build_plan(crucible_plan& plan) {
  plan.piece_of.assign(plan.node_count, 0);
  for (std::size_t node = 0; node < plan.node_count;) {
    if (Plans::is_library_call(plan, node)) {
      add_library_call(plan, node++);
    } else {
      node = make_graph(plan, node);
    }
  }
}

const GraphExec& GraphApi::executable_of(const crucible_plan& plan, std::size_t node) {
  return plan.pieces[plan.piece_of[node]].executable;
}

void GraphApi::enqueue_library_call(crucible_plan& plan, std::size_t index, hipStream_t stream) {
  enqueue(*plan.device, plan.pieces[plan.piece_of[plan.order.node_of[index]]], stream);
}

GraphExec chain_of(crucible_plan& plan, std::size_t piece, Graph& graph) {
  const auto first = static_cast<std::size_t>(std::ranges::find(plan.piece_of, piece) - plan.piece_of.begin());
  std::vector<hipGraphNode_t> nodes(plan.node_count, nullptr);
  graph = Plans::make_graph(*plan.device);
  (void)add_nodes(plan, graph, nodes, true, first);
  return Plans::instantiate(*plan.device, graph, {"plan.profile: "});
}

std::string_view GraphApi::traced_from(const crucible_plan& plan) {
  return plan.pieces.size() == 1 ? "rocprofiler-sdk's records of one replay of the whole graph, node after node"
                                 : "rocprofiler-sdk's records of one replay, graph by graph and call by call";
}

void run_piece(crucible_plan& plan, const PlanPiece& piece, hipStream_t stream, std::string_view what) {
  if (piece.call != nullptr) return enqueue(*plan.device, piece, stream);
  plan.device->call({what}, GraphApi::kGraphLaunch, piece.executable.get(), stream);
}

void GraphApi::run_plan(crucible_plan& plan, hipStream_t stream) {
  crucible_device& device = *plan.device;
  const Current current(device);
  if (plan.node_count == 0) return;
  Plans::prepare_run(plan, stream, "queue.submit: ");
  for (const PlanPiece& piece : plan.pieces) run_piece(plan, piece, stream, "queue.submit: ");
  device.synchronize(stream, "queue.submit");
}

}  // namespace crucible_amd
