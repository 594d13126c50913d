// Kernels as OpenCL C that takes buffers and offsets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/opencl/device.hpp"
#include "plugins/sdk/kernel_ir.hpp"

namespace crucible_opencl {

/// How a kernel gets its buffers.
enum class Buffers : std::uint8_t {
  kArguments,     // each as two arguments: a cl_mem and an offset in bytes
  kTable,         // kTableMemories memories, and a table of two numbers per buffer: which memory, the offset in bytes
  kPointers,      // each as one argument, its address
  kPointerTable,  // a table of addresses
};
constexpr bool is_table(Buffers buffers) { return buffers == Buffers::kTable || buffers == Buffers::kPointerTable; }
inline constexpr std::size_t kTableMemories = 8;

/// As arguments where a device takes so many bytes of them. `pointers`: addresses are pointers.
Buffers choose_buffers(const crucible::sdk::Kernel& kernel, std::uint64_t most_argument_bytes, bool pointers);

/// The kernel `name`, whose arguments are, in this order: the buffers (a table is `__global const ulong*`, behind the
/// memories where there are any), the scalars (double or long), and the launch's begin, end and chunk (long).
std::string kernel_text(const crucible::sdk::Kernel& kernel, std::string_view name, Mapping mapping, Buffers buffers);

/// Bytes of those arguments, to be compared with what a device takes.
std::uint64_t argument_bytes(const crucible::sdk::Kernel& kernel, Buffers buffers);

}  // namespace crucible_opencl
