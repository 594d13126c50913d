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

/// Which work-items do what.
struct ItemShape {
  std::uint32_t lanes = 1;         // those that do an item together
  std::uint32_t most_threads = 0;  // of a group; 0: as the device likes
  std::uint32_t items = 1;         // neighbours that one does at once
  std::uint32_t alignment = 1;     // of the buffers
};

struct KernelText {
  std::string text;
  ItemShape shape;
};

/// The kernel `name`, whose arguments are, in this order: the buffers (a table is `__global const ulong*`, behind the
/// memories where there are any), the scalars (double or long), and the launch's begin, end and chunk (long).
KernelText kernel_text(const crucible::sdk::Kernel& kernel, std::string_view name, const crucible_device& device,
                       Buffers buffers);

/// The types and mathematics in front of such texts.
std::string text_before_kernels(const crucible_device& device);

/// Bytes of those arguments, to be compared with what a device takes.
std::uint64_t argument_bytes(const crucible::sdk::Kernel& kernel, Buffers buffers);

}  // namespace crucible_opencl
