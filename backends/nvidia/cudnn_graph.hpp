// Graphs of operations for cuDNN's backend API: descriptors that give themselves back, and the execution plan for a
// graph. Which graph is a convolution, and which an attention, is convolutions.cpp's and attentions.cpp's.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/nvidia/cudnn.hpp"

namespace crucible_nvidia {

inline constexpr std::uint64_t kScratchAlignment = 256;  // the host's planner gives it

/// A descriptor of the library, with what is set in it.
class Descriptor {
 public:
  Descriptor(const Cudnn& cudnn, int type, const char* name) : cudnn_(&cudnn), name_(name) {
    cudnn.check(cudnn.cudnnBackendCreateDescriptor(type, &handle_),
                std::string("cudnnBackendCreateDescriptor of ") + name);
  }
  Descriptor(Descriptor&& other) noexcept
      : cudnn_(other.cudnn_), name_(other.name_), handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(cudnn_, other.cudnn_);
    std::swap(name_, other.name_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Descriptor() {
    if (handle_ != nullptr) (void)cudnn_->cudnnBackendDestroyDescriptor(handle_);
  }
  cudnnBackendDescriptor_t get() const { return handle_; }

  void set(int attribute, int type, std::int64_t count, const void* values) {
    cudnn_->check(cudnn_->cudnnBackendSetAttribute(handle_, attribute, type, count, values),
                  "cudnnBackendSetAttribute " + std::to_string(attribute) + " of " + name_);
  }
  void set(int attribute, cudnnBackendDescriptor_t other) { set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other); }
  void set(int attribute, const Descriptor& other) { set(attribute, other.get()); }
  void set(int attribute, std::int64_t value) { set(attribute, CUDNN_TYPE_INT64, 1, &value); }
  template <std::size_t kCount>
  void set(int attribute, const std::array<std::int64_t, kCount>& values) {
    set(attribute, CUDNN_TYPE_INT64, kCount, values.data());
  }
  cudnnStatus_t try_finalize() { return cudnn_->cudnnBackendFinalize(handle_); }
  void finalize() { cudnn_->check(try_finalize(), std::string("cudnnBackendFinalize of ") + name_); }

 private:
  const Cudnn* cudnn_;
  const char* name_;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

/// Of DType's numbers, which are part of the ABI.
int cudnn_type_of(std::uint32_t dtype);

/// An execution plan and what it was made from.
struct CudnnPlan {
  std::vector<Descriptor> parts;
  std::vector<Descriptor> plan;  // one, unless it is refused
  std::uint64_t scratch_bytes = 0;
  std::string refusal;  // why there is none
  cudnnBackendDescriptor_t get() const { return plan.front().get(); }
};

/// What an execution plan must be.
struct CudnnNeeds {
  std::uint32_t dtype = 0;  // of the operands
  bool allows_tf32 = false;
  std::uint64_t most_scratch = 0;
};

/// The most scratch that a call may have on a device: the option dnn_workspace_mib, at most a sixteenth of its memory.
/// Units: bytes.
std::uint64_t most_dnn_scratch(std::uint64_t memory_bytes);

/// Adds the graph of `operations` to `call`, and the best execution plan for it that gives the same bits in every run
/// with sums in f32: of f16 and bf16 one on tensor cores, if there is any that fits. False when there is none: `call`
/// then has no parts.
bool find_plan(const Cudnn& cudnn, cudnnHandle_t handle, std::vector<Descriptor> operations, const CudnnNeeds& needs,
               CudnnPlan& call);

/// Plans by what they are of. Not thread-safe.
class CudnnPlans {
 public:
  /// What `make` made for the key, once. Errors: UNSUPPORTED with the plan's refusal; those of `make`.
  const CudnnPlan& find(const std::string& key, const std::function<std::unique_ptr<CudnnPlan>()>& make);
  /// `find` gives a plan that needs no more scratch than its argument: with `most` if that fits into what is given at
  /// `scratch`, else with that. Scratch that lies badly is none.
  static const CudnnPlan& fitting(const std::function<const CudnnPlan&(std::uint64_t limit)>& find, std::uint64_t most,
                                  std::uint64_t scratch, std::uint64_t scratch_bytes);
  void clear() { plans_.clear(); }

 private:
  std::map<std::string, std::unique_ptr<const CudnnPlan>> plans_;
};

/// The plan on `stream`. `what` is for messages. Errors: those of the library.
void execute(const Cudnn& cudnn, cudnnHandle_t handle, const CudnnPlan& call, const std::vector<std::int64_t>& ids,
             const std::vector<void*>& places, void* scratch, CUstream stream, const std::string& what);

/// A handle on the device, whose context is current. Errors: UNAVAILABLE when the library does not start.
cudnnHandle_t start_cudnn(const Cudnn& cudnn, const std::string& device);

}  // namespace crucible_nvidia
