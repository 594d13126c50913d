// The HIP runtime as this plugin calls it: its functions, found at run time, and its errors in words. The plugin links
// nothing of AMD's, so it is built and loaded on machines without ROCm.
#pragma once

#include <string>
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

/// The functions of the runtime (option `library`, else libamdhip64.so.7, .6 or .5), found and started with hipInit at
/// the first call; never unloaded. Threads: any. Errors: UNAVAILABLE (no library, no device, a driver that does not
/// start) with what to install; INCOMPATIBLE for a library that lacks a function.
const Hip& hip();

/// "6.3" of 60342134.
std::string version_text(int version);
/// "hipErrorLaunchFailure (719): unspecified launch failure".
std::string error_text(const Hip& hip, hipError_t code);

/// The runtime's pointers are the device's addresses.
inline void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace crucible_amd
