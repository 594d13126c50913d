// What a compiled kernel is here: a C function and its name.
#pragma once

#include <cstdint>
#include <string>

#include "plugins/abi/crucible_plugin.h"

namespace crucible_cpu {

/// Does the work items [begin, end); items are independent of each other.
using KernelFunction = void (*)(void* const* buffers, const double* scalars, std::int64_t begin, std::int64_t end);

}  // namespace crucible_cpu

struct crucible_kernel {
  crucible_cpu::KernelFunction function = nullptr;
  std::string name;
  std::uint64_t binary_bytes = 0;  // of the object that has it
  bool from_cache = false;         // it was not compiled for its module
};
