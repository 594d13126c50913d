// Buffers of a device: memory of unified shared memory on the device, whose addresses are pointers that kernels take as
// they are.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/intel/device.hpp"
#include "plugins/sdk/memory_table.hpp"

namespace crucible_intel {

/// Memory on the device, given back at the end.
struct Allocation {
  const Functions* ze = nullptr;
  ze_context_handle_t context = nullptr;
  void* memory = nullptr;
  Allocation(const Functions& functions, ze_context_handle_t owner, void* pointer)
      : ze(&functions), context(owner), memory(pointer) {}
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() { ze->zeMemFree(context, memory); }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory); }
};

/// Of the plugin's own: tables of kernels. Errors: OUT_OF_MEMORY with what there is.
std::shared_ptr<Allocation> allocate(crucible_device& device, std::uint64_t size);

/// Between host and device, done on return. Threads: any. Errors: `what` with the driver's result.
void copy_now(crucible_device& device, void* to, const void* from, std::uint64_t size, const char* what);

/// Waits until the queue is done; with the option timeout_s no longer than that. The caller holds the run mutex.
/// Errors: `what` with the driver's result; DEVICE_LOST when the time is over: the device is suspect from then on.
void finish(crucible_device& device, std::string_view what);

}  // namespace crucible_intel

struct crucible_buffer : crucible::sdk::DeviceBuffer<crucible_device, crucible_intel::Allocation> {};
