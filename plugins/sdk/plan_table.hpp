// A plan table for devices with real addresses whose plans are graphs of nodes (CUDA, HIP): reading the list, the arguments of its
// launches, slots, what a plan answers. Building, patching and starting the graph is the plugin's.
//
// A plugin defines crucible_plan as a struct that derives from DevicePlan, and makes the table with make_plan_table().
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "plugins/sdk/compile_table.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/op_list.hpp"
#include "plugins/sdk/text.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible::sdk {

/// A launch as drivers take it.
struct PlannedLaunch {
  std::vector<std::uint64_t> arguments;  // eight bytes each
  std::uint32_t first_scalar = 0;        // index among the arguments
  LaunchShape shape;

  /// Where each argument lies, as long as this is not changed.
  std::vector<void*> places() {
    std::vector<void*> all;
    for (std::uint64_t& argument : arguments) all.push_back(&argument);
    return all;
  }
};

template <class Device>
struct DevicePlan {
  Device* device = nullptr;
  OpList list;
  std::vector<PlannedLaunch> launches;  // one per op of the list; empty for copies and fills
  std::size_t node_count = 0;           // ops that do something
  std::string times_from;               // of its last profile, in words; "" before one
};

/// How `times` below has its own, where nothing better is there.
inline constexpr const char* kTimesOfEvents = "events around each op";

/// The addresses of all launches whose kernels take them from a table, one behind the other; `first` is where each op's begin. Plans
/// never move, so that this is written to the device once.
template <class Kernel>
std::vector<std::uint64_t> tables_of(const OpList& list, std::vector<std::size_t>& first) {
  std::vector<std::uint64_t> all;
  first.assign(list.ops.size(), 0);
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const ListedOp& op = list.ops[i];
    if (op.kind != CRUCIBLE_OP_LAUNCH || !static_cast<const Kernel*>(op.kernel)->has_table) continue;
    first[i] = all.size();
    all.insert(all.end(), op.addresses.begin(), op.addresses.end());
  }
  return all;
}

/// `tables` is the address of what tables_of() gave; `units` how many multiprocessors share a launch.
template <class Kernel>
std::vector<PlannedLaunch> plan_launches(const OpList& list, std::uint64_t tables, const std::vector<std::size_t>& first,
                                         std::uint64_t units) {
  std::vector<PlannedLaunch> launches(list.ops.size());
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const ListedOp& op = list.ops[i];
    if (op.kind != CRUCIBLE_OP_LAUNCH) continue;
    const Kernel& kernel = *op.kernel;
    for (std::size_t b = 0; b < op.addresses.size(); ++b) {
      if (op.addresses[b] % kernel.alignment == 0) continue;
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.build: op " + std::to_string(i) + ": buffer " + std::to_string(b) + " of kernel " + kernel.name +
                                                     " lies at an address that is no multiple of " + std::to_string(kernel.alignment) +
                                                     " bytes, as kernels that multiply matrices need it: place it so");
    }
    PlannedLaunch& launch = launches[i];
    launch.arguments = kernel.has_table ? std::vector{tables + first[i] * sizeof(std::uint64_t)} : op.addresses;
    launch.first_scalar = static_cast<std::uint32_t>(launch.arguments.size());
    launch.arguments.insert(launch.arguments.end(), op.scalars.begin(), op.scalars.end());
    launch.arguments.push_back(0);  // begin
    launch.arguments.push_back(static_cast<std::uint64_t>(op.grid));
    launch.shape = launch_shape(op.grid, kernel.most_threads, units, kernel.lanes);
  }
  return launches;
}

/// A device says `static constexpr bool kTakesProducts = true` when its plans have library calls.
template <class Device>
constexpr bool takes_products() {
  if constexpr (requires { Device::kTakesProducts; }) {
    return Device::kTakesProducts;
  } else {
    return false;
  }
}

/// The same for those that are convolutions.
template <class Device>
constexpr bool takes_convolutions() {
  if constexpr (requires { Device::kTakesConvolutions; }) {
    return Device::kTakesConvolutions;
  } else {
    return false;
  }
}

/// And `kTakesEpilogues` when its products have them.
template <class Device>
constexpr Epilogues takes_epilogues() {
  if constexpr (requires { Device::kTakesEpilogues; }) {
    return Device::kTakesEpilogues ? Epilogues::kTaken : Epilogues::kDeclined;
  } else {
    return Epilogues::kDeclined;
  }
}

/// And for those that are attentions.
template <class Device>
constexpr bool takes_attentions() {
  if constexpr (requires { Device::kTakesAttentions; }) {
    return Device::kTakesAttentions;
  } else {
    return false;
  }
}

/// `make` builds the graph of a plan whose list is read; `patch` gives one launch's arguments to it anew; `run` replays it on the
/// device's own stream, done on return; `times` replays it, gives nanoseconds per op and says in `times_from` where they are from; `destroy` deletes a plan, also one
/// that is half built or whose device is lost.
template <class Device, class Plan, class Kernel, class Current, void (*make)(Plan&), void (*patch)(Plan&, std::size_t),
          void (*run)(Plan&), std::vector<std::uint64_t> (*times)(Plan&), void (*destroy)(Plan*)>
struct PlanFunctions {
  struct Destroy {
    void operator()(Plan* plan) const { destroy(plan); }
  };

  static crucible_status build(Device* device, const crucible_op* ops, std::uint32_t count, std::uint32_t slot_count, Plan** out) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "plan.build: no device or no place for the plan");
      const Current current(*device);
      std::unique_ptr<Plan, Destroy> plan(new Plan);
      plan->device = device;
      const OpChecks checks = {
          [](const crucible_kernel& kernel) {
            const Kernel& ours = kernel;
            return KernelShape{ours.name, ours.buffer_count, ours.scalar_count};
          },
          [device](std::uint64_t address) { return device->addresses.bytes_left(address, device->facts.id); },
          takes_products<Device>(), takes_convolutions<Device>(), takes_epilogues<Device>(), takes_attentions<Device>()};
      plan->list = read_ops(ops, count, slot_count, checks);
      plan->node_count = static_cast<std::size_t>(std::ranges::count_if(plan->list.ops, &ListedOp::does_something));
      make(*plan);
      device->ledger.add("plan");
      *out = plan.release();
    });
  }

  static crucible_status set_slots(Plan* plan, const std::uint64_t* values, std::uint32_t count) {
    return guard([&] {
      require(plan != nullptr && (values != nullptr || count == 0), "plan.set_slots: no plan or no values");
      if (count != plan->list.slot_count) {
        throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.set_slots: " + std::to_string(count) + " values for " +
                                                       std::to_string(plan->list.slot_count) + " slots");
      }
      const Current current(*plan->device);
      const std::vector<SlotUse>& uses = plan->list.slot_uses;
      // Uses are in the order of the ops: each launch whose scalars changed is patched once.
      for (std::size_t i = 0; i < uses.size();) {
        const std::uint32_t index = uses[i].op;
        PlannedLaunch& launch = plan->launches[index];
        bool has_changed = false;
        for (; i < uses.size() && uses[i].op == index; ++i) {
          std::uint64_t& argument = launch.arguments[launch.first_scalar + uses[i].scalar];
          const std::uint64_t bits = values[uses[i].slot];
          has_changed |= argument != bits;
          argument = bits;
        }
        if (has_changed && plan->list.ops[index].does_something()) patch(*plan, index);
      }
    });
  }

  static crucible_status replay(Plan* plan) {
    return guard([&] {
      require(plan != nullptr, "plan.replay: no plan");
      run(*plan);
    });
  }

  static crucible_status profile(Plan* plan, std::uint64_t* out_ns, std::uint32_t count) {
    return guard([&] {
      require(plan != nullptr && (out_ns != nullptr || count == 0), "plan.profile: no plan or no place for the times");
      if (count != plan->list.ops.size()) {
        throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.profile: places for " + std::to_string(count) + " times, the plan has " +
                                                       std::to_string(plan->list.ops.size()) + " ops");
      }
      const Current current(*plan->device);
      std::ranges::copy(times(*plan), out_ns);
    });
  }

  static crucible_status destroy_plan(Plan* plan) {
    return guard([&] {
      require(plan != nullptr, "plan.destroy: no plan");
      plan->device->ledger.remove("plan");
      destroy(plan);
    });
  }

  static crucible_status describe(Plan* plan, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(plan != nullptr && sink != nullptr, "plan.describe: no plan or no function to report to");
      report(sink, user,
             {text_item("form", "native"), number_item("ops", plan->list.ops.size()), number_item("nodes", plan->node_count)});
      if (!plan->times_from.empty()) report(sink, user, {text_item("times", plan->times_from)});
    });
  }
};

template <class Functions>
constexpr crucible_if_plan make_plan_table() {
  return {sizeof(crucible_if_plan), CRUCIBLE_ABI_MINOR,  Functions::build,        Functions::set_slots,
          Functions::replay,        Functions::profile, Functions::destroy_plan, Functions::describe};
}

}  // namespace crucible::sdk
