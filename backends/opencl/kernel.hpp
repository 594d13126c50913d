// What a compiled kernel is on this device, and a set of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/opencl/device.hpp"
#include "backends/opencl/text.hpp"
#include "plugins/spirv/emit_kernel.hpp"

struct crucible_kernel {
  crucible_module* module = nullptr;
  std::string name;
  std::uint32_t buffer_count = 0, scalar_count = 0;
  crucible_opencl::Buffers buffers = crucible_opencl::Buffers::kArguments;
  std::vector<crucible::spirv::Parameter>
      scalars;              // the arguments behind the buffers; C takes each scalar once, as f64
  bool takes_chunk = true;  // behind begin and end
  crucible_opencl::ItemShape shape;
};

struct crucible_module {
  crucible_device* device = nullptr;
  crucible_opencl::Program program;
  std::map<std::string, crucible_kernel, std::less<>> kernels;
  std::string code, log;  // what the compiler was given (a text, or a module's bytes) and what it said
  std::uint64_t binary_bytes = 0;
  std::string binary;  // as Built's
  bool from_cache = false;
};
