// One launch for many: a kernel around the text of another one (thread_kernel.hpp) that does the work of several
// launches of it, each for blocks of its own. What each launch is - buffers, scalars, how many blocks - stands in a
// table in the device's memory. The text of the work is the same, character by character, and a block does in it what
// it would do in a launch of its own: so the bits are the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugins/sdk/thread_kernel.hpp"

namespace crucible::sdk {

/// "NAME_batch": what finds the kernel by its name finds this as well.
std::string batch_name(const std::string& name);

/// The kernel batch_name(name), whose arguments are the table's address and how many launches it has; for the kernel
/// whose text is `printed`. "" where there is none: its buffers come from a table of their own.
std::string print_batch_kernel(const Kernel& kernel, const Dialect& dialect, const std::string& name,
                               const ThreadKernel& printed);

/// What one launch of a batch is.
struct BatchEntry {
  std::span<const std::uint64_t> buffers, scalars;  // addresses; eight bytes each, as the kernel takes them
  std::int64_t begin = 0, end = 0;                  // items
};

/// A batch as it is launched: the words of its table, eight bytes each, and the launch's shape.
struct BatchTable {
  std::vector<std::uint64_t> words;
  std::vector<std::size_t> first_scalar;  // of each entry: the word
  LaunchShape shape;                      // of all of them together
};

/// All entries are of one kernel; arguments as launch_shape() takes them. Every block has as many threads as the
/// largest entry would have of its own. Throws Failure UNSUPPORTED for more blocks than a launch has.
BatchTable make_batch(std::span<const BatchEntry> entries, std::uint32_t most_threads, std::uint64_t units,
                      std::uint32_t lanes);

}  // namespace crucible::sdk
