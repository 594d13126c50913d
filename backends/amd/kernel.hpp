// What a compiled kernel is on this device, and a set of them.
#pragma once

#include <vector>

#include "backends/amd/device.hpp"
#include "plugins/sdk/compile_table.hpp"

struct crucible_kernel : crucible::sdk::DeviceKernel {
  crucible_amd::hipFunction_t function = nullptr;
};

struct crucible_module : crucible::sdk::DeviceModule<crucible_device, crucible_kernel> {
  std::vector<crucible_amd::Module> parts;  // one per batch of kernels
};
