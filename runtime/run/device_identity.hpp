// What makes a device, its driver and its plugin the same ones as the last time.
#pragma once

#include <string>

#include "core/kernel/ir/numerics.hpp"
#include "plugins/loader/backend.hpp"
#include "store/key.hpp"

namespace crucible::runtime {

/// Begins the key of something that was found out about a device: what holds for one need not hold for another. It
/// names the plugin and its version, the device and everything that it says of itself (threads, driver, library,
/// compiler), and the host's mathematics, each by its name, so that a miss can be explained.
store::ActionKey key_about(const backend::Device& device, std::string kind, kernel::Numerics numerics);

}  // namespace crucible::runtime
