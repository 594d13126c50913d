// The driver as this plugin calls it: its functions, found at run time through cuGetProcAddress, and its errors in
// words. The plugin links nothing of NVIDIA's, so it is built and loaded on machines without a driver.
#pragma once

#include <string>

#include "backends/nvidia/cuda_types.hpp"

namespace crucible_nvidia {

struct Cuda {
#define CRUCIBLE_CUDA_MEMBER(name, version, parameters) CUresult(*name) parameters = nullptr;
  CRUCIBLE_CUDA_FUNCTIONS(CRUCIBLE_CUDA_MEMBER)
#undef CRUCIBLE_CUDA_MEMBER
  int version = 0;   // 12040: the newest CUDA that the driver speaks
  std::string file;  // of the library
};

/// The functions of the driver's library (option `library`), found and started with cuInit at the first call; never
/// unloaded. Threads: any. Errors: UNAVAILABLE (no library, no device, a driver that does not start) with what to
/// install; INCOMPATIBLE with have and need when the driver is too old.
const Cuda& cuda();

/// "12.4" of 12040.
std::string version_text(int version);
/// "CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure".
std::string error_text(const Cuda& cuda, CUresult code);

}  // namespace crucible_nvidia
