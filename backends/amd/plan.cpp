// What is HIP's own in a plan: graphs that are never captured. Products by rocBLAS and convolutions by MIOpen run
// between graphs on the same stream: the list is cut at each of them. To capture them would save launches, but rocBLAS
// calls that a beta feature, and says of older releases that it is not safe; MIOpen loads code and asks after streams
// of its own when it likes, which ends a capture.
#include "backends/amd/plan.hpp"

namespace crucible_amd {
namespace {

using namespace crucible;

/// Not a node of a graph.
bool is_library_call(const crucible_plan& plan, std::size_t index) {
  return plan.list.ops[index].kind == CRUCIBLE_OP_LIBRARY && !plan.matrix_calls.contains(index);
}

/// The ops from `first` on that one graph takes, up to a library call or the end. Returns where it ends.
std::size_t make_graph(crucible_plan& plan, std::size_t first) {
  PlanPiece piece;
  piece.graph = Plans::make_graph(*plan.device);
  hipGraphNode_t last = nullptr;
  std::size_t i = first, node_count = 0;
  for (; i < plan.nodes.size() && !is_library_call(plan, i); ++i) {
    if (!plan.list.ops[i].does_something()) continue;
    plan.nodes[i] = last = Plans::add_node(plan, piece.graph, i, last);
    plan.piece_of[i] = plan.pieces.size();
    ++node_count;
  }
  if (node_count == 0) return i;
  piece.executable =
      Plans::instantiate(*plan.device, piece.graph, {"plan.build: ", " of " + std::to_string(node_count) + " nodes"});
  plan.pieces.push_back(std::move(piece));
  return i;
}

/// A piece of its own. Everything that the library makes for the call is made now.
void add_library_call(crucible_plan& plan, std::size_t index) {
  const sdk::ListedOp& op = plan.list.ops[index];
  plan.piece_of[index] = plan.pieces.size();
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
  plan.piece_of.assign(plan.list.ops.size(), 0);
  if (plan.node_count == 0) return;
  for (std::size_t i = 0; i < plan.nodes.size();) {
    if (is_library_call(plan, i)) {
      add_library_call(plan, i++);
    } else {
      i = make_graph(plan, i);
    }
  }
}

const GraphExec& GraphApi::executable_of(const crucible_plan& plan, std::size_t index) {
  return plan.pieces[plan.piece_of[index]].executable;
}

void GraphApi::enqueue_library_call(crucible_plan& plan, std::size_t index, hipStream_t stream) {
  enqueue(*plan.device, plan.pieces[plan.piece_of[index]], stream);
}

std::string_view GraphApi::traced_from(const crucible_plan& plan) {
  return plan.pieces.size() == 1 ? "rocprofiler-sdk's records of one replay of the whole graph"
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
  for (const PlanPiece& piece : plan.pieces) run_piece(plan, piece, stream, "queue.submit: ");
  device.synchronize(stream, "queue.submit");
}

}  // namespace crucible_amd
