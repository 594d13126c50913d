// Finding MIOpen: see miopen.hpp.
#include "backends/amd/miopen.hpp"

#include "backends/amd/device.hpp"
#include "backends/amd/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/library_search.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

sdk::LibrarySearch search() {
  return {.title = "MIOpen",
          .otherwise = "convolutions are generated and slower",
          .choice = "dnn",
          .option = "miopen",
          .advice = "install AMD's package miopen-hip, or name a library with the option miopen",
          .names = {"libMIOpen.so.1"}};  // of ROCm 5, 6 and 7
}

}  // namespace

Miopen::Miopen(const sdk::VendorLibrary& library) : file(library.file()) {
  std::string missing;
#define CRUCIBLE_MIOPEN_FIND(name, result, parameters) library.find(#name, name, missing);
  CRUCIBLE_MIOPEN_FUNCTIONS(CRUCIBLE_MIOPEN_FIND)
#undef CRUCIBLE_MIOPEN_FIND
  library.require_complete(missing, "MIOpen of ROCm 5 or newer");
  std::size_t major = 0, minor = 0, patch = 0;
  const bool is_told = miopenGetVersion(&major, &minor, &patch) == miopenStatusSuccess;
  version = is_told ? std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch)
                    : "of unknown version";
}

void Miopen::check(miopenStatus_t status, const std::string& what) const {
  if (status == miopenStatusSuccess) return;
  crucible_code code = CRUCIBLE_E_INTERNAL;
  if (status == miopenStatusNotImplemented || status == miopenStatusUnsupportedOp) code = CRUCIBLE_E_UNSUPPORTED;
  if (status == miopenStatusAllocFailed) code = CRUCIBLE_E_OUT_OF_MEMORY;
  throw sdk::Failure(code,
                     what + ": " + miopenGetErrorString(status) + " (" + std::to_string(status) +
                         "; option dnn=none does without MIOpen)",
                     {{"vendor.code", std::to_string(status)}, {"where", file}});
}

const Miopen* find_miopen(const DeviceFacts& facts, std::string& note) {
  static auto& libraries = *new sdk::FoundLibraries<Miopen>;
  return libraries.find(search(), options(), facts.is_emulated(), note);
}

}  // namespace crucible_amd
