// From text or SPIR-V to a program that is ready to run: compiled, or taken from the folder of those that were.
#pragma once

#include <string>
#include <vector>

#include "backends/opencl/device.hpp"

namespace crucible_opencl {

struct Built {
  Program program;
  std::string log;  // of the compiler
  std::uint64_t binary_bytes = 0;
  std::string binary;  // binary_id() of the machine code, or, where the driver hands out none, of what it was made of
  bool from_cache = false;
};

/// Compiles `code`, a text or the bytes of a module in the device's language; `is_careful`: without optimisation.
/// Threads: any. Errors: INTERNAL with the compiler's own words.
Built build_program(const crucible_device& device, const std::string& code, bool is_careful = false);

/// The flags that it is compiled with; where a device promises no correctly rounded division and its compiler refuses
/// them, it is compiled without that one.
std::string build_flags(const crucible_device& device);

}  // namespace crucible_opencl
