// rocBLAS, found at run time, and matrix products by it. Products are enqueued here; plans run them between their
// graphs.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "backends/amd/hip.hpp"
#include "backends/amd/rocblas_types.hpp"
#include "plugins/sdk/gemm.hpp"

struct crucible_device;

namespace crucible_amd {

struct DeviceFacts;

struct RocBlas {
#define CRUCIBLE_ROCBLAS_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  CRUCIBLE_ROCBLAS_FUNCTIONS(CRUCIBLE_ROCBLAS_MEMBER)
#undef CRUCIBLE_ROCBLAS_MEMBER
  std::string file, version;

  /// Errors: INCOMPATIBLE for what is no rocBLAS of ROCm 5 or newer.
  explicit RocBlas(const crucible::sdk::VendorLibrary& library);

  /// "rocBLAS 4.1.0".
  std::string describe() const { return "rocBLAS " + version; }
  /// Throws a Failure "`what`: rocblas_status_..." unless it succeeded.
  void check(rocblas_status status, const std::string& what) const;
};

/// The library for a device (options `blas` and `rocblas`, else by name), or null and the reason in `note`. Loaded once
/// and kept. An emulated device gets only one that the option names: a real one would look for a runtime of its own.
/// Threads: any. Errors: UNAVAILABLE when `blas` demands it and it is not there.
const RocBlas* find_rocblas(const DeviceFacts& facts, std::string& note);

/// Products of one device. Threads: any. The device must be the current one.
class Products {
 public:
  /// Errors: UNAVAILABLE when the library does not start on the device.
  Products(crucible_device& device, const RocBlas& rocblas);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Bytes of scratch that the product wants. Errors: UNSUPPORTED when the library has no kernels for its type, which
  /// is found out by a small product, once per type.
  std::uint64_t scratch_bytes(const crucible::sdk::Gemm& gemm);
  /// The product on `stream`: `addresses` are those of the description's three buffers and of the scratch, if there is
  /// one.
  void enqueue(const crucible::sdk::Gemm& gemm, const std::uint64_t* addresses, std::uint64_t scratch_bytes,
               hipStream_t stream);

 private:
  rocblas_status call(const crucible::sdk::Gemm& gemm, const crucible::sdk::Gemm::Place& place,
                      const std::uint64_t* addresses);
  void try_types(std::uint32_t dtype, bool keeps_f32);

  crucible_device& device_;
  const RocBlas& rocblas_;
  rocblas_handle handle_ = nullptr;
  std::mutex mutex_;  // of the handle and of what is below
  std::set<std::pair<std::uint32_t, bool>> good_types_;
};

}  // namespace crucible_amd
