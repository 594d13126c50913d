// Finding cuDNN: see cudnn.hpp.
#include "backends/nvidia/cudnn.hpp"

#include "backends/nvidia/device.hpp"
#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/library_search.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr std::size_t kOldest = 8500;  // the first whose heuristics have the modes that are asked

sdk::LibrarySearch search() {
  return {.title = "cuDNN",
          .otherwise = "convolutions are generated and slower",
          .choice = "dnn",
          .option = "cudnn",
          .advice =
              "install NVIDIA's cuDNN, or PyPI's package nvidia-cudnn-cu13 (of the driver's major version) and name "
              "its folder, "
              "site-packages/nvidia/cudnn/lib, with the option cudnn",
          .names = {"libcudnn.so.9", "libcudnn.so.8"}};
}

}  // namespace

Cudnn::Cudnn(const sdk::VendorLibrary& library) : file(library.file()) {
  std::string missing;
#define CRUCIBLE_CUDNN_FIND(name, result, parameters) library.find(#name, name, missing);
  CRUCIBLE_CUDNN_FUNCTIONS(CRUCIBLE_CUDNN_FIND)
#undef CRUCIBLE_CUDNN_FIND
  library.require_complete(missing, "cuDNN of 8.5 or newer");
  version = cudnnGetVersion();
  if (version < kOldest)
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                       "the library " + file + " is " + describe() + ", 8.5 or newer is needed");
}

std::string Cudnn::describe() const {
  const std::size_t unit = version < 90000 ? 1000 : 10000;  // from 9 on major * 10000 + minor * 100 + patch
  return "cuDNN " + std::to_string(version / unit) + "." + std::to_string(version % unit / 100) + "." +
         std::to_string(version % 100);
}

void Cudnn::check(cudnnStatus_t status, const std::string& what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  crucible_code code = CRUCIBLE_E_INTERNAL;
  const bool is_unsupported = status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000 || status == kCudnn8NotSupported ||
                              status == kCudnn8ArchMismatch;
  if (is_unsupported) code = CRUCIBLE_E_UNSUPPORTED;
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED || status == kCudnn8AllocFailed)
    code = CRUCIBLE_E_OUT_OF_MEMORY;
  throw sdk::Failure(code, what + ": " + cudnnGetErrorString(status) + " (" + std::to_string(status) + ")",
                     {{"vendor.code", std::to_string(status)}, {"where", file}});
}

const Cudnn* find_cudnn(const DeviceFacts& facts, std::string& note) {
  static auto& libraries = *new sdk::FoundLibraries<Cudnn>;
  return libraries.find(search(), options(), facts.is_emulated(), note);
}

}  // namespace crucible_nvidia
