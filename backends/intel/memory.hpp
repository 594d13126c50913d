// Buffers of a device: memory of unified shared memory on the device, whose addresses are pointers that kernels take as they are.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/intel/device.hpp"

namespace crucible_intel {

/// Memory on the device, given back at the end.
struct Allocation {
  const Functions* ze = nullptr;
  ze::Context context = nullptr;
  void* memory = nullptr;
  Allocation(const Functions& functions, ze::Context owner, void* pointer) : ze(&functions), context(owner), memory(pointer) {}
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() { ze->zeMemFree(context, memory); }
};

/// An address inside a buffer.
struct Place {
  std::shared_ptr<Allocation> allocation;  // plans keep the memory that they name alive
  std::uint64_t address = 0;
  std::uint64_t left = 0;  // bytes from there to the buffer's end
};

/// Errors: OUT_OF_MEMORY with what there is, INVALID_ARGUMENT for an alignment that is none.
std::shared_ptr<Allocation> allocate(crucible_device& device, std::uint64_t size, std::uint64_t alignment);

/// Between host and device, done on return. Threads: any. Errors: `what` with the driver's result.
void copy_now(crucible_device& device, void* to, const void* from, std::uint64_t size, const char* what);

/// Waits until the queue is done; with the option timeout_s no longer than that. The caller holds the run mutex. Errors: `what` with the
/// driver's result; DEVICE_LOST when the time is over: the device is suspect from then on.
void finish(crucible_device& device, std::string_view what);

/// Where `address` is. Threads: any. Errors: INVALID_ARGUMENT when it is in no buffer of the device.
Place find_place(crucible_device& device, std::uint64_t address);

}  // namespace crucible_intel

struct crucible_buffer {
  crucible_device* device = nullptr;
  std::shared_ptr<crucible_intel::Allocation> allocation;
  std::uint64_t address = 0, size = 0;
};
