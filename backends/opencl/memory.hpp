// Buffers of a device, and what an address means.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/opencl/device.hpp"
#include "plugins/sdk/memory_table.hpp"

struct crucible_buffer : crucible::sdk::DeviceBuffer<crucible_device, crucible_opencl::Allocation> {};

namespace crucible_opencl {

using crucible::sdk::Place;

inline cl_mem memory_of(const Place& place) { return place.in<Allocation>().memory(); }             // kBuffers
inline char* pointer_of(const Place& place) { return reinterpret_cast<char*>(place.address); }  // the other kinds

/// Memory of the device's kind with these bytes in it, done on return: tables of kernels. Errors: the driver's.
std::shared_ptr<Allocation> make_table(crucible_device& device, const std::vector<cl_ulong>& numbers);

/// A filling as commands: a pattern must divide place and size, and a wide one is many times faster, so the ends are
/// done apart.
struct FillPiece {
  std::uint64_t from = 0, to = 0;  // from the beginning of the range; equal: nothing
  std::size_t width = 1;           // bytes of the pattern
};
std::array<FillPiece, 3> fill_pieces(const Place& place, std::uint64_t size);
std::array<std::uint8_t, 16> fill_pattern(std::uint8_t byte);

/// Enqueues the filling of a range with one byte. Where `events` is given, what was enqueued is appended.
void enqueue_fill(crucible_device& device, const Queue& queue, const Place& place, std::uint64_t size,
                  std::uint8_t byte, std::vector<Event>* events = nullptr);
/// The same for a copy of at least one byte.
void enqueue_copy(crucible_device& device, const Place& to, const Place& from, std::uint64_t size,
                  std::vector<Event>* events = nullptr);

}  // namespace crucible_opencl
