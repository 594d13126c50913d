// Plan table of a CUDA-like driver: the host's checked list as a graph, whose edges are what ops wait for
// (op_order.hpp) and in which launches of one kernel are one where they may (graph_batches.hpp). Slots are patched in
// the executable graph, those of batches in their table. What a library's own launches become (a child graph, a break
// between two graphs) is the plugin's.
//
// A plugin defines crucible_plan as a struct that derives from GraphPlan, and makes the table with
// make_graph_plan_table(). Of its traits class (graph_driver.hpp) this calls
//   build_plan(Plan&)                 graphs of a plan that is begun: begin_plan() has been called
//   run_plan(Plan&, StreamHandle)     all ops, done on return, prepare_run() first; makes the device the current one
//   executable_of(Plan&, node)        the executable graph that a launch is in
//   traced_times(Plan&), traced_from(const Plan&)    nanoseconds per node of the order by the vendor's profiler, or
//                                                    nothing; where they are from, in words
// and kUpload, kEventCreate(event*), kEventRecord, kEventElapsedTime, kGraphLaunch(exec, stream), and what
// graph_nodes.hpp and graph_batches.hpp do.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugins/sdk/activity_times.hpp"
#include "plugins/sdk/graph_nodes.hpp"

namespace crucible::sdk {

template <class Api>
struct GraphPlans : GraphNodes<Api> {
  using Device = typename Api::Device;
  using Plan = typename Api::Plan;
  using Stream = typename Api::StreamHandle;
  using Nodes = GraphNodes<Api>;

  static void begin_plan(Plan& plan) {
    Device& device = *plan.device;
    order(plan);
    plan.matrix_calls = calls_without_library(plan.list, *device.matrix_products, [&](const Gemm& gemm) {
      return device.require_products().scratch_bytes(gemm);
    });
    std::vector<std::size_t> first;
    Batches::make(plan, tables_of<typename Api::Kernel>(plan.list, first));
    plan.launches = plan_launches<typename Api::Kernel>(plan.list, device_address(plan.tables.memory.get()), first,
                                                        device.facts.units);
    plan.nodes.assign(plan.order.nodes.size(), nullptr);
  }

  static OpChecks checks(Device& device) {
    OpChecks checks = checks_with_calls_of<typename Api::Kernel>(device);
    checks.takes_sizes = true;
    return checks;
  }

  static void make(Plan& plan) {
    const typename Api::Current current(*plan.device);
    begin_plan(plan);
    Api::build_plan(plan);
  }

  /// Uses are in the order of the ops: each launch whose scalars changed is patched once, and all batches by one copy
  /// when the plan runs next.
  static void patch(Plan& plan, std::span<const SlotUse> changed) {
    const typename Api::Current current(*plan.device);
    for (std::size_t i = 0; i < changed.size(); ++i) {
      const SlotUse& use = changed[i];
      const ListedOp& op = plan.list.ops[use.op];
      if (!op.does_something() || Batches::set_scalar(plan, use)) continue;
      PlannedLaunch& launch = plan.launches[use.op];
      launch.arguments[launch.first_scalar + use.scalar] = op.scalars[use.scalar];
      if (i + 1 < changed.size() && changed[i + 1].op == use.op) continue;
      const std::size_t node = plan.order.node_of[use.op];
      Nodes::set_arguments(plan, Api::executable_of(plan, node), node, "plan.set_slots");
    }
  }

  /// Before a graph of the plan's is started on `stream`.
  static void prepare_run(Plan& plan, Stream stream, std::string_view what) { Batches::upload(plan, stream, what); }

  static void run(Plan& plan) { Api::run_plan(plan, plan.device->stream.get()); }

  /// Graphs and tables are given back while the device is the current one.
  static void destroy(Plan* plan) {
    if (plan->device->watchdog.is_suspect()) return abandon(plan);
    const typename Api::Current current(*plan->device, typename Api::Current::EvenIfLost{});
    delete plan;
  }

  static std::vector<std::uint64_t> times(Plan& plan) {
    const typename Api::Current current(*plan.device);
    prepare_run(plan, plan.device->stream.get(), "plan.profile: ");
    std::string from(Api::traced_from(plan));
    std::optional<std::vector<std::uint64_t>> times = Api::traced_times(plan);
    if (!times) {
      from = kTimesOfEvents;
      times = times_by_events(plan);
    }
    if (!plan.batches.empty())
      from +=
          "; that of launches which are one is shared among them by " + std::string(plan.has_sizes ? "bytes" : "items");
    plan.times_from = from;
    return times_of_ops(plan, *times);
  }

  static void describe(const Plan& plan, crucible_kv_sink sink, void* user) {
    report(sink, user,
           {text_item("form", "native"), number_item("ops", plan.list.ops.size()),
            number_item("nodes", plan.order.nodes.size()), number_item("launches", Nodes::launch_count(plan)),
            number_item("batches", plan.batches.size()), number_item("longest_path", plan.order.longest_path)});
    if (!plan.times_from.empty()) report(sink, user, {text_item("times", plan.times_from)});
  }

 private:
  using Batches = GraphBatches<Api>;

  static void order(Plan& plan) {
    std::vector<std::vector<TouchedBytes>> touched;
    std::vector<bool> is_left_out;
    for (const ListedOp& op : plan.list.ops) {
      const typename Api::Kernel* const kernel = op.kernel;
      touched.push_back(touched_bytes(op, kernel == nullptr ? std::vector<bool>() : kernel->written));
      is_left_out.push_back(!op.does_something());
      plan.has_sizes |= !op.sizes.empty();
      std::uint64_t bytes = 0;
      for (const TouchedBytes& range : touched.back()) bytes += range.size();
      plan.weights.push_back(op.sizes.empty() ? static_cast<std::uint64_t>(op.grid) : bytes);
    }
    plan.order = order_ops(waits_of(touched), Batches::kinds_of(*plan.device, plan.list), is_left_out);
    plan.node_count = plan.order.nodes.size();
  }

  /// Of nodes to those of ops.
  static std::vector<std::uint64_t> times_of_ops(const Plan& plan, const std::vector<std::uint64_t>& times) {
    std::vector<std::uint64_t> result(plan.list.ops.size(), 0);
    for (std::size_t node = 0; node < times.size(); ++node) {
      const std::vector<std::size_t>& ops = plan.order.nodes[node].ops;
      std::vector<std::uint64_t> weights;
      for (const std::size_t op : ops) weights.push_back(plan.weights[op]);
      const std::vector<std::uint64_t> shares = shared_time(times[node], weights);
      for (std::size_t i = 0; i < ops.size(); ++i) result[ops[i]] = shares[i];
    }
    return result;
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
      if (i != 0) Nodes::enqueue(plan, i - 1, stream);
      device.call({"plan.profile: "}, Api::kEventRecord, event, stream);
    }
    device.synchronize(stream, "plan.profile");
    std::vector<std::uint64_t> result(plan.nodes.size(), 0);
    for (std::size_t i = 0; i < result.size(); ++i) {
      float milliseconds = 0;
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
