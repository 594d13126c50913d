// CUPTI, found at run time: what the device did and when, launch by launch, and its counters. Its errors in words; a
// refusal for want of rights is one message that says what to do.
#pragma once

#include <string>

#include "backends/nvidia/cuda.hpp"
#include "backends/nvidia/cupti_types.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_nvidia {

struct DeviceFacts;

struct Cupti {
#define CRUCIBLE_CUPTI_MEMBER(name, parameters) CUptiResult(*name) parameters = nullptr;
  CRUCIBLE_CUPTI_FUNCTIONS(CRUCIBLE_CUPTI_MEMBER)
#undef CRUCIBLE_CUPTI_MEMBER
#define CRUCIBLE_CUPTI_MEMBER(name, parameters) CUptiResult (*name)(parameters*) = nullptr;  // null: not there
  CRUCIBLE_CUPTI_PROFILER_FUNCTIONS(CRUCIBLE_CUPTI_MEMBER)
#undef CRUCIBLE_CUPTI_MEMBER
  std::string file;
  std::uint32_t version = 0;  // 130001
  std::string no_counters;    // why it has no counters; "" where it has

  /// Errors: INCOMPATIBLE for what is no CUPTI.
  explicit Cupti(const crucible::sdk::VendorLibrary& library);

  /// "CUPTI 13.0.1".
  std::string describe() const;
  /// Throws a Failure "`what`: CUPTI_ERROR_..." unless `code` is success: PERMISSION with what to do about it,
  /// OUT_OF_MEMORY, UNAVAILABLE when another profiler is at work and for a device that is not profiled, else INTERNAL.
  void check(CUptiResult code, const std::string& what) const;
};

/// The library for a device (options `profiler` and `cupti`, else by name, none that is newer than the driver), or null
/// and the reason in `note`. Loaded once and kept. An emulated device gets only one that the option names. Threads:
/// any. Errors: UNAVAILABLE when `profiler` demands it.
const Cupti* find_cupti(const Cuda& cuda, const DeviceFacts& facts, std::string& note);

}  // namespace crucible_nvidia
