// (5) Memory of the device. Replace the bodies in device_memory.cpp by your driver's calls; memory.cpp, which checks
// arguments and counts, stays. Copies are done on return.
#pragma once

#include <cstdint>

#include "device.hpp"

namespace acme {

/// Zero-filled memory whose address kernels see, aligned to `align` (a power of two), or null when there is none left.
void* device_alloc(crucible_device& device, std::uint64_t size, std::uint64_t align);
void device_free(crucible_device& device, void* memory, std::uint64_t size, std::uint64_t align);
/// Host to device, device to host, and bytes of one value. `memory` is a place inside something that device_alloc gave.
void device_write(crucible_device& device, void* memory, const void* data, std::uint64_t size);
void device_read(crucible_device& device, const void* memory, void* data, std::uint64_t size);
void device_fill(crucible_device& device, void* memory, std::uint64_t size, std::uint8_t byte);

}  // namespace acme
