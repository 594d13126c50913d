// Plans that are graphs of nodes on devices with threads (CUDA, HIP): the arguments of their launches, which library
// calls they take.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "plugins/sdk/compile_table.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/plan_table.hpp"
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
struct DevicePlan : ListedPlan<Device> {
  std::vector<PlannedLaunch> launches;  // one per op of the list; empty for copies and fills
  std::size_t node_count = 0;           // ops that do something
  std::string times_from;               // of its last profile, in words; "" before one
};

/// How `times` below has its own, where nothing better is there.
inline constexpr const char* kTimesOfEvents = "events around each op";

/// The addresses of all launches whose kernels take them from a table, one behind the other; `first` is where each op's
/// begin. Plans never move, so that this is written to the device once.
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
std::vector<PlannedLaunch> plan_launches(const OpList& list, std::uint64_t tables,
                                         const std::vector<std::size_t>& first, std::uint64_t units) {
  std::vector<PlannedLaunch> launches(list.ops.size());
  for (std::size_t i = 0; i < list.ops.size(); ++i) {
    const ListedOp& op = list.ops[i];
    if (op.kind != CRUCIBLE_OP_LAUNCH) continue;
    const Kernel& kernel = *op.kernel;
    require_alignment(i, op, kernel.name, kernel.alignment);
    PlannedLaunch& launch = launches[i];
    launch.arguments = kernel.has_table ? std::vector{tables + first[i] * sizeof(std::uint64_t)} : op.addresses;
    launch.first_scalar = static_cast<std::uint32_t>(launch.arguments.size());
    launch.arguments.insert(launch.arguments.end(), op.scalars.begin(), op.scalars.end());
    launch.arguments.push_back(0);  // begin
    launch.arguments.push_back(static_cast<std::uint64_t>(op.grid));
    launch.shape = launch_shape((op.grid + kernel.items - 1) / kernel.items, kernel.most_threads, units, kernel.lanes);
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

/// checks_of(), and which library calls the device takes.
template <class Kernel, class Device>
OpChecks checks_with_calls_of(Device& device) {
  OpChecks checks = checks_of<Kernel>(device);
  checks.takes_products = takes_products<Device>();
  checks.takes_convolutions = takes_convolutions<Device>();
  checks.epilogues = takes_epilogues<Device>();
  checks.takes_attentions = takes_attentions<Device>();
  return checks;
}

}  // namespace crucible::sdk
