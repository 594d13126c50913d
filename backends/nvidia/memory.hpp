// Buffers of a device, whose addresses are the device's own; where their memory comes from is in allocator.hpp.
#pragma once

#include <cstdint>

#include "backends/nvidia/allocator.hpp"
#include "backends/nvidia/device.hpp"

struct crucible_buffer {
  crucible_device* device = nullptr;
  crucible_nvidia::DeviceMemory memory;
  std::uint64_t address = 0, size = 0;
};

namespace crucible_nvidia {

/// At least one byte. The context must be current. Errors: OUT_OF_MEMORY with what is wanted and what is free.
DeviceMemory allocate(crucible_device& device, std::uint64_t size);

}  // namespace crucible_nvidia
