// Finding cuBLASLt: see cublas.hpp.
#include "backends/nvidia/cublas.hpp"

#include <filesystem>
#include <vector>

#include "backends/nvidia/device.hpp"
#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr int kMajors[] = {13, 12, 11};
constexpr const char* kCost = "; products are generated and slower";
constexpr const char* kAdvice =
    "install NVIDIA's toolkit, or PyPI's package nvidia-cublas (of the driver's major version) and name its folder, "
    "site-packages/nvidia/.../lib, with the option cublaslt";

/// What to try, in this order. Empty for an emulated device, unless the option names one.
std::vector<std::string> names_to_try(const std::string& option, const Cuda& cuda, const DeviceFacts& facts) {
  const bool is_folder = !option.empty() && std::filesystem::is_directory(option);
  if (!option.empty() && !is_folder) return {option};
  std::vector<std::string> names;
  if (option.empty() && facts.is_emulated()) return names;
  for (const int major : kMajors) {
    const std::string name = "libcublasLt.so." + std::to_string(major);
    std::error_code error;
    if (!is_folder && major <= cuda.version / 1000) names.push_back(name);
    if (is_folder && std::filesystem::exists(std::filesystem::path(option) / name, error))
      names.push_back((std::filesystem::path(option) / name).string());
  }
  if (names.empty())
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "the folder " + option + " of the option cublaslt has no libcublasLt.so.13, .12 or .11: " +
                                                   kAdvice);
  return names;
}

std::unique_ptr<CublasLt> load(const std::vector<std::string>& names) {
  const auto library = sdk::VendorLibrary::open("cuBLASLt", names, kAdvice);
  auto cublas = std::make_unique<CublasLt>();
  cublas->file = library.file();
  std::string missing;
#define CRUCIBLE_CUBLASLT_FIND(name, result, parameters)                        \
  cublas->name = reinterpret_cast<decltype(cublas->name)>(library.find(#name)); \
  if (cublas->name == nullptr) missing += std::string(missing.empty() ? "" : ", ") + #name;
  CRUCIBLE_CUBLASLT_FUNCTIONS(CRUCIBLE_CUBLASLT_FIND)
#undef CRUCIBLE_CUBLASLT_FIND
  if (!missing.empty())
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE, "the library " + cublas->file + " lacks " + missing + ": it is no cuBLASLt of 11 or newer");
  cublas->version = cublas->cublasLtGetVersion();
  return cublas;
}

struct Found {
  std::unique_ptr<CublasLt> cublas;
  std::string reason;
};
struct Libraries {
  std::mutex mutex;
  std::map<std::vector<std::string>, Found> found;
};
Libraries& libraries() {
  static Libraries& all = *new Libraries;  // never destroyed, like what they are
  return all;
}

}  // namespace

std::string CublasLt::describe() const {
  // From 12 on major * 10000 + minor * 100 + patch; 11 counts otherwise.
  if (version < 120000) return "cuBLASLt 11 (" + std::to_string(version) + ")";
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." + std::to_string(version % 100);
}

void CublasLt::check(cublasStatus_t status, const std::string& what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  crucible_code code = CRUCIBLE_E_INTERNAL;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH) code = CRUCIBLE_E_UNSUPPORTED;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) code = CRUCIBLE_E_OUT_OF_MEMORY;
  throw sdk::Failure(code, what + ": " + cublasLtGetStatusName(status) + " (" + std::to_string(status) + ")",
                     {{"vendor.code", std::to_string(status)}, {"where", file}});
}

const CublasLt* find_cublas(const Cuda& cuda, const DeviceFacts& facts, std::string& note) {
  const std::string wanted = options().get_text("blas");
  if (wanted == "none") {
    note = std::string("none (switched off by the option blas") + kCost + ")";
    return nullptr;
  }
  Libraries& all = libraries();
  const std::lock_guard lock(all.mutex);
  std::string reason;
  try {
    const std::vector<std::string> names = names_to_try(options().get_text("cublaslt"), cuda, facts);
    Found& found = all.found[names];
    // Absence is looked at again: a package may have been installed meanwhile.
    if (found.cublas == nullptr && !names.empty()) found.cublas = load(names);
    if (found.cublas != nullptr) {
      note = found.cublas->describe() + " (" + found.cublas->file + ")";
      return found.cublas.get();
    }
    reason = "an emulated device takes only a cuBLASLt that the option cublaslt names";
  } catch (const sdk::Failure& failure) {
    reason = failure.what();
  }
  if (wanted == "cublaslt") throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, "the option blas demands cuBLASLt: " + reason);
  note = "none (" + reason + kCost + ")";
  return nullptr;
}

}  // namespace crucible_nvidia
