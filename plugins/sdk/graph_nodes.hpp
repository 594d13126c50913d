// The nodes of a CUDA-like driver's graphs, and what each of them is when it is started by itself: one op, or a batch
// of launches. Of the traits class (graph_driver.hpp) this calls enqueue_library_call(Plan&, index, StreamHandle), a
// call of a library by itself: the op; and kCopy(to, from, size, stream), kFill(to, byte, size, stream), kLaunchKernel
// as cuLaunchKernel is, kGraphCreate(graph*, 0), kInstantiate(exec*, graph), kGraphUpload(exec, stream),
// kAddKernelNode(node*, graph, after*, count, parameters*) with kernel_node(), kAddCopyNode(node*, graph, after*,
// count, to, from, size), kAddFillNode(node*, graph, after*, count, FilledRange), kSetKernelNode(exec, node,
// parameters*).
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plugins/sdk/graph_batches.hpp"
#include "plugins/sdk/graph_driver.hpp"
#include "plugins/sdk/thread_plan.hpp"

namespace crucible::sdk {

template <class Api>
struct GraphPlan : DevicePlan<typename Api::Device> {
  using MatrixCall = typename GraphDevice<Api>::MatrixProducts::Call;
  OpOrder order;                                                // the graph
  std::vector<typename Api::Node> nodes;                        // one per node of the order
  std::vector<std::uint64_t> weights;                           // of each op: its share of its batch's time
  std::map<std::size_t, std::vector<MatrixCall>> matrix_calls;  // by op: products that are kernels for the matrix units
  std::map<std::size_t, PlannedBatch<Api>> batches;             // by node: those that are several launches
  PlanTables<Api> tables;
  bool has_sizes = false;  // of buffers
};

/// Four bytes at a time where the range allows it.
struct FilledRange {
  std::uint64_t address = 0, bytes = 0, width = 0;  // width: in elements
  unsigned value = 0, element_size = 1;
};
inline FilledRange filled_range(const ListedOp& op) {
  const bool is_wide = op.addresses[0] % 4 == 0 && op.size % 4 == 0;
  return {.address = op.addresses[0],
          .bytes = op.size,
          .width = is_wide ? op.size / 4 : op.size,
          .value = is_wide ? op.pattern * 0x01010101u : op.pattern,
          .element_size = is_wide ? 4u : 1u};
}

/// What a graph is built of. The device must be the current one throughout.
template <class Api>
struct GraphNodes {
  using Device = typename Api::Device;
  using Plan = typename Api::Plan;
  using Node = typename Api::Node;
  using Stream = typename Api::StreamHandle;
  using MatrixCall = typename GraphPlan<Api>::MatrixCall;
  using Blocks = std::array<std::uint32_t, 3>;

  static typename Api::Graph make_graph(Device& device) {
    typename Api::Graph::Handle graph = nullptr;
    device.call({"plan.build: "}, Api::kGraphCreate, &graph, 0u);
    return {*device.driver, graph};
  }

  static typename Api::GraphExec instantiate(Device& device, const typename Api::Graph& graph, CallText text) {
    typename Api::GraphExec::Handle executable = nullptr;
    device.call(text, Api::kInstantiate, &executable, graph.get());
    typename Api::GraphExec owned(*device.driver, executable);
    // Now, not with its first launch.
    device.call(text, Api::kGraphUpload, executable, device.stream.get());
    return owned;
  }

  /// A node of the order that is no library's call, behind `after`; the driver's, the last where it is several.
  static Node add_node(Plan& plan, const typename Api::Graph& to, std::size_t node, std::span<const Node> after) {
    Device& device = *plan.device;
    const std::size_t index = plan.order.nodes[node].ops.front();
    const ListedOp& op = plan.list.ops[index];
    const std::string what = "plan.build: op " + std::to_string(index) + ": ";
    Node made = nullptr;
    if (op.kind == CRUCIBLE_OP_COPY) {
      device.call({what}, Api::kAddCopyNode, &made, to.get(), after.data(), after.size(), op.addresses[0],
                  op.addresses[1], op.size);
    } else if (op.kind == CRUCIBLE_OP_FILL) {
      device.call({what}, Api::kAddFillNode, &made, to.get(), after.data(), after.size(), filled_range(op));
    } else if (const auto calls = plan.matrix_calls.find(index); calls != plan.matrix_calls.end()) {
      made = add_matrix_nodes(device, to, calls->second, what, after);
    } else {
      Launch launch = launch_of(plan, node);
      const auto parameters = launch.parameters();
      device.call({what, " of " + launch.name}, Api::kAddKernelNode, &made, to.get(), after.data(), after.size(),
                  &parameters);
    }
    return made;
  }

  /// Nodes of the order from `first` on, one of which is a library's call where `add_library_call(node, after)` says
  /// how that is added; where `may_add` says no, they end. As a chain: each waits for the one before it. Where they
  /// end.
  template <class MayAdd, class AddLibraryCall>
  static std::size_t add_nodes(Plan& plan, const typename Api::Graph& to, std::vector<Node>& made, bool is_chain,
                               std::size_t first, const MayAdd& may_add, const AddLibraryCall& add_library_call) {
    std::size_t node = first;
    for (; node < plan.order.nodes.size() && may_add(node); ++node) {
      std::vector<Node> after;
      if (is_chain && node != first) after.push_back(made[node - 1]);
      for (const std::size_t before : plan.order.nodes[node].after) {
        if (!is_chain && before >= first) after.push_back(made[before]);
      }
      made[node] = is_library_call(plan, node) ? add_library_call(node, after) : add_node(plan, to, node, after);
    }
    return node;
  }

  /// Of a library whose launches are its secret.
  static bool is_library_call(const Plan& plan, std::size_t node) {
    const std::size_t index = plan.order.nodes[node].ops.front();
    return plan.list.ops[index].kind == CRUCIBLE_OP_LIBRARY && !plan.matrix_calls.contains(index);
  }

  /// The node by itself, as the graph would run it.
  static void enqueue(Plan& plan, std::size_t node, Stream stream) {
    Device& device = *plan.device;
    const std::size_t index = plan.order.nodes[node].ops.front();
    const ListedOp& op = plan.list.ops[index];
    const std::string what = "plan.profile: op " + std::to_string(index) + ": ";
    if (op.kind == CRUCIBLE_OP_COPY) {
      device.call({what}, Api::kCopy, op.addresses[0], op.addresses[1], op.size, stream);
    } else if (op.kind == CRUCIBLE_OP_FILL) {
      device.call({what}, Api::kFill, op.addresses[0], op.pattern, op.size, stream);
    } else if (const auto calls = plan.matrix_calls.find(index); calls != plan.matrix_calls.end()) {
      for (const MatrixCall& call : calls->second) {
        std::array<void*, kMatrixArguments> places = call.launch.places();
        launch(device, {what, " of a product for the " + std::string(Api::kMatrixUnits)}, call.function,
               call.launch.blocks, call.launch.threads, stream, places.data());
      }
    } else if (op.kind == CRUCIBLE_OP_LIBRARY) {
      Api::enqueue_library_call(plan, index, stream);
    } else {
      Launch whole = launch_of(plan, node);
      launch(device, {what, " of " + whole.name}, whole.function, whole.blocks(), whole.shape.threads, stream,
             whole.places.data());
    }
  }

  /// Gives the arguments of a launch to an executable graph of the plan's. `what` names the call.
  static void set_arguments(Plan& plan, const typename Api::GraphExec& executable, std::size_t node,
                            const std::string& what) {
    Launch launch = launch_of(plan, node);
    const auto parameters = launch.parameters();
    const std::size_t index = plan.order.nodes[node].ops.front();
    plan.device->call({what + ": op " + std::to_string(index) + ": "}, Api::kSetKernelNode, executable.get(),
                      plan.nodes[node], &parameters);
  }

  /// Kernels, library calls and products for the matrix units, but no copies and fills.
  static std::size_t launch_count(const Plan& plan) {
    std::size_t count = 0;
    for (const OrderedNode& node : plan.order.nodes) {
      const ListedOp& op = plan.list.ops[node.ops.front()];
      const auto calls = plan.matrix_calls.find(node.ops.front());
      if (op.kind != CRUCIBLE_OP_COPY && op.kind != CRUCIBLE_OP_FILL)
        count += calls == plan.matrix_calls.end() ? 1 : calls->second.size();
    }
    return count;
  }

 private:
  /// A launch of one op or of several. `places` are into the plan, which stays as it is while they are used.
  struct Launch {
    typename Api::Function function;
    std::string name;
    LaunchShape shape;
    std::vector<void*> places;
    Blocks blocks() const { return {shape.blocks, 1, 1}; }
    auto parameters() { return Api::kernel_node(function, blocks(), shape.threads, places.data()); }
  };
  static Launch launch_of(Plan& plan, std::size_t node) {
    if (const auto batch = plan.batches.find(node); batch != plan.batches.end())
      return {batch->second.function, batch->second.name, batch->second.shape, batch->second.places()};
    const std::size_t index = plan.order.nodes[node].ops.front();
    const typename Api::Kernel& kernel = *plan.list.ops[index].kernel;
    return {kernel.function, kernel.name, plan.launches[index].shape, plan.launches[index].places()};
  }

  /// One node for each place of the product, each after the one before it; the last one.
  static Node add_matrix_nodes(Device& device, const typename Api::Graph& to, const std::vector<MatrixCall>& calls,
                               const std::string& what, std::span<const Node> after) {
    Node last = nullptr;
    for (const MatrixCall& call : calls) {
      std::array<void*, kMatrixArguments> places = call.launch.places();
      const auto parameters = Api::kernel_node(call.function, call.launch.blocks, call.launch.threads, places.data());
      const Node before = last;
      const std::span<const Node> own = before == nullptr ? after : std::span<const Node>(&before, 1);
      device.call({what, " of a product for the " + std::string(Api::kMatrixUnits)}, Api::kAddKernelNode, &last,
                  to.get(), own.data(), own.size(), &parameters);
    }
    return last;
  }

  static void launch(Device& device, CallText text, typename Api::Function function, const Blocks& blocks,
                     std::uint32_t threads, Stream stream, void** places) {
    device.call(text, Api::kLaunchKernel, function, blocks[0], blocks[1], blocks[2], threads, 1u, 1u, 0u, stream,
                places, nullptr);
  }
};

}  // namespace crucible::sdk
