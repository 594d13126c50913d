// The HIP runtime as this plugin calls it: its functions, found at run time, its errors in words, and its objects given back by
// themselves. The plugin links nothing of AMD's, so it is built and loaded on machines without ROCm.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "backends/amd/hip_types.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_amd {

struct Hip {
#define CRUCIBLE_HIP_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  CRUCIBLE_HIP_FUNCTIONS(CRUCIBLE_HIP_MEMBER)
#undef CRUCIBLE_HIP_MEMBER
  explicit Hip(crucible::sdk::VendorLibrary opened) : library(std::move(opened)), file(library.file()) {}
  crucible::sdk::VendorLibrary library;  // HIP 5 has the compiler in the same one
  std::string file;
  int version = 0;  // 60342134: major, two digits of minor, five of patch
  int major() const { return version / 10'000'000; }
};

/// The functions of the runtime (option `library`, else libamdhip64.so.7, .6 or .5), found and started with hipInit at the first call;
/// never unloaded. Threads: any. Errors: UNAVAILABLE (no library, no device, a driver that does not start) with what to install;
/// INCOMPATIBLE for a library that lacks a function.
const Hip& hip();

/// "6.3" of 60342134.
std::string version_text(int version);
/// "hipErrorLaunchFailure (719): unspecified launch failure".
std::string error_text(const Hip& hip, hipError_t code);

/// True for an error after which nothing runs on the device any more.
bool is_sticky(hipError_t code);

/// Throws a Failure "`what`: hipError..." unless `code` is hipSuccess: OUT_OF_MEMORY, DEVICE_LOST (sticky ones), UNAVAILABLE or
/// INTERNAL, with the number as vendor.code. Whoever has a device calls its own check(), which remembers what is sticky.
void check(const Hip& hip, hipError_t code, std::string_view what);

/// An object of the runtime, given back with `Release`, a member of Hip. Its device must be the current one then.
template <class Handle, auto Release>
class Owned {
 public:
  Owned() = default;
  Owned(const Hip& hip, Handle handle) : hip_(&hip), handle_(handle) {}
  Owned(Owned&& other) noexcept : hip_(other.hip_), handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(hip_, other.hip_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != Handle{}) (void)(hip_->*Release)(handle_);  // a lost device refuses, and has nothing left to give back
  }
  Handle get() const { return handle_; }

 private:
  const Hip* hip_ = nullptr;
  Handle handle_{};
};

using DeviceMemory = Owned<void*, &Hip::hipFree>;
using Stream = Owned<hipStream_t, &Hip::hipStreamDestroy>;
using Event = Owned<hipEvent_t, &Hip::hipEventDestroy>;
using Module = Owned<hipModule_t, &Hip::hipModuleUnload>;
using Graph = Owned<hipGraph_t, &Hip::hipGraphDestroy>;
using GraphExec = Owned<hipGraphExec_t, &Hip::hipGraphExecDestroy>;

}  // namespace crucible_amd
