// What a compiled kernel is here: a C function and its name.
#pragma once

#include <cstdint>
#include <string>

#include "plugins/abi/crucible_plugin.h"

namespace crucible_cpu {

/// Does the work items [begin, end); items are independent of each other.
using KernelFunction = void (*)(void* const* buffers, const double* scalars, std::int64_t begin, std::int64_t end);

struct Guard;  // sanitize.hpp

/// Tells an object whose kernels check themselves what the calling thread's next kernel may access; null: everything.
using GuardEnter = void (*)(const Guard* guard);

}  // namespace crucible_cpu

struct crucible_kernel {
  crucible_cpu::KernelFunction function = nullptr;
  std::string name;
  std::uint64_t binary_bytes = 0;  // of the object that has it
  bool from_cache = false;         // it was not compiled for its module
  std::string binary;              // binary_id() of the object that has it
  crucible_cpu::GuardEnter enter = nullptr;  // of the object, where its kernels check themselves
};
