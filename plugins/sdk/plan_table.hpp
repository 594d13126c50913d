// A plan table: reading the list, slots, what a plan answers. Building, patching and starting it is the plugin's.
//
// A plugin defines crucible_plan as a struct that derives from ListedPlan and names, in a struct `Own` of static
// functions, what it does:
//   OpChecks checks(Device&)                          what lists are checked against, if it is not checks_of() below
//   void make(Plan&)                                  if it wants: when the list has been read
//   void patch(Plan&, std::span<const SlotUse>)       if it wants: the scalars of these uses have changed
//   void rebind(Plan&, std::span<const crucible_rebinding>)   if it can: the addresses in the list have changed
//   void run(Plan&)                                   all ops in order, done on return: what a queue table of the SDK's
//                                                     (queue_table.hpp) does with a plan that is submitted
//   std::vector<std::uint64_t> times(Plan&)           the same op by op: nanoseconds of each
//   void describe(const Plan&, crucible_kv_sink, void* user)
//   void destroy(Plan*)                               if it wants: deletes a plan, also one that is half built or whose
//   device is lost; without it, a plan of a device that its watchdog suspects is abandoned
// and makes the table with make_plan_table<Device, Plan, Own>().
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/op_list.hpp"
#include "plugins/sdk/text.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible::sdk {

template <class Device>
struct ListedPlan {
  Device* device = nullptr;
  OpList list;
};

/// Of a device with `addresses` and `facts.id`, whose kernels have a `name`, a `buffer_count` and a `scalar_count`.
template <class Kernel, class Device>
OpChecks checks_of(Device& device) {
  return {.shape_of =
              [](const crucible_kernel& kernel) {
                const Kernel& ours = kernel;
                return KernelShape{ours.name, ours.buffer_count, ours.scalar_count};
              },
          .find = [&device](std::uint64_t address) { return device.addresses.find(address, device.facts.id); }};
}

/// Fills `launches` with what a plugin adds to each op: `make` of the number of a launch, an empty Launch for all else.
/// Those with scalars in slots `has_slots`. When `make` throws, what was made until then is the plan's to give back.
template <class Launch, class Make>
void make_launches(const OpList& list, std::vector<Launch>& launches, const Make& make) {
  for (std::size_t i = 0; i < list.ops.size(); ++i)
    launches.push_back(list.ops[i].kind == CRUCIBLE_OP_LAUNCH ? make(i) : Launch());
  for (const SlotUse& use : list.slot_uses) launches[use.op].has_slots = true;
}

/// `run` on each op, with the host's clock around it. Units: nanoseconds.
template <class Run>
std::vector<std::uint64_t> time_each(std::size_t count, const Run& run) {
  std::vector<std::uint64_t> times;
  for (std::size_t i = 0; i < count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run(i);
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
    times.push_back(static_cast<std::uint64_t>(time.count()));
  }
  return times;
}
inline constexpr const char* kTimesOfHost = "the host's clock around each op";

/// plan.describe of a plan that is a list of ops, one after the other.
template <class Device>
void describe_list(const ListedPlan<Device>& plan, crucible_kv_sink sink, void* user) {
  report(sink, user,
         {text_item("form", "list"), number_item("ops", plan.list.ops.size()), text_item("times", kTimesOfHost)});
}

/// The lock of a device that runs one plan at a time: its `run_mutex`; of others nothing.
template <class Device>
auto take_turn(Device& device) {
  if constexpr (requires { device.run_mutex; }) {
    return std::unique_lock(device.run_mutex);
  } else {
    return 0;
  }
}

/// What an `Own` begins with on a device that runs the ops of a list one after the other: `run_op` does one that does
/// something, done on return. Where the device has a `run_mutex`, one plan runs at a time.
template <class Device, class Plan, void (*run_op)(Device&, const ListedOp&)>
struct ListPlans {
  static void run(Plan& plan) {
    [[maybe_unused]] const auto lock = take_turn(*plan.device);
    for (const ListedOp& op : plan.list.ops) run_one(*plan.device, op);
  }
  static std::vector<std::uint64_t> times(Plan& plan) {
    [[maybe_unused]] const auto lock = take_turn(*plan.device);
    return time_each(plan.list.ops.size(), [&](std::size_t i) { run_one(*plan.device, plan.list.ops[i]); });
  }
  static void describe(const Plan& plan, crucible_kv_sink sink, void* user) { describe_list(plan, sink, user); }

 private:
  static void run_one(Device& device, const ListedOp& op) {
    if (op.does_something()) run_op(device, op);
  }
};

/// The same on a device with a stream that does what is queued to it in order: `begin_op` queues one op, `finish` waits
/// for all that was queued. Also after an op that could not be queued: what stands before it may still use the plan's
/// memory.
template <class Device, class Plan, void (*begin_op)(Device&, const ListedOp&), void (*finish)(Device&)>
struct StreamPlans {
  static void run(Plan& plan) {
    [[maybe_unused]] const auto lock = take_turn(*plan.device);
    run_some(*plan.device, plan.list.ops);
  }
  static std::vector<std::uint64_t> times(Plan& plan) {
    [[maybe_unused]] const auto lock = take_turn(*plan.device);
    return time_each(plan.list.ops.size(),
                     [&](std::size_t i) { run_some(*plan.device, std::span(plan.list.ops).subspan(i, 1)); });
  }
  static void describe(const Plan& plan, crucible_kv_sink sink, void* user) { describe_list(plan, sink, user); }

 private:
  static void run_some(Device& device, std::span<const ListedOp> ops) {
    try {
      for (const ListedOp& op : ops) {
        if (op.does_something()) begin_op(device, op);
      }
    } catch (...) {
      try {
        finish(device);
      } catch (...) {  // the first error is the one that is told
      }
      throw;
    }
    finish(device);
  }
};

template <class Device, class Plan, class Own>
struct PlanFunctions {
  struct Destroy {
    void operator()(Plan* plan) const {
      if constexpr (requires { Own::destroy(plan); }) {
        Own::destroy(plan);
      } else {
        if constexpr (requires { plan->device->watchdog; }) {
          if (plan->device->watchdog.is_suspect()) return abandon(plan);
        }
        delete plan;
      }
    }
  };

  static crucible_status build(Device* device, const crucible_op* ops, std::uint32_t count, std::uint32_t slot_count,
                               Plan** out) {
    return guard([&] {
      require(device != nullptr && out != nullptr, "plan.build: no device or no place for the plan");
      std::unique_ptr<Plan, Destroy> plan(new Plan);
      plan->device = device;
      plan->list = read_ops(ops, count, slot_count, checks(*device));
      if constexpr (requires { Own::make(*plan); }) Own::make(*plan);
      if constexpr (requires { device->ledger; }) device->ledger.add("plan");
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
      constexpr bool patches = requires(std::span<const SlotUse> uses) { Own::patch(*plan, uses); };
      std::vector<SlotUse> changed;
      for (const SlotUse& use : plan->list.slot_uses) {
        std::uint64_t& scalar = plan->list.ops[use.op].scalars[use.scalar];
        if constexpr (patches) {
          if (scalar != values[use.slot]) changed.push_back(use);
        }
        scalar = values[use.slot];
      }
      if constexpr (patches) {
        if (!changed.empty()) Own::patch(*plan, changed);
      }
    });
  }

  static crucible_status profile(Plan* plan, std::uint64_t* out_ns, std::uint32_t count) {
    return guard([&] {
      require(plan != nullptr && (out_ns != nullptr || count == 0), "plan.profile: no plan or no place for the times");
      if (count != plan->list.ops.size()) {
        throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "plan.profile: places for " + std::to_string(count) +
                                                       " times, the plan has " + std::to_string(plan->list.ops.size()) +
                                                       " ops");
      }
      std::ranges::copy(Own::times(*plan), out_ns);
    });
  }

  static crucible_status rebind(Plan* plan, const crucible_rebinding* rebindings, std::uint32_t count) {
    return guard([&] {
      require(plan != nullptr, "plan.rebind: no plan");
      require(count == 0 || rebindings != nullptr, "plan.rebind: the rebindings are missing");
      const std::span all(rebindings, count);
      check_rebindings(plan->list, all, checks(*plan->device));
      for (const crucible_rebinding& each : all) plan->list.ops[each.op].addresses[each.buffer] = each.address;
      Own::rebind(*plan, all);
    });
  }

  static crucible_status destroy_plan(Plan* plan) {
    return guard([&] {
      require(plan != nullptr, "plan.destroy: no plan");
      if constexpr (requires { plan->device->ledger; }) plan->device->ledger.remove("plan");
      Destroy()(plan);
    });
  }

  static crucible_status describe(Plan* plan, crucible_kv_sink sink, void* user) {
    return guard([&] {
      require(plan != nullptr && sink != nullptr, "plan.describe: no plan or no function to report to");
      Own::describe(*plan, sink, user);
    });
  }

 private:
  static OpChecks checks(Device& device) {
    if constexpr (requires { Own::checks(device); }) {
      return Own::checks(device);
    } else {
      return checks_of<crucible_kernel>(device);
    }
  }
};

template <class Device, class Plan, class Own>
constexpr crucible_if_plan make_plan_table() {
  using Functions = PlanFunctions<Device, Plan, Own>;
  crucible_if_plan table = {sizeof(crucible_if_plan),
                            CRUCIBLE_ABI_MINOR,
                            Functions::build,
                            Functions::set_slots,
                            Functions::profile,
                            Functions::destroy_plan,
                            Functions::describe,
                            nullptr};
  if constexpr (requires(Plan& plan) { Own::rebind(plan, std::span<const crucible_rebinding>()); })
    table.rebind = Functions::rebind;
  return table;
}

}  // namespace crucible::sdk
