// Finding rocprofiler-sdk and naming its errors: see rocprofiler.hpp.
#include "backends/amd/rocprofiler.hpp"

#include "backends/amd/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/library_search.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

constexpr const char* kRights =
    "; the kernel's driver keeps counters for programs with the right CAP_PERFMON, and the device for users who may "
    "open /dev/kfd: run as root, give "
    "the program that right (setcap cap_perfmon+ep), or join the groups render and video";

sdk::LibrarySearch search() {
  return {.title = "rocprofiler-sdk",
          .otherwise = "times are those of events, and nothing is counted",
          .choice = "profiler",
          .option = "rocprofiler",
          .advice =
              "install AMD's package rocprofiler-sdk of ROCm 7 or newer, or name a library with the option rocprofiler",
          .names = {"librocprofiler-sdk.so.1", "librocprofiler-sdk.so"}};
}

crucible_code category_of(RocprofilerStatus status) {
  switch (status) {
    case ROCPROFILER_STATUS_ERROR_PERMISSION_DENIED:
      return CRUCIBLE_E_PERMISSION;
    case ROCPROFILER_STATUS_ERROR_CONTEXT_CONFLICT:
    case ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED:
    case ROCPROFILER_STATUS_ERROR_INCOMPATIBLE_KERNEL:
    case ROCPROFILER_STATUS_ERROR_NOT_AVAILABLE:
    case ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT:
    case ROCPROFILER_STATUS_ERROR_AGENT_ARCH_NOT_SUPPORTED:
      return CRUCIBLE_E_UNAVAILABLE;
    default:
      return CRUCIBLE_E_INTERNAL;
  }
}

const char* advice_for(RocprofilerStatus status) {
  switch (status) {
    case ROCPROFILER_STATUS_ERROR_PERMISSION_DENIED:
      return kRights;
    case ROCPROFILER_STATUS_ERROR_CONTEXT_CONFLICT:
    case ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED:
      return "; another tool of this process profiles already (rocprofv3, or what ROCP_TOOL_LIBRARIES names): run "
             "without it";
    case ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT:
      return "; the device has not so many places to count at: ask for fewer counters at once";
    case ROCPROFILER_STATUS_ERROR_INCOMPATIBLE_KERNEL:
      return "; the kernel's driver amdgpu is older than this library: update it";
    default:
      return category_of(status) == CRUCIBLE_E_UNAVAILABLE
                 ? "; rocprofiler-sdk does not profile this kind of device or machine"
                 : "";
  }
}

}  // namespace

Rocprofiler::Rocprofiler(const sdk::VendorLibrary& library) : file(library.file()) {
  constexpr const char* kNeeded = "rocprofiler-sdk 1.0 (ROCm 7) or newer";
  std::string missing;
  // Before its version is known nothing else is called: older ones have other functions.
  library.find("rocprofiler_get_version", rocprofiler_get_version, missing);
  library.require_complete(missing, kNeeded);
  if (rocprofiler_get_version(&version[0], &version[1], &version[2]) != ROCPROFILER_STATUS_SUCCESS || version[0] < 1)
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE, describe() + " (" + file + ") is too old: " + kNeeded + " is needed",
                       {{"where", file}});
#define CRUCIBLE_ROCPROFILER_FIND(name, result, parameters) library.find(#name, name, missing);
  CRUCIBLE_ROCPROFILER_FUNCTIONS(CRUCIBLE_ROCPROFILER_FIND)
#undef CRUCIBLE_ROCPROFILER_FIND
  library.require_complete(missing, kNeeded);
}

std::string Rocprofiler::describe() const {
  return "rocprofiler-sdk " + std::to_string(version[0]) + "." + std::to_string(version[1]) + "." +
         std::to_string(version[2]);
}

void Rocprofiler::check(RocprofilerStatus status, const std::string& what) const {
  if (status == ROCPROFILER_STATUS_SUCCESS) return;
  const char* const name = rocprofiler_get_status_name(status);
  throw sdk::Failure(category_of(status),
                     what + ": " + (name != nullptr ? name : "rocprofiler error") + " (" + std::to_string(status) +
                         ")" + advice_for(status),
                     {{"vendor.code", std::to_string(status)}, {"where", file}});
}

const Rocprofiler* find_rocprofiler(bool is_emulated, std::string& note) {
  static auto& libraries = *new sdk::FoundLibraries<Rocprofiler>;
  return libraries.find(search(), options(), is_emulated, note);
}

}  // namespace crucible_amd
