// How long each step of a schedule takes at best on a device: the roofline of core/hardware over what the steps read
// and write.
#pragma once

#include <vector>

#include "core/graph/program.hpp"
#include "core/hardware/roofline.hpp"
#include "core/kernel/schedule.hpp"

namespace crucible::runtime {

/// One per step, for an iteration among others (what an iteration carries over was touched by the one before).
///
/// Bytes that are read come from the nearest level that is as large as what was touched since they were: a value that
/// the step before made is still in a cache that holds both. Bytes that are written go where all that the step touches
/// has room. Opaque steps and transfers are judged by their bytes alone; transfers go over the link to the host where
/// the profile has one.
std::vector<hardware::Prediction> predict_steps(const graph::Program& program, const kernel::Schedule& schedule,
                                                const hardware::DeviceProfile& profile);

}  // namespace crucible::runtime
