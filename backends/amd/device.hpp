// The devices that the runtime shows, and one that is open. One object per open(); buffers, modules and plans point to
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/amd/graph_api.hpp"
#include "backends/amd/miopen.hpp"
#include "backends/amd/rocblas.hpp"
#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/started.hpp"

namespace crucible_amd {

/// Its id is amd:N in the runtime's order, which HIP_VISIBLE_DEVICES changes.
struct DeviceFacts : crucible::sdk::GraphFacts {
  int device = 0;
  std::uint64_t wave = 64;
};

/// In the runtime's order. Threads: any. Errors: those of hip(); UNAVAILABLE when there is no device.
std::vector<DeviceFacts> list_devices(const Hip& hip);
/// "" is the first. Errors: UNAVAILABLE naming those that there are.
DeviceFacts find_device(const Hip& hip, crucible_str device_id);

}  // namespace crucible_amd

struct crucible_device : crucible::sdk::GraphDevice<crucible_amd::GraphApi> {
  static constexpr bool kTakesProducts = true, kTakesConvolutions = true;
  static constexpr bool kTakesEpilogues = true;  // those of kernels for matrix units

  /// Products by rocBLAS, started at the first call; the device must be the current one. Threads: any. Errors:
  /// UNSUPPORTED with the reason when there is no library for this device.
  crucible_amd::Products& require_products();
  /// The same for convolutions by MIOpen.
  crucible_amd::Convolutions& require_convolutions();
  /// "" or why there are none, without starting anything.
  std::string products_refusal() { return products_.refusal(); }
  std::string convolutions_refusal() { return convolutions_.refusal(); }
  ~crucible_device();

 private:
  crucible::sdk::Started<crucible_amd::Products> products_;
  crucible::sdk::Started<crucible_amd::Convolutions> convolutions_;
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
