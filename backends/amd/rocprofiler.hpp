// rocprofiler-sdk, found at run time: what the device did and when, dispatch by dispatch, and its counters. Its errors
// in words; a refusal for want of rights is one message that says what to do.
#pragma once

#include <string>

#include "backends/amd/rocprofiler_types.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_amd {

struct Rocprofiler {
#define CRUCIBLE_ROCPROFILER_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  CRUCIBLE_ROCPROFILER_FUNCTIONS(CRUCIBLE_ROCPROFILER_MEMBER)
#undef CRUCIBLE_ROCPROFILER_MEMBER
  std::string file;
  std::uint32_t version[3] = {};  // 1, 0, 0

  /// Errors: INCOMPATIBLE for what is no rocprofiler-sdk of version 1 or newer.
  explicit Rocprofiler(const crucible::sdk::VendorLibrary& library);

  /// "rocprofiler-sdk 1.0.0".
  std::string describe() const;
  /// Throws a Failure "`what`: ROCPROFILER_STATUS_ERROR_..." unless `status` is success: PERMISSION with what to do
  /// about it, UNAVAILABLE when another profiler is at work, for counters that do not go together and for a device or
  /// driver that is not profiled, else INTERNAL.
  void check(RocprofilerStatus status, const std::string& what) const;
};

/// The library of this process (options `profiler` and `rocprofiler`, else by name), or null and the reason in `note`.
/// Loaded once and kept. An emulated device gets only one that the option names. Threads: any. Errors: UNAVAILABLE when
/// `profiler` demands it.
const Rocprofiler* find_rocprofiler(bool is_emulated, std::string& note);

}  // namespace crucible_amd
