// The devices that the driver shows, and one that is open. One object per open(); buffers, modules and plans point to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/nvidia/allocator.hpp"
#include "backends/nvidia/cublas.hpp"
#include "backends/nvidia/cuda.hpp"
#include "backends/nvidia/cudnn.hpp"
#include "backends/nvidia/cupti.hpp"
#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/address_map.hpp"
#include "plugins/sdk/counters.hpp"
#include "plugins/sdk/matrix_product.hpp"
#include "plugins/sdk/queue_table.hpp"
#include "plugins/sdk/started.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible_nvidia {

/// What a device says of itself.
struct DeviceFacts {
  std::string id;  // nvidia:N in the driver's order, which CUDA_VISIBLE_DEVICES changes
  CUdevice device = 0;
  std::string name, uuid, pci;
  int capability = 0;  // 90: compute capability 9.0
  int compute_mode = CU_COMPUTEMODE_DEFAULT;
  std::uint64_t multiprocessors = 1, kilohertz = 0, memory_bytes = 0;
  bool has_ecc = false;

  /// The emulator's devices say so in their names, and nowhere else: nothing but auto's choice may depend on it.
  bool is_emulated() const { return name.find("emulated, not a GPU") != std::string::npos; }
  std::string architecture() const { return "sm_" + std::to_string(capability); }
};

/// In the driver's order. Threads: any. Errors: those of cuda(); UNAVAILABLE when there is no device.
std::vector<DeviceFacts> list_devices(const Cuda& cuda);
/// "" is the first. Errors: UNAVAILABLE naming those that there are.
DeviceFacts find_device(const Cuda& cuda, crucible_str device_id);

/// A generated kernel for the tensor cores.
struct MatrixKernel {
  Module module;
  CUfunction function = nullptr;
};
using MatrixProducts = crucible::sdk::MatrixProducts<MatrixKernel>;

}  // namespace crucible_nvidia

struct crucible_device : crucible::sdk::QueueOwner {
  static constexpr bool kTakesProducts = true, kTakesConvolutions = true, kTakesAttentions = true;
  static constexpr bool kTakesEpilogues = true;  // cuBLASLt's, and those of kernels for matrix units
  const crucible_nvidia::Cuda* cuda = nullptr;
  crucible_nvidia::DeviceFacts facts;
  crucible_nvidia::CUcontext context = nullptr;  // the primary one, which other libraries of the process share
  crucible_nvidia::Stream stream;                // of everything that is done on return
  std::string cache_dir, code;                   // options
  std::uint32_t team_lanes = 1;                  // threads that may do an item together
  std::unique_ptr<crucible_nvidia::Allocator> allocator;
  std::unique_ptr<crucible_nvidia::MatrixProducts> matrix_products;  // products that the library does not take
  crucible::sdk::AddressMap addresses;
  crucible::sdk::Watchdog watchdog;
  crucible::sdk::Counters counters;
  std::atomic<bool> refuses_tracing = false;  // found out and said once: every later profile is by events
  std::atomic<bool> refuses_cubins = false;   // found out once: every later program is PTX

  /// Throws as crucible_nvidia::check() does, and remembers a sticky error: from then on Current refuses. Threads: any.
  void check(crucible_nvidia::CUresult code, std::string_view what);
  /// Errors: DEVICE_LOST with what made it so.
  void require_alive();
  /// Products by cuBLASLt, started at the first call; the context must be current. Threads: any. Errors: UNSUPPORTED with the reason
  /// when there is no library for this device.
  crucible_nvidia::Products& require_products();
  /// The same for convolutions and attentions by cuDNN.
  crucible_nvidia::Convolutions& require_convolutions();
  crucible_nvidia::Attentions& require_attentions();
  /// "" or why there are none, without starting anything.
  std::string products_refusal() { return products_.refusal(); }
  std::string convolutions_refusal() { return convolutions_.refusal(); }
  /// Waits until everything on the stream is done; with the option timeout_s no longer than that. Threads: any. Errors: those of
  /// check(); DEVICE_LOST when the time is over: the device is suspect from then on.
  void synchronize(crucible_nvidia::CUstream stream, std::string_view what);
  ~crucible_device();

 private:
  crucible::sdk::Started<crucible_nvidia::Products> products_;
  crucible::sdk::Started<crucible_nvidia::Convolutions> convolutions_;
  crucible::sdk::Started<crucible_nvidia::Attentions> attentions_;
  std::mutex lost_mutex_;
  std::string lost_;  // why; "" while it lives
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
