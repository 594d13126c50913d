// cuDNN, found at run time, and convolutions and attentions by it: which execution plan does one of some shape is asked
// once and kept. They are enqueued here; that a plan captures them into its graph is the plan's.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include "backends/nvidia/cuda.hpp"
#include "backends/nvidia/cudnn_types.hpp"
#include "plugins/sdk/attention.hpp"
#include "plugins/sdk/convolution.hpp"
#include "plugins/sdk/vendor_library.hpp"

struct crucible_device;

namespace crucible_nvidia {

struct CudnnPlan;
class CudnnPlans;
struct DeviceFacts;

struct Cudnn {
#define CRUCIBLE_CUDNN_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  CRUCIBLE_CUDNN_FUNCTIONS(CRUCIBLE_CUDNN_MEMBER)
#undef CRUCIBLE_CUDNN_MEMBER
  std::string file;
  std::size_t version = 0;  // 91900: 9.19.0; 8905: 8.9.5

  /// Errors: INCOMPATIBLE for what is no cuDNN, or one that is too old.
  explicit Cudnn(const crucible::sdk::VendorLibrary& library);

  /// "cuDNN 9.19.0".
  std::string describe() const;
  /// Throws a Failure "`what`: CUDNN_STATUS_..." unless the status is success.
  void check(cudnnStatus_t status, const std::string& what) const;
};

/// The library for a device (options `dnn` and `cudnn`, else by name), or null and the reason in `note`. Loaded once
/// and kept. An emulated device gets only one that the option names: a real one would look for a driver of its own.
/// Threads: any. Errors: UNAVAILABLE when `dnn` demands it and it is not there.
const Cudnn* find_cudnn(const DeviceFacts& facts, std::string& note);

/// Convolutions of one device. Threads: any. The context must be current.
class Convolutions {
 public:
  /// Errors: UNAVAILABLE when the library does not start on the device.
  Convolutions(crucible_device& device, const Cudnn& cudnn);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  /// Bytes of scratch that it wants, at most the option dnn_workspace_mib. Buffers are taken to begin at multiples of
  /// 256. Errors: UNSUPPORTED with the reason when the library has no plan for it.
  std::uint64_t scratch_bytes(const crucible::sdk::Convolution& convolution);

  /// Builds what enqueue() needs for these addresses, which is better not done while a stream is captured. Errors:
  /// those of enqueue().
  void prepare(const crucible::sdk::Convolution& convolution, const std::uint64_t* addresses,
               std::uint64_t scratch_bytes);

  /// The convolution on `stream`: `addresses` are those of the description's three buffers and of the scratch, if there
  /// is one. Errors: UNSUPPORTED when nothing fits into the scratch; those of the library.
  void enqueue(const crucible::sdk::Convolution& convolution, const std::uint64_t* addresses,
               std::uint64_t scratch_bytes, CUstream stream);

 private:
  const CudnnPlan& find(const crucible::sdk::Convolution& convolution, const std::uint64_t* alignments,
                        std::uint64_t most_scratch);
  const CudnnPlan& fitting(const crucible::sdk::Convolution& convolution, const std::uint64_t* addresses,
                           std::uint64_t scratch_bytes);
  std::unique_ptr<CudnnPlan> make(const crucible::sdk::Convolution& convolution, const std::uint64_t* alignments,
                                  std::uint64_t most_scratch) const;

  const Cudnn& cudnn_;
  cudnnHandle_t handle_ = nullptr;
  std::uint64_t most_scratch_ = 0;
  bool allows_tf32_ = false;
  std::mutex mutex_;  // of what is below, and of calls with the handle
  std::unique_ptr<CudnnPlans> plans_;
};

/// Attentions of one device, alone and in training: of f16 and bf16, which is what cuDNN has. Threads: any. The context
/// must be current.
class Attentions {
 public:
  /// Errors: UNAVAILABLE when the library does not start on the device.
  Attentions(crucible_device& device, const Cudnn& cudnn);
  ~Attentions();
  Attentions(const Attentions&) = delete;
  Attentions& operator=(const Attentions&) = delete;

  /// As those of Convolutions; the buffers are the description's, then the scratch.
  std::uint64_t scratch_bytes(const crucible::sdk::Attention& attention);
  void prepare(const crucible::sdk::Attention& attention, const std::uint64_t* addresses, std::uint64_t scratch_bytes);
  void enqueue(const crucible::sdk::Attention& attention, const std::uint64_t* addresses, std::uint64_t scratch_bytes,
               CUstream stream);

 private:
  using Alignments = std::array<std::uint64_t, crucible::sdk::kMostAttentionTensors>;
  const CudnnPlan& find(const crucible::sdk::Attention& attention, const Alignments& alignments,
                        std::uint64_t most_scratch);
  const CudnnPlan& fitting(const crucible::sdk::Attention& attention, const std::uint64_t* addresses,
                           std::uint64_t scratch_bytes);
  std::unique_ptr<CudnnPlan> make(const crucible::sdk::Attention& attention, const Alignments& alignments,
                                  std::uint64_t most_scratch) const;

  const Cudnn& cudnn_;
  cudnnHandle_t handle_ = nullptr;
  std::uint64_t most_scratch_ = 0;
  std::mutex mutex_;  // of what is below, and of calls with the handle
  std::unique_ptr<CudnnPlans> plans_;
};

}  // namespace crucible_nvidia
