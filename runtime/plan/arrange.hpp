// How a schedule gets into memory: the order of its steps, what is computed twice, and the placement of all of it.
// Decided before any device is touched; the session runs exactly this.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/budget/line.hpp"
#include "core/hardware/device_profile.hpp"
#include "runtime/run/session.hpp"

namespace crucible::runtime {

/// What the choices cost and gave. Units: bytes, and nanoseconds of the model of budget::Costs.
struct ArrangeReport {
  std::uint64_t bound_as_recorded = 0;  // most bytes alive at once in the order of the recording
  std::uint64_t bound_ordered = 0;      // in the order chosen for memory
  std::uint32_t moved = 0;              // steps that are elsewhere than in the recording
  std::uint32_t repeats = 0;            // steps that run again
  double repeat_ns = 0, step_ns = 0;    // of the repeats, of all other steps
  std::uint32_t transfers = 0;          // copies between the device and the host
  std::uint64_t transfer_bytes = 0;     // that they move in an iteration
  std::uint64_t peak_bytes = 0;         // of the placement, without red zones
  std::vector<bool> is_repeat;          // per step of the schedule; empty when nothing is repeated
};

struct Arranged {
  std::shared_ptr<const graph::Program> program;  // the given one, or with repeated ops; shared: as in Session
  kernel::Schedule schedule;
  Placement placement;
  ArrangeReport report;
};

/// The model of a device's speed that its published rates give. What is not known stays as in budget::Costs; without a
/// link to a host nothing waits there.
budget::Costs costs_of(const hardware::DeviceProfile& device);

/// That the budget is less than the smallest placement that was found, in words. `placement` is that one, of `program`.
Error over_budget(const MemoryOptions& memory, const graph::Program& program, const ArrangeReport& report,
                  const Placement& placement);

/// Orders, repeats and places, as `memory` asks. `scratch_of` says what a step needs beside its operands. Where states
/// and constants have places that several programs share, their home is the device, whatever the link to the host.
/// Errors: kBadInput when the budget cannot be met, with the smallest one that can; those of place().
Result<Arranged> arrange(std::shared_ptr<const graph::Program> program, kernel::Schedule schedule,
                         const std::function<std::uint64_t(const kernel::Step&)>& scratch_of,
                         const MemoryOptions& memory, std::uint64_t red_zone_bytes = 0);

}  // namespace crucible::runtime
