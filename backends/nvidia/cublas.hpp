// cuBLASLt, found at run time, and matrix products by it: which algorithm does a product of some shape is asked once
// and kept. Products are enqueued here; that a plan captures them into its graph is the plan's.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "backends/nvidia/cublas_types.hpp"
#include "backends/nvidia/cuda.hpp"
#include "plugins/sdk/gemm.hpp"
#include "plugins/sdk/vendor_library.hpp"

struct crucible_device;

namespace crucible_nvidia {

struct DeviceFacts;

struct CublasLt {
#define CRUCIBLE_CUBLASLT_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  CRUCIBLE_CUBLASLT_FUNCTIONS(CRUCIBLE_CUBLASLT_MEMBER)
#undef CRUCIBLE_CUBLASLT_MEMBER
  std::string file;
  std::size_t version = 0;  // 130100: 13.1.0

  /// Errors: INCOMPATIBLE for what is no cuBLASLt of 11 or newer.
  explicit CublasLt(const crucible::sdk::VendorLibrary& library);

  /// "cuBLASLt 13.1.0".
  std::string describe() const;
  /// Throws a Failure "`what`: CUBLAS_STATUS_..." unless the status is success.
  void check(cublasStatus_t status, const std::string& what) const;
};

/// The library for a device (options `blas` and `cublaslt`, else by name, not newer than the driver), or null and the
/// reason in `note`. Loaded once and kept. An emulated device gets only one that the option names: a real one would
/// look for a driver of its own. Threads: any. Errors: UNAVAILABLE when `blas` demands it and it is not there.
const CublasLt* find_cublas(const Cuda& cuda, const DeviceFacts& facts, std::string& note);

/// Products of one device. Threads: any. The context must be current.
class Products {
 public:
  /// Errors: UNAVAILABLE when the library does not start on the device.
  Products(crucible_device& device, const CublasLt& cublas);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Bytes of scratch that the product wants, at most the option blas_workspace_mib. Buffers are taken to begin at
  /// multiples of 256. Errors: UNSUPPORTED with the reason when the library has nothing for it.
  std::uint64_t scratch_bytes(const crucible::sdk::Gemm& gemm);

  /// The product on `stream`: `addresses` are those of the description's buffers and of the scratch, if there is one.
  /// Errors: UNSUPPORTED when nothing fits into the scratch; those of the library.
  void enqueue(const crucible::sdk::Gemm& gemm, const std::uint64_t* addresses, std::uint64_t scratch_bytes,
               CUstream stream);

 private:
  struct Call;  // descriptors and algorithms
  const Call& find(const crucible::sdk::Gemm& gemm, const std::uint64_t* alignments, std::uint64_t most_scratch);
  std::unique_ptr<Call> make(const crucible::sdk::Gemm& gemm, const std::uint64_t* alignments,
                             std::uint64_t most_scratch) const;
  /// Puts the fastest of the call's algorithms first.
  void measure(const crucible::sdk::Gemm& gemm, Call& call) const;
  void run(const crucible::sdk::Gemm& gemm, const Call& call, const cublasLtMatmulAlgo_t& algorithm,
           const std::uint64_t* addresses, std::uint64_t scratch_bytes, CUstream stream) const;
  void set_bias(const Call& call, std::uint64_t address) const;

  crucible_device& device_;
  const CublasLt& cublas_;
  cublasLtHandle_t handle_ = nullptr;
  std::uint64_t most_scratch_ = 0;
  bool allows_tf32_ = false, measures_ = false;
  std::mutex mutex_;  // of what is below, and of calls with the handle
  std::map<std::string, std::unique_ptr<const Call>> calls_;
};

}  // namespace crucible_nvidia
