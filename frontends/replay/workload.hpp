// What a program would ask of a device: for devices that are asked how fast they would be, and for the memory check.
#pragma once

#include "core/base/result.hpp"
#include "core/graph/variants.hpp"
#include "frontends/replay/device_choice.hpp"

namespace crucible::replay {

/// Ops, flops, bytes moved and planned peak of the program with generated kernels alone: which calls a library takes is
/// known only once a device is chosen. Errors: those of scheduling and planning.
Result<Workload> workload_of(const graph::Program& program, bool fuse);

/// The same of a recording, by its variant of most ops. Errors: those.
Result<Workload> workload_of(const graph::Variants& variants, bool fuse);

}  // namespace crucible::replay
