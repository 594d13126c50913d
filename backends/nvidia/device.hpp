// The devices that the driver shows, and one that is open. One object per open(); buffers, modules and plans point to
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/nvidia/allocator.hpp"
#include "backends/nvidia/cublas.hpp"
#include "backends/nvidia/cudnn.hpp"
#include "backends/nvidia/cupti.hpp"
#include "backends/nvidia/graph_api.hpp"
#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/started.hpp"

namespace crucible_nvidia {

/// Its id is nvidia:N in the driver's order, which CUDA_VISIBLE_DEVICES changes.
struct DeviceFacts : crucible::sdk::GraphFacts {
  CUdevice device = 0;
  std::string uuid;
  int capability = 0;  // 90: compute capability 9.0
  bool has_ecc = false;
  std::uint64_t most_pitch = 0;  // bytes of a row of a copy that has rows

  std::string architecture() const { return "sm_" + std::to_string(capability); }
};

/// In the driver's order. Threads: any. Errors: those of cuda(); UNAVAILABLE when there is no device.
std::vector<DeviceFacts> list_devices(const Cuda& cuda);
/// "" is the first. Errors: UNAVAILABLE naming those that there are.
DeviceFacts find_device(const Cuda& cuda, crucible_str device_id);

}  // namespace crucible_nvidia

struct crucible_device : crucible::sdk::GraphDevice<crucible_nvidia::GraphApi> {
  static constexpr bool kTakesProducts = true, kTakesConvolutions = true, kTakesAttentions = true;
  static constexpr bool kTakesEpilogues = true;  // cuBLASLt's, and those of kernels for matrix units
  crucible_nvidia::CUcontext context = nullptr;  // the primary one, which other libraries of the process share
  std::string code;                              // option
  std::unique_ptr<crucible_nvidia::Allocator> allocator;
  std::atomic<bool> refuses_cubins = false;  // found out once: every later program is PTX

  /// Products by cuBLASLt, started at the first call; the context must be current. Threads: any. Errors: UNSUPPORTED
  /// with the reason when there is no library for this device.
  crucible_nvidia::Products& require_products();
  /// The same for convolutions and attentions by cuDNN.
  crucible_nvidia::Convolutions& require_convolutions();
  crucible_nvidia::Attentions& require_attentions();
  /// "" or why there are none, without starting anything.
  std::string products_refusal() { return products_.refusal(); }
  std::string convolutions_refusal() { return convolutions_.refusal(); }
  /// What memory.stats tells beside what all devices do.
  void report_memory(crucible_kv_sink sink, void* user) const;
  ~crucible_device();

 private:
  crucible::sdk::Started<crucible_nvidia::Products> products_;
  crucible::sdk::Started<crucible_nvidia::Convolutions> convolutions_;
  crucible::sdk::Started<crucible_nvidia::Attentions> attentions_;
};

namespace crucible_nvidia {

/// The device's context is the calling thread's current one while this lives; then again what it was before.
class Current {
 public:
  /// Errors: DEVICE_LOST.
  explicit Current(crucible_device& device);
  /// For giving back: also on a lost device.
  struct EvenIfLost {};
  Current(crucible_device& device, EvenIfLost);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Cuda& cuda_;
  bool pushed_ = false;
};

}  // namespace crucible_nvidia
