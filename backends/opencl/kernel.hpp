// What a compiled kernel is on this device, and a set of them.
#pragma once

#include <map>
#include <string>

#include "backends/opencl/device.hpp"
#include "backends/opencl/text.hpp"

struct crucible_kernel {
  crucible_module* module = nullptr;
  std::string name;
  std::uint32_t buffer_count = 0, scalar_count = 0;
  crucible_opencl::Buffers buffers = crucible_opencl::Buffers::kArguments;
};

struct crucible_module {
  crucible_device* device = nullptr;
  crucible_opencl::Program program;
  std::map<std::string, crucible_kernel, std::less<>> kernels;
  std::string text, log;  // what the compiler was given and what it said
  std::uint64_t binary_bytes = 0;
  bool from_cache = false;
};
