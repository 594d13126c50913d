// Finding CUPTI and naming its errors: see cupti.hpp.
#include "backends/nvidia/cupti.hpp"

#include "backends/nvidia/device.hpp"
#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/library_search.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr std::uint32_t kFirstWithCounters = 130000;  // its profiling functions are those of cupti_types.hpp
constexpr const char* kRights =
    "; NVIDIA's driver keeps its counters for administrators: run as root, or let every user have them with the option "
    "NVreg_RestrictProfilingToAdminUsers=0 of the module nvidia (in /etc/modprobe.d, then load it again)";
constexpr const char* kVirtualRights =
    "; the device is a virtual one: profiling has to be allowed for it on the machine that it belongs to";

sdk::LibrarySearch search(const Cuda& cuda) {
  sdk::LibrarySearch search = {
      .title = "CUPTI",
      .otherwise = "times are those of events, and nothing is counted",
      .choice = "profiler",
      .option = "cupti",
      .advice =
          "install NVIDIA's toolkit, or PyPI's package nvidia-cuda-cupti (of the driver's major version) and name "
          "its folder, site-packages/nvidia/.../lib, with the option cupti",
      .names = {}};
  const bool is_named = !options().get_text("cupti").empty();
  for (const int major : {13, 12}) {
    if (is_named || major <= cuda.version / 1000) search.names.push_back("libcupti.so." + std::to_string(major));
  }
  return search;
}

crucible_code category_of(CUptiResult code) {
  switch (code) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
      return CRUCIBLE_E_PERMISSION;
    case CUPTI_ERROR_OUT_OF_MEMORY:
      return CRUCIBLE_E_OUT_OF_MEMORY;
    case CUPTI_ERROR_HARDWARE_BUSY:
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_NOT_SUPPORTED:
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
    case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
    case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
      return CRUCIBLE_E_UNAVAILABLE;
    default:
      return CRUCIBLE_E_INTERNAL;
  }
}

std::string advice_for(CUptiResult code) {
  if (code == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) return kRights;
  if (category_of(code) == CRUCIBLE_E_PERMISSION) return kVirtualRights;
  if (code == CUPTI_ERROR_HARDWARE_BUSY || code == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    return "; another profiler is at work on the device: end it";
  return category_of(code) == CRUCIBLE_E_UNAVAILABLE ? "; CUPTI does not profile this kind of device or machine" : "";
}

}  // namespace

Cupti::Cupti(const sdk::VendorLibrary& library) : file(library.file()) {
  std::string missing;
#define CRUCIBLE_CUPTI_FIND(name, parameters) library.find(#name, name, missing);
  CRUCIBLE_CUPTI_FUNCTIONS(CRUCIBLE_CUPTI_FIND)
#undef CRUCIBLE_CUPTI_FIND
  library.require_complete(missing, "CUPTI of CUDA 12 or newer");
  if (cuptiGetVersion(&version) != CUPTI_SUCCESS) version = 0;
  std::string absent;
#define CRUCIBLE_CUPTI_FIND(name, parameters) library.find(#name, name, absent);
  CRUCIBLE_CUPTI_PROFILER_FUNCTIONS(CRUCIBLE_CUPTI_FIND)
#undef CRUCIBLE_CUPTI_FIND
  if (version < kFirstWithCounters) {
    no_counters = describe() + " (" + file + "): CUPTI of CUDA 13 or newer is needed for counters";
  } else if (!absent.empty()) {
    no_counters = describe() + " (" + file + ") lacks " + absent;
  }
}

std::string Cupti::describe() const {
  // From CUDA 13 on major * 10000 + minor * 100 + patch; before, a number that grew by one.
  if (version < 100000) return "CUPTI (" + std::to_string(version) + ")";
  return "CUPTI " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

void Cupti::check(CUptiResult code, const std::string& what) const {
  if (code == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  const bool is_named = cuptiGetResultString(code, &text) == CUPTI_SUCCESS && text != nullptr;
  throw sdk::Failure(
      category_of(code),
      what + ": " + (is_named ? text : "CUPTI error") + " (" + std::to_string(code) + ")" + advice_for(code),
      {{"vendor.code", std::to_string(code)}, {"where", file}});
}

const Cupti* find_cupti(const Cuda& cuda, const DeviceFacts& facts, std::string& note) {
  static auto& libraries = *new sdk::FoundLibraries<Cupti>;
  return libraries.find(search(cuda), options(), facts.is_emulated(), note);
}

}  // namespace crucible_nvidia
