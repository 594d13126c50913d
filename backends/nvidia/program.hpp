// From text to code that is loaded on the device: compiled for it, or taken from the folder of those that were.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/nvidia/device.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible_nvidia {

struct Built {
  Module module;
  std::string log;  // of the compiler
  std::string code;  // "cubin" or "ptx"
  std::uint64_t binary_bytes = 0;
  std::string binary;  // binary_id()
  bool from_cache = false;
};

/// Compiles the batches side by side and loads them. Threads: any. Errors: INTERNAL with the compiler's own words and the kernels'
/// names; INCOMPATIBLE when the driver takes none of what the compiler makes.
std::vector<Built> build_programs(crucible_device& device, const std::vector<crucible::sdk::KernelBatch>& batches);

/// By kernels that are built so; none with the option matrix_units off. `device` outlives them.
std::unique_ptr<MatrixProducts> make_matrix_products(crucible_device& device);

}  // namespace crucible_nvidia
