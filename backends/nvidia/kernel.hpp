// What a compiled kernel is on this device, and a set of them.
#pragma once

#include <vector>

#include "backends/nvidia/device.hpp"
#include "plugins/sdk/compile_table.hpp"

struct crucible_kernel : crucible::sdk::DeviceKernel {
  crucible_nvidia::CUfunction function = nullptr;
};

struct crucible_module : crucible::sdk::DeviceModule<crucible_device, crucible_kernel> {
  std::vector<crucible_nvidia::Module> parts;  // one per batch of kernels
};
