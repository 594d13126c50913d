// The driver as this plugin calls it: its functions, found at run time through cuGetProcAddress, its errors in words, and its objects
// given back by themselves. The plugin links nothing of NVIDIA's, so it is built and loaded on machines without a driver.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "backends/nvidia/cuda_types.hpp"

namespace crucible_nvidia {

struct Cuda {
#define CRUCIBLE_CUDA_MEMBER(name, version, parameters) CUresult(*name) parameters = nullptr;
  CRUCIBLE_CUDA_FUNCTIONS(CRUCIBLE_CUDA_MEMBER)
#undef CRUCIBLE_CUDA_MEMBER
  int version = 0;   // 12040: the newest CUDA that the driver speaks
  std::string file;  // of the library
};

/// The functions of the driver's library (option `library`), found and started with cuInit at the first call; never unloaded. Threads:
/// any. Errors: UNAVAILABLE (no library, no device, a driver that does not start) with what to install; INCOMPATIBLE with have and need
/// when the driver is too old.
const Cuda& cuda();

/// "12.4" of 12040.
std::string version_text(int version);
/// "CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure".
std::string error_text(const Cuda& cuda, CUresult code);

/// True for an error after which nothing runs in the context any more.
bool is_sticky(CUresult code);

/// Throws a Failure "`what`: CUDA_ERROR_..." unless `code` is CUDA_SUCCESS: OUT_OF_MEMORY, DEVICE_LOST (sticky ones), UNAVAILABLE or
/// INTERNAL, with the number as vendor.code. Whoever has a device calls its own check(), which remembers what is sticky.
void check(const Cuda& cuda, CUresult code, std::string_view what);

/// An object of the driver, given back with `Release`, a member of Cuda. The context must be current then.
template <class Handle, auto Release>
class Owned {
 public:
  Owned() = default;
  Owned(const Cuda& cuda, Handle handle) : cuda_(&cuda), handle_(handle) {}
  Owned(Owned&& other) noexcept : cuda_(other.cuda_), handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(cuda_, other.cuda_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != Handle{}) (void)(cuda_->*Release)(handle_);  // a lost device refuses, and has nothing left to give back
  }
  Handle get() const { return handle_; }

 private:
  const Cuda* cuda_ = nullptr;
  Handle handle_{};
};

using Stream = Owned<CUstream, &Cuda::cuStreamDestroy>;
using Event = Owned<CUevent, &Cuda::cuEventDestroy>;
using Module = Owned<CUmodule, &Cuda::cuModuleUnload>;
using Graph = Owned<CUgraph, &Cuda::cuGraphDestroy>;
using GraphExec = Owned<CUgraphExec, &Cuda::cuGraphExecDestroy>;

}  // namespace crucible_nvidia
