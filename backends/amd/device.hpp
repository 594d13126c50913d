// The devices that the runtime shows, and one that is open. One object per open(); buffers, modules and plans point to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/amd/hip.hpp"
#include "backends/amd/miopen.hpp"
#include "backends/amd/rocblas.hpp"
#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/address_map.hpp"
#include "plugins/sdk/counters.hpp"
#include "plugins/sdk/matrix_product.hpp"
#include "plugins/sdk/queue_table.hpp"
#include "plugins/sdk/started.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible_amd {

/// What a device says of itself.
struct DeviceFacts {
  std::string id;  // amd:N in the runtime's order, which HIP_VISIBLE_DEVICES changes
  int device = 0;
  std::string name, pci;
  int compute_mode = hipComputeModeDefault;
  std::uint64_t units = 1, wave = 64, kilohertz = 0, memory_bytes = 0;

  /// The emulator's devices say so in their names, and nowhere else: nothing but auto's choice may depend on it.
  bool is_emulated() const { return name.find("emulated, not a GPU") != std::string::npos; }
};

/// In the runtime's order. Threads: any. Errors: those of hip(); UNAVAILABLE when there is no device.
std::vector<DeviceFacts> list_devices(const Hip& hip);
/// "" is the first. Errors: UNAVAILABLE naming those that there are.
DeviceFacts find_device(const Hip& hip, crucible_str device_id);

/// A generated kernel for the matrix cores.
struct MatrixKernel {
  Module module;
  hipFunction_t function = nullptr;
};
using MatrixProducts = crucible::sdk::MatrixProducts<MatrixKernel>;

}  // namespace crucible_amd

struct crucible_device : crucible::sdk::QueueOwner {
  static constexpr bool kTakesProducts = true, kTakesConvolutions = true;
  static constexpr bool kTakesEpilogues = true;  // those of kernels for matrix units
  const crucible_amd::Hip* hip = nullptr;
  crucible_amd::DeviceFacts facts;
  crucible_amd::Stream stream;  // of everything that is done on return
  std::string cache_dir;
  std::uint32_t team_lanes = 1;  // threads that may do an item together
  std::unique_ptr<crucible_amd::MatrixProducts> matrix_products;  // products that the library does not take
  crucible::sdk::AddressMap addresses;
  crucible::sdk::Watchdog watchdog;
  crucible::sdk::Counters counters;
  std::atomic<bool> refuses_tracing = false;  // found out and said once: every later profile is by events

  /// Throws as crucible_amd::check() does, and remembers a sticky error: from then on Current refuses. Threads: any.
  void check(crucible_amd::hipError_t code, std::string_view what);
  /// Errors: DEVICE_LOST with what made it so.
  void require_alive();
  /// Products by rocBLAS, started at the first call; the device must be the current one. Threads: any. Errors: UNSUPPORTED with the
  /// reason when there is no library for this device.
  crucible_amd::Products& require_products();
  /// The same for convolutions by MIOpen.
  crucible_amd::Convolutions& require_convolutions();
  /// "" or why there are none, without starting anything.
  std::string products_refusal() { return products_.refusal(); }
  std::string convolutions_refusal() { return convolutions_.refusal(); }
  /// Waits until everything on the stream is done; with the option timeout_s no longer than that. Threads: any. Errors: those of
  /// check(); DEVICE_LOST when the time is over: the device is suspect from then on.
  void synchronize(crucible_amd::hipStream_t stream, std::string_view what);
  ~crucible_device();

 private:
  crucible::sdk::Started<crucible_amd::Products> products_;
  crucible::sdk::Started<crucible_amd::Convolutions> convolutions_;
  std::mutex lost_mutex_;
  std::string lost_;  // why; "" while it lives
};

namespace crucible_amd {

/// The device is the calling thread's current one while this lives; then again what it was before.
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
  const Hip& hip_;
  int before_ = -1;
};

}  // namespace crucible_amd
