// The energy that a device has used, by its own counter.
#pragma once

#include <optional>

#include "plugins/loader/backend.hpp"

namespace crucible::replay {

/// Joules since some moment of the device's, for differences; nothing where its plugin has no table `health`, the
/// device no counter, or reading it is not permitted. Threads: one caller at a time, as for the device.
std::optional<double> joules_of(const backend::Device& device);

}  // namespace crucible::replay
