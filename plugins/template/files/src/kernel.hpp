// What a compiled kernel is on this device, and a set of them.
#pragma once

#include <crucible/sdk/host_compiler.hpp>

#include <map>
#include <memory>
#include <string>

#include "device.hpp"

struct crucible_kernel {
  crucible::sdk::HostKernel function = nullptr;  // (6) your driver's handle of a kernel
  std::string name;
};

struct crucible_module {
  crucible_device* device = nullptr;
  std::unique_ptr<crucible::sdk::HostLibrary> library;  // (6) your driver's handle of a module
  std::map<std::string, crucible_kernel, std::less<>> kernels;
};
