// One launch for many: a kernel around the texts of others (thread_kernel.hpp) that does the work of several launches
// of them, each for blocks of its own. What each launch is - which kernel, buffers, scalars, how many blocks - stands
// in a table in the device's memory. The text of the work is the same, character by character, and a block does in it
// what it would do in a launch of its own: so the bits are the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugins/sdk/thread_kernel.hpp"

namespace crucible::sdk {

/// How CUDA and HIP spell what a buffer's pointer points to: "const float".
std::string pointee(const IrBuffer& buffer);

/// The text of `printed`, the kernel `name`, as a function that a batch's kernel calls, and the words of that call.
/// Empty where there is none: its buffers come from a table of their own.
BatchPart batch_part(const Kernel& kernel, const Dialect& dialect, const std::string& name,
                     const ThreadKernel& printed);

/// "NAME_batch" of the first kernel: what finds that one by its name finds this as well. Of several kernels there is a
/// number in it that is theirs.
std::string batch_name(std::span<const std::string> kernels);

/// The kernel `name`, whose arguments are the table's address and how many launches it has.
std::string print_batch_kernel(std::span<const BatchPart> parts, const Dialect& dialect, const std::string& name);

/// What one launch of a batch is.
struct BatchEntry {
  std::span<const std::uint64_t> buffers, scalars;  // addresses; eight bytes each, as the kernel takes them
  std::int64_t begin = 0, end = 0;                  // items
  std::size_t part = 0;                             // which of the kernel's
  std::uint32_t at_once = 1;                        // items that a thread does at once (ThreadKernel::items)
};

/// A batch as it is launched: the words of its table, eight bytes each, and the launch's shape.
struct BatchTable {
  std::vector<std::uint64_t> words;
  std::vector<std::size_t> first_scalar;  // of each entry: the word
  LaunchShape shape;                      // of all of them together
};

/// Arguments as launch_shape() takes them. Every block has as many threads as the largest entry would have of its own.
/// Throws Failure UNSUPPORTED for more blocks than a launch has.
BatchTable make_batch(std::span<const BatchEntry> entries, std::uint32_t most_threads, std::uint64_t units,
                      std::uint32_t lanes);

}  // namespace crucible::sdk
