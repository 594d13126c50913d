// Launches of a plan that become one (batch_kernel.hpp), on a CUDA-like driver: which may, the kernels that do them,
// and their tables. All tables of a plan lie in one buffer of the device, which is written by one copy whenever numbers
// in slots have changed. Of the traits class (graph_driver.hpp) this calls what graph_compile.hpp does, and
// kHostAlloc(address*, size), kUpload(to, from, size, stream).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plugins/sdk/batch_kernel.hpp"
#include "plugins/sdk/graph_compile.hpp"
#include "plugins/sdk/op_order.hpp"
#include "plugins/sdk/thread_plan.hpp"

namespace crucible::sdk {

/// One launch for several ops.
template <class Api>
struct PlannedBatch {
  typename Api::Function function = nullptr;
  std::string name;
  LaunchShape shape;
  std::vector<std::uint64_t> arguments;   // as PlannedLaunch has them
  std::vector<std::size_t> first_scalar;  // of each op: the word in the plan's tables

  std::vector<void*> places() {
    std::vector<void*> all;
    for (std::uint64_t& argument : arguments) all.push_back(&argument);
    return all;
  }
};

/// What the device reads: tables of buffers, then of batches, in its memory and in memory of the host that it copies
/// from by itself.
template <class Api>
struct PlanTables {
  typename Api::Memory memory;
  typename Api::HostMemory staging;
  std::span<std::uint64_t> words;  // in the staging
  bool has_changed = false;        // since the device got them
};

template <class Api>
struct GraphBatches {
  using Device = typename Api::Device;
  using Plan = typename Api::Plan;
  using Kernel = typename Api::Kernel;

  /// Ops that may become one have one number: those of one kernel; or all of small launches, where kernels may be
  /// mixed.
  static std::vector<std::size_t> kinds_of(const Device& device, const OpList& list) {
    std::vector<std::size_t> kinds(list.ops.size(), kAlone);
    if (device.batching == Batching::kNone) return kinds;
    std::map<const Kernel*, std::int64_t> most;  // items
    for (const ListedOp& op : list.ops) {
      if (op.kind == CRUCIBLE_OP_LAUNCH) most[op.kernel] = std::max(most[op.kernel], op.grid);
    }
    std::map<std::pair<const Kernel*, std::uint32_t>, std::size_t> known;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const ListedOp& op = list.ops[i];
      if (op.kind != CRUCIBLE_OP_LAUNCH) continue;
      const Kernel* const kernel = op.kernel;
      if (kernel->batch_part.text.empty()) continue;
      const bool is_mixed = device.batching == Batching::kMixed && is_small(device, *kernel, most[kernel]);
      const std::pair key(is_mixed ? nullptr : kernel, kernel->lanes);
      kinds[i] = known.try_emplace(key, known.size() + 1).first->second;
    }
    return kinds;
  }

  /// Tables and batches of a plan whose order is known. The device must be the current one.
  static void make(Plan& plan, const std::vector<std::uint64_t>& buffers) {
    Device& device = *plan.device;
    build_kernels(plan);
    std::vector<std::uint64_t> words = buffers;
    std::vector<std::pair<std::size_t, std::size_t>> first;  // of each batch: its node, its first word
    for (std::size_t node = 0; node < plan.order.nodes.size(); ++node) {
      if (!is_batch(plan, node)) continue;
      first.emplace_back(node, words.size());
      add_batch(plan, node, words);
    }
    if (words.empty()) return;
    const std::uint64_t size = words.size() * sizeof(std::uint64_t);
    plan.tables.memory = Api::allocate(device, size);
    void* staging = nullptr;
    device.call({"plan.build: "}, Api::kHostAlloc, &staging, size);
    plan.tables.staging = {*device.driver, staging};
    plan.tables.words = {static_cast<std::uint64_t*>(staging), words.size()};
    std::ranges::copy(words, plan.tables.words.begin());
    plan.tables.has_changed = true;
    const std::uint64_t address = device_address(plan.tables.memory.get());
    for (const auto& [node, word] : first)
      plan.batches.at(node).arguments.front() = address + word * sizeof(std::uint64_t);
    upload(plan, device.stream.get(), "plan.build: ");
    device.synchronize(device.stream.get(), "plan.build");
  }

  /// What has changed, by one copy, before whatever `stream` does next.
  static void upload(Plan& plan, typename Api::StreamHandle stream, std::string_view what) {
    if (!std::exchange(plan.tables.has_changed, false)) return;
    plan.device->call({what, " of tables of launches"}, Api::kUpload, device_address(plan.tables.memory.get()),
                      static_cast<const void*>(plan.tables.words.data()), plan.tables.words.size_bytes(), stream);
  }

  /// The number of the op's scalar in its batch's table; false where the op is in none.
  static bool set_scalar(Plan& plan, const SlotUse& use) {
    const std::size_t node = plan.order.node_of[use.op];
    const auto batch = plan.batches.find(node);
    if (batch == plan.batches.end()) return false;
    const std::vector<std::size_t>& ops = plan.order.nodes[node].ops;
    const auto place = static_cast<std::size_t>(std::ranges::lower_bound(ops, use.op) - ops.begin());
    plan.tables.words[batch->second.first_scalar[place] + use.scalar] = plan.list.ops[use.op].scalars[use.scalar];
    return plan.tables.has_changed = true;
  }

 private:
  // A launch that leaves most of the device idle, of a kernel that takes little of what a block's threads share: beside
  // others it costs them nothing. Threads of each multiprocessor, bytes of a kernel.
  static constexpr std::uint64_t kMixedThreads = 1024, kMixedSharedBytes = 4096;
  static bool is_small(const Device& device, const Kernel& kernel, std::int64_t items) {
    return static_cast<std::uint64_t>(items) * kernel.lanes <= device.facts.units * kMixedThreads &&
           kernel.shared_bytes <= kMixedSharedBytes;
  }

  static bool is_batch(const Plan& plan, std::size_t node) { return plan.order.nodes[node].ops.size() > 1; }

  /// The kernels of a node's ops, by name.
  static std::map<std::string, Kernel*> kernels_of(const Plan& plan, std::size_t node) {
    std::map<std::string, Kernel*> kernels;
    for (const std::size_t op : plan.order.nodes[node].ops) {
      Kernel* const kernel = plan.list.ops[op].kernel;
      kernels.emplace(kernel->name, kernel);
    }
    return kernels;
  }

  static std::string name_of(const std::map<std::string, Kernel*>& kernels) {
    std::vector<std::string> names;
    for (const auto& [name, kernel] : kernels) names.push_back(name);
    return batch_name(names);
  }

  static void add_batch(Plan& plan, std::size_t node, std::vector<std::uint64_t>& words) {
    const std::map<std::string, Kernel*> kernels = kernels_of(plan, node);
    const std::string name = name_of(kernels);
    const Kernel& first = *kernels.begin()->second;
    const std::shared_ptr<const GraphBatchKernel<Api>> built = first.batches.at(name);
    std::vector<BatchEntry> entries;
    for (const std::size_t i : plan.order.nodes[node].ops) {
      const ListedOp& op = plan.list.ops[i];
      const Kernel& kernel = *op.kernel;
      entries.push_back({.buffers = op.addresses,
                         .scalars = op.scalars,
                         .begin = 0,
                         .end = op.grid,
                         .part = static_cast<std::size_t>(std::distance(kernels.begin(), kernels.find(kernel.name))),
                         .at_once = kernel.items});
    }
    BatchTable table = make_batch(entries, built->most_threads, plan.device->facts.units, first.lanes);
    PlannedBatch<Api>& batch = plan.batches[node];
    batch.function = built->function;
    batch.name = name;
    batch.shape = table.shape;
    batch.arguments = {0, entries.size()};
    for (const std::size_t word : table.first_scalar) batch.first_scalar.push_back(words.size() + word);
    words.insert(words.end(), table.words.begin(), table.words.end());
  }

  /// Those of the plan's batches that no plan has wanted before.
  static void build_kernels(Plan& plan) {
    Device& device = *plan.device;
    const std::lock_guard lock(device.batches_mutex);
    for (const bool is_careful : {false, true}) {
      ThreadKernels texts;
      std::map<std::string, std::map<std::string, Kernel*>> missing;  // of each batch: its kernels
      for (std::size_t node = 0; node < plan.order.nodes.size(); ++node) {
        if (!is_batch(plan, node)) continue;
        const std::map<std::string, Kernel*> kernels = kernels_of(plan, node);
        const std::string name = name_of(kernels);
        bool wants_care = false;
        std::vector<BatchPart> parts;
        for (const auto& [of, kernel] : kernels) {
          wants_care |= kernel->is_careful;
          parts.push_back(kernel->batch_part);
        }
        if (wants_care != is_careful || kernels.begin()->second->batches.contains(name)) continue;
        missing[name] = kernels;
        texts[name].text = print_batch_kernel(parts, Api::dialect(), name);
      }
      const auto batches = batch_kernels(texts, Api::dialect(), is_careful);
      std::vector<BuiltBatch<Api>> built = Api::build_programs(device, batches);
      for (std::size_t i = 0; i < batches.size(); ++i) {
        const auto module = std::make_shared<typename Api::DriverModule>(std::move(built[i].module));
        for (const std::string& name : batches[i].names) take(device, missing.at(name), module, name);
      }
    }
  }

  static void take(Device& device, const std::map<std::string, Kernel*>& kernels,
                   const std::shared_ptr<typename Api::DriverModule>& module, const std::string& name) {
    auto batch = std::make_shared<GraphBatchKernel<Api>>();
    batch->module = module;
    batch->function = find_function<Api>(device, *module, name);
    const std::uint64_t most = GraphCompile<Api>::function_number(device, batch->function, Api::kMostThreads);
    Kernel& first = *kernels.begin()->second;
    batch->most_threads = static_cast<std::uint32_t>(most);
    for (const auto& [of, kernel] : kernels) batch->most_threads = std::min(batch->most_threads, kernel->most_threads);
    batch->most_threads -= batch->most_threads % first.lanes;
    if (batch->most_threads == 0) {
      throw Failure(CRUCIBLE_E_UNSUPPORTED,
                    "kernel " + name + " is done by " + std::to_string(first.lanes) +
                        " threads together, and the device gives a block of it " + std::to_string(most) +
                        ": set the option batches to none",
                    {{"kernel", first.name}});
    }
    first.batches.emplace(name, std::move(batch));
  }
};

}  // namespace crucible::sdk
