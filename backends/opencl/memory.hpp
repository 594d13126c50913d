// Buffers of a device, and what an address means.
#pragma once

#include <cstdint>

#include "backends/opencl/device.hpp"

struct crucible_buffer {
  crucible_device* device = nullptr;
  crucible_opencl::Memory memory;
  std::uint64_t address = 0, size = 0;
};

namespace crucible_opencl {

/// A place inside a buffer; it keeps the buffer's memory alive.
struct Place {
  Memory memory;
  std::uint64_t offset = 0;
  std::uint64_t left = 0;  // bytes from there to the buffer's end
};

/// Where `address` is. Threads: any. Errors: INVALID_ARGUMENT when it is in no buffer of the device.
Place find_place(crucible_device& device, std::uint64_t address);

/// Enqueues the filling of a range with one byte. Where `events` is given, what was enqueued is appended.
void enqueue_fill(crucible_device& device, cl_mem memory, std::uint64_t offset, std::uint64_t size, std::uint8_t byte,
                  std::vector<Event>* events = nullptr);

}  // namespace crucible_opencl
