// Buffers of a device: memory of hipMalloc, whose addresses are the device's own.
#pragma once

#include <cstdint>

#include "backends/amd/device.hpp"

struct crucible_buffer {
  crucible_device* device = nullptr;
  crucible_amd::DeviceMemory memory;
  std::uint64_t address = 0, size = 0;
};

namespace crucible_amd {

/// The runtime's pointers are the device's addresses.
inline void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

/// At least one byte. The device must be the current one. Errors: OUT_OF_MEMORY with what is wanted and what is free.
DeviceMemory allocate(crucible_device& device, std::uint64_t size);

}  // namespace crucible_amd
