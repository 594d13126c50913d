// Whether a device computes with the mathematics of this host. Each plugin brings the C text of its SDK, and strict
// numerics are the bits of one text.
#pragma once

#include "core/base/result.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

/// Of a device that takes kernel IR. Fast numerics are judged within tolerances, whichever text a kernel calls. Errors:
/// kUnavailable when strict numerics are wanted and the device has another text, or does not tell which.
Result<void> check_mathematics(const backend::Device& device, kernel::Numerics numerics);

}  // namespace crucible::runtime
