// From the switches and the environment of a command to an opened device: which plugin, with which options. Shared by
// the commands that need a backend.
#pragma once

#include <memory>
#include <string>

#include "core/base/result.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::cli {

/// What a user may say about the backend; "" and 0 mean: the environment decides, then the default.
struct DeviceChoice {
  std::string backend;   // --backend, CRUCIBLE_BACKEND, "cpu"
  std::string device;    // --device, the backend's first one
  unsigned threads = 0;  // --threads, CRUCIBLE_THREADS, the backend's choice
};

/// The name of the backend that open_device() would load.
std::string backend_name(const DeviceChoice& choice);

/// Finds and loads the backend and opens the device. CRUCIBLE_CLANG, CRUCIBLE_CACHE_DIR and CRUCIBLE_LIBRARY go to the
/// plugin as its options "compiler", "cache_dir" and "library".
/// Errors: kUnavailable when plugin or device are missing; kUsage for CRUCIBLE_THREADS that is not a number.
Result<std::shared_ptr<backend::Device>> open_device(const DeviceChoice& choice);

}  // namespace crucible::cli
