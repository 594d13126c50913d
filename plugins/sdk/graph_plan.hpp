// Plan table of a CUDA-like driver: the host's checked list as a graph, built node by node. Ops are in order, so each
// node depends on the one before it. Slots are patched in the executable graph. What a library's own launches become (a
// child graph, a break between two graphs) is the plugin's.
//
// A plugin defines crucible_plan as a struct that derives from GraphPlan, and makes the table with
// make_graph_plan_table(). Of its traits class (graph_driver.hpp) this calls
//   build_plan(Plan&)                                  graphs of a plan that is begun: begin_plan() has been called
//   run_plan(Plan&, StreamHandle)                      all ops in order, done on return; makes the device the current
//   one itself executable_of(Plan&, index)                        the executable graph that a launch is in
//   enqueue_library_call(Plan&, index, StreamHandle)   a call of a library by itself
//   traced_times(Plan&), traced_from(const Plan&)      nanoseconds per op by the vendor's profiler, or nothing; where
//   they are from, in words
// and kCopy(to, from, size, stream), kFill(to, byte, size, stream), kUpload, kLaunchKernel as cuLaunchKernel is,
// kEventCreate(event*), kEventRecord, kEventElapsedTime, kGraphCreate(graph*, 0), kInstantiate(exec*, graph),
// kGraphLaunch(exec, stream), kAddKernelNode(node*, graph, after*, count, parameters*) with kernel_node(),
// kAddCopyNode(node*, graph, after*, count, to, from, size), kAddFillNode(node*, graph, after*, count, FilledRange),
// kSetKernelNode(exec, node, parameters*).
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugins/sdk/activity_times.hpp"
#include "plugins/sdk/graph_driver.hpp"
#include "plugins/sdk/thread_plan.hpp"

namespace crucible::sdk {

template <class Api>
struct GraphPlan : DevicePlan<typename Api::Device> {
  using MatrixCall = typename GraphDevice<Api>::MatrixProducts::Call;
  std::vector<typename Api::Node> nodes;                        // one per op; none for an op that does nothing
  std::map<std::size_t, std::vector<MatrixCall>> matrix_calls;  // by op: products that are kernels for the matrix units
  typename Api::Memory tables;                                  // addresses of buffers, for kernels that take them so
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
struct GraphPlans {
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
    return {*device.driver, executable};
  }

  /// The node of an op that is no library's call, behind `last` where there is one.
  static Node add_node(Plan& plan, const typename Api::Graph& to, std::size_t index, Node last) {
    Device& device = *plan.device;
    const ListedOp& op = plan.list.ops[index];
    const std::string what = "plan.build: op " + std::to_string(index) + ": ";
    const std::size_t count = last == nullptr ? 0 : 1;
    Node node = nullptr;
    if (op.kind == CRUCIBLE_OP_COPY) {
      device.call({what}, Api::kAddCopyNode, &node, to.get(), &last, count, op.addresses[0], op.addresses[1], op.size);
    } else if (op.kind == CRUCIBLE_OP_FILL) {
      device.call({what}, Api::kAddFillNode, &node, to.get(), &last, count, filled_range(op));
    } else if (const auto calls = plan.matrix_calls.find(index); calls != plan.matrix_calls.end()) {
      node = add_matrix_nodes(device, to, calls->second, what, last);
    } else {
      std::vector<void*> places = plan.launches[index].places();
      const auto parameters = launch_parameters(plan, index, places);
      device.call({what, " of " + kernel_of(op).name}, Api::kAddKernelNode, &node, to.get(), &last, count, &parameters);
    }
    return node;
  }

  /// Gives the arguments of the launch at `index` to an executable graph of the plan's. `what` names the call.
  static void set_arguments(Plan& plan, const typename Api::GraphExec& executable, std::size_t index,
                            const std::string& what) {
    std::vector<void*> places = plan.launches[index].places();
    const auto parameters = launch_parameters(plan, index, places);
    plan.device->call({what + ": op " + std::to_string(index) + ": "}, Api::kSetKernelNode, executable.get(),
                      plan.nodes[index], &parameters);
  }

  static void begin_plan(Plan& plan) {
    Device& device = *plan.device;
    std::vector<std::size_t> first;
    const std::vector<std::uint64_t> all = tables_of<typename Api::Kernel>(plan.list, first);
    if (!all.empty()) {
      plan.tables = Api::allocate(device, all.size() * sizeof(std::uint64_t));
      device.call({"plan.build: ", " of tables of buffers"}, Api::kUpload, device_address(plan.tables.get()),
                  static_cast<const void*>(all.data()), all.size() * sizeof(std::uint64_t), device.stream.get());
      device.synchronize(device.stream.get(), "plan.build");
    }
    plan.launches =
        plan_launches<typename Api::Kernel>(plan.list, device_address(plan.tables.get()), first, device.facts.units);
    plan.matrix_calls = calls_without_library(plan.list, *device.matrix_products, [&](const Gemm& gemm) {
      return device.require_products().scratch_bytes(gemm);
    });
    plan.nodes.assign(plan.list.ops.size(), nullptr);
  }

  static OpChecks checks(Device& device) { return checks_with_calls_of<typename Api::Kernel>(device); }

  static void make(Plan& plan) {
    const typename Api::Current current(*plan.device);
    plan.node_count = static_cast<std::size_t>(std::ranges::count_if(plan.list.ops, &ListedOp::does_something));
    begin_plan(plan);
    Api::build_plan(plan);
  }

  /// Uses are in the order of the ops: each launch whose scalars changed is patched once.
  static void patch(Plan& plan, std::span<const SlotUse> changed) {
    const typename Api::Current current(*plan.device);
    for (std::size_t i = 0; i < changed.size(); ++i) {
      const SlotUse& use = changed[i];
      const ListedOp& op = plan.list.ops[use.op];
      PlannedLaunch& launch = plan.launches[use.op];
      launch.arguments[launch.first_scalar + use.scalar] = op.scalars[use.scalar];
      if ((i + 1 < changed.size() && changed[i + 1].op == use.op) || !op.does_something()) continue;
      set_arguments(plan, Api::executable_of(plan, use.op), use.op, "plan.set_slots");
    }
  }

  static void run(Plan& plan) { Api::run_plan(plan, plan.device->stream.get()); }

  /// Graphs and tables are given back while the device is the current one.
  static void destroy(Plan* plan) {
    if (plan->device->watchdog.is_suspect()) return abandon(plan);
    const typename Api::Current current(*plan->device, typename Api::Current::EvenIfLost{});
    delete plan;
  }

  static std::vector<std::uint64_t> times(Plan& plan) {
    const typename Api::Current current(*plan.device);
    plan.times_from = Api::traced_from(plan);
    if (std::optional<std::vector<std::uint64_t>> traced = Api::traced_times(plan)) return *std::move(traced);
    plan.times_from = kTimesOfEvents;
    return times_by_events(plan);
  }

  static void describe(const Plan& plan, crucible_kv_sink sink, void* user) {
    report(
        sink, user,
        {text_item("form", "native"), number_item("ops", plan.list.ops.size()), number_item("nodes", plan.node_count)});
    if (!plan.times_from.empty()) report(sink, user, {text_item("times", plan.times_from)});
  }

 private:
  static const typename Api::Kernel& kernel_of(const ListedOp& op) { return *op.kernel; }

  static auto launch_parameters(const Plan& plan, std::size_t index, std::vector<void*>& places) {
    const LaunchShape& shape = plan.launches[index].shape;
    return Api::kernel_node(kernel_of(plan.list.ops[index]).function, Blocks{shape.blocks, 1, 1}, shape.threads,
                            places.data());
  }

  /// One node for each place of the product, each after the one before it; the last one.
  static Node add_matrix_nodes(Device& device, const typename Api::Graph& to, const std::vector<MatrixCall>& calls,
                               const std::string& what, Node last) {
    for (const MatrixCall& call : calls) {
      std::array<void*, kMatrixArguments> places = call.launch.places();
      const auto parameters = Api::kernel_node(call.function, call.launch.blocks, call.launch.threads, places.data());
      const Node before = last;
      const std::size_t count = before == nullptr ? 0 : 1;
      device.call({what, " of a product for the " + std::string(Api::kMatrixUnits)}, Api::kAddKernelNode, &last,
                  to.get(), &before, count, &parameters);
    }
    return last;
  }

  static void launch(Device& device, CallText text, typename Api::Function function, const Blocks& blocks,
                     std::uint32_t threads, Stream stream, void** places) {
    device.call(text, Api::kLaunchKernel, function, blocks[0], blocks[1], blocks[2], threads, 1u, 1u, 0u, stream,
                places, nullptr);
  }

  /// The op by itself, as the graph would run it.
  static void enqueue(Plan& plan, std::size_t index, Stream stream) {
    Device& device = *plan.device;
    const ListedOp& op = plan.list.ops[index];
    const std::string what = "plan.profile: op " + std::to_string(index) + ": ";
    if (!op.does_something()) return;
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
      std::vector<void*> places = plan.launches[index].places();
      const LaunchShape& shape = plan.launches[index].shape;
      launch(device, {what, " of " + kernel_of(op).name}, kernel_of(op).function, {shape.blocks, 1, 1}, shape.threads,
             stream, places.data());
    }
  }

  /// One before the first op, and one behind each.
  static std::vector<std::uint64_t> times_by_events(Plan& plan) {
    Device& device = *plan.device;
    Stream const stream = device.stream.get();
    std::vector<typename Api::Event> marks;
    for (std::size_t i = 0; i <= plan.nodes.size(); ++i) {
      typename Api::Event::Handle event = nullptr;
      device.call({"plan.profile: "}, Api::kEventCreate, &event);
      marks.emplace_back(*device.driver, event);
      if (i != 0) enqueue(plan, i - 1, stream);
      device.call({"plan.profile: "}, Api::kEventRecord, event, stream);
    }
    device.synchronize(stream, "plan.profile");
    std::vector<std::uint64_t> result(plan.nodes.size(), 0);
    for (std::size_t i = 0; i < result.size(); ++i) {
      float milliseconds = 0;
      if (!plan.list.ops[i].does_something()) continue;
      device.call({"plan.profile: "}, Api::kEventElapsedTime, &milliseconds, marks[i].get(), marks[i + 1].get());
      result[i] = static_cast<std::uint64_t>(std::max(milliseconds, 0.0f) * 1e6f);
    }
    return result;
  }
};

template <class Api>
constexpr crucible_if_plan make_graph_plan_table() {
  return make_plan_table<typename Api::Device, typename Api::Plan, GraphPlans<Api>>();
}

}  // namespace crucible::sdk
