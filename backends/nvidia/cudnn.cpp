// Finding cuDNN: see cudnn.hpp.
#include "backends/nvidia/cudnn.hpp"

#include <filesystem>
#include <vector>

#include "backends/nvidia/device.hpp"
#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr const char* kNames[] = {"libcudnn.so.9", "libcudnn.so.8"};
constexpr std::size_t kOldest = 8500;  // the first whose heuristics have the modes that are asked
constexpr const char* kCost = "; convolutions are generated and slower";
constexpr const char* kAdvice =
    "install NVIDIA's cuDNN, or PyPI's package nvidia-cudnn-cu13 (of the driver's major version) and name its folder, "
    "site-packages/nvidia/cudnn/lib, with the option cudnn";

/// What to try, in this order. Empty for an emulated device, unless the option names one.
std::vector<std::string> names_to_try(const std::string& option, const DeviceFacts& facts) {
  if (!option.empty() && !std::filesystem::is_directory(option)) return {option};
  if (option.empty()) return facts.is_emulated() ? std::vector<std::string>() : std::vector<std::string>(std::begin(kNames), std::end(kNames));
  std::vector<std::string> names;
  for (const char* const name : kNames) {
    std::error_code error;
    if (std::filesystem::exists(std::filesystem::path(option) / name, error)) names.push_back((std::filesystem::path(option) / name).string());
  }
  if (names.empty())
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "the folder " + option + " of the option cudnn has no libcudnn.so.9 or .8: " + kAdvice);
  return names;
}

std::unique_ptr<Cudnn> load(const std::vector<std::string>& names) {
  const auto library = sdk::VendorLibrary::open("cuDNN", names, kAdvice);
  auto cudnn = std::make_unique<Cudnn>();
  cudnn->file = library.file();
  std::string missing;
#define CRUCIBLE_CUDNN_FIND(name, result, parameters)                         \
  cudnn->name = reinterpret_cast<decltype(cudnn->name)>(library.find(#name)); \
  if (cudnn->name == nullptr) missing += std::string(missing.empty() ? "" : ", ") + #name;
  CRUCIBLE_CUDNN_FUNCTIONS(CRUCIBLE_CUDNN_FIND)
#undef CRUCIBLE_CUDNN_FIND
  if (!missing.empty())
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE, "the library " + cudnn->file + " lacks " + missing + ": it is no cuDNN of 8.5 or newer");
  cudnn->version = cudnn->cudnnGetVersion();
  if (cudnn->version < kOldest)
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE, "the library " + cudnn->file + " is " + cudnn->describe() + ", 8.5 or newer is needed");
  return cudnn;
}

struct Libraries {
  std::mutex mutex;
  std::map<std::vector<std::string>, std::unique_ptr<Cudnn>> found;
};
Libraries& libraries() {
  static Libraries& all = *new Libraries;  // never destroyed, like what they are
  return all;
}

}  // namespace

std::string Cudnn::describe() const {
  const std::size_t unit = version < 90000 ? 1000 : 10000;  // from 9 on major * 10000 + minor * 100 + patch
  return "cuDNN " + std::to_string(version / unit) + "." + std::to_string(version % unit / 100) + "." + std::to_string(version % 100);
}

void Cudnn::check(cudnnStatus_t status, const std::string& what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  crucible_code code = CRUCIBLE_E_INTERNAL;
  const bool is_unsupported = status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000 || status == kCudnn8NotSupported || status == kCudnn8ArchMismatch;
  if (is_unsupported) code = CRUCIBLE_E_UNSUPPORTED;
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED || status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
      status == kCudnn8AllocFailed)
    code = CRUCIBLE_E_OUT_OF_MEMORY;
  throw sdk::Failure(code, what + ": " + cudnnGetErrorString(status) + " (" + std::to_string(status) + ")",
                     {{"vendor.code", std::to_string(status)}, {"where", file}});
}

const Cudnn* find_cudnn(const DeviceFacts& facts, std::string& note) {
  const std::string wanted = options().get_text("dnn");
  if (wanted == "none") {
    note = std::string("none (switched off by the option dnn") + kCost + ")";
    return nullptr;
  }
  Libraries& all = libraries();
  const std::lock_guard lock(all.mutex);
  std::string reason = "an emulated device takes only a cuDNN that the option cudnn names";
  try {
    const std::vector<std::string> names = names_to_try(options().get_text("cudnn"), facts);
    std::unique_ptr<Cudnn>& found = all.found[names];
    // Absence is looked at again: a package may have been installed meanwhile.
    if (found == nullptr && !names.empty()) found = load(names);
    if (found != nullptr) {
      note = found->describe() + " (" + found->file + ")";
      return found.get();
    }
  } catch (const sdk::Failure& failure) {
    reason = failure.what();
  }
  if (wanted == "cudnn") throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "the option dnn demands cuDNN: " + reason);
  note = "none (" + reason + kCost + ")";
  return nullptr;
}

}  // namespace crucible_nvidia
