// What makes a device, its driver and its plugin the same ones as the last time.
#pragma once

#include <string>

#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

/// The plugin and its version, the device and everything that it says of itself (threads, driver, library, compiler),
/// and the host's mathematics: what was found out about one such device need not hold for another.
/// Several lines.
std::string identity_of(const backend::Device& device);

}  // namespace crucible::runtime
