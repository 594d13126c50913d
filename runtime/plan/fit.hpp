// Would a plan fit on a device, and what would make it fit: the arithmetic behind `crucible plan --device-profile`. It
// changes no plan; it says how far a plan is away, and which part of it can be had back by what means.
#pragma once

#include <cstdint>

#include "core/hardware/device_profile.hpp"
#include "runtime/plan/roles.hpp"

namespace crucible::runtime {

/// Units: bytes, rounded up to kAlignment per buffer.
struct Fit {
  bool fits = false;
  std::uint64_t usable_bytes = 0;   // of the device
  std::uint64_t peak_bytes = 0;     // of the plan
  std::uint64_t missing_bytes = 0;  // 0 where it fits
  std::uint64_t carried_bytes = 0;  // parameters, buffers, optimizer states, constants: there at every step
  // Alive where the plan is largest, beside what is carried:
  std::uint64_t activation_bytes = 0;  // can be recomputed, or moved to the host until the backward reads them
  std::uint64_t gradient_bytes = 0;
  std::uint64_t rest_bytes = 0;  // inputs, temporaries, workspaces
  /// What is carried and the most that one step touches beside it. No order of the steps, no recomputation and no
  /// moving of activations gets below, while states stay on the device.
  std::uint64_t floor_bytes = 0;
  std::uint32_t floor_step = 0;
  std::uint64_t batch = 0;          // of the recording; 0: not known
  std::uint64_t largest_batch = 0;  // an estimate; 0: not even one, or not known
};

/// `batch` is how many samples the recording's inputs hold, 0 if that is not known. The estimate of the largest one
/// lets what the forward and the backward make, read and scratch grow with it, step by step, and leaves states and
/// gradients as they are.
Fit fit(const hardware::DeviceProfile& device, const graph::Program& program, const kernel::Schedule& schedule,
        const Placement& placement, const PlanRoles& roles, std::uint64_t batch);

}  // namespace crucible::runtime
