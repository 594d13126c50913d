// Finding cuBLASLt: see cublas.hpp.
#include "backends/nvidia/cublas.hpp"

#include "backends/nvidia/device.hpp"
#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/library_search.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr int kMajors[] = {13, 12, 11};

/// By name none that is newer than the driver; a folder of the user's may have any.
sdk::LibrarySearch search(const Cuda& cuda) {
  sdk::LibrarySearch search = {
      .title = "cuBLASLt",
      .otherwise = "products are generated and slower",
      .choice = "blas",
      .option = "cublaslt",
      .advice =
          "install NVIDIA's toolkit, or PyPI's package nvidia-cublas (of the driver's major version) and name "
          "its folder, site-packages/nvidia/.../lib, with the option cublaslt",
      .names = {}};
  const bool is_named = !options().get_text("cublaslt").empty();
  for (const int major : kMajors) {
    if (is_named || major <= cuda.version / 1000) search.names.push_back("libcublasLt.so." + std::to_string(major));
  }
  return search;
}

}  // namespace

CublasLt::CublasLt(const sdk::VendorLibrary& library) : file(library.file()) {
  std::string missing;
#define CRUCIBLE_CUBLASLT_FIND(name, result, parameters) library.find(#name, name, missing);
  CRUCIBLE_CUBLASLT_FUNCTIONS(CRUCIBLE_CUBLASLT_FIND)
#undef CRUCIBLE_CUBLASLT_FIND
  library.require_complete(missing, "cuBLASLt of 11 or newer");
  version = cublasLtGetVersion();
}

std::string CublasLt::describe() const {
  // From 12 on major * 10000 + minor * 100 + patch; 11 counts otherwise.
  if (version < 120000) return "cuBLASLt 11 (" + std::to_string(version) + ")";
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
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
  static auto& libraries = *new sdk::FoundLibraries<CublasLt>;
  return libraries.find(search(cuda), options(), facts.is_emulated(), note);
}

}  // namespace crucible_nvidia
